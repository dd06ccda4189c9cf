//! `rtswapctl cdi generate`: the agent as a device of the Container Device Interface, by which Podman, Docker, containerd and
//! CRI-O bring it into containers.
//!
//! The specification: <https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md>. Only fields of version
//! 0.3.0 are used, the oldest that is still read, so that Podman 4.3 of Debian 12 takes the file as later ones do.

use std::path::Path;

use rtswap_dbus::connect::DEFAULT_RUNTIME_DIR;
use rtswapctl::cli::{CdiCommand, CdiGenerateOptions};
use serde::Serialize;

use crate::failure::Failure;
use crate::{agent, files, output};

const VERSION: &str = "0.3.0";
const KIND: &str = "rtswap.org/agent";
const DEVICE: &str = "all";

/// Where the agent is in a container, below a folder that no image has.
const FOLDER: &str = "/usr/lib/rtswap";
/// What glibc's loader makes of `$LIB`, by distribution. No other loader expands it: in an image of musl nothing is
/// preloaded, where a path would end each program.
const LIB: [&str; 3] = ["lib/x86_64-linux-gnu", "lib64", "lib"];
const AGENT: &str = "librtswap_cuda.so";

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    cdi_version: &'a str,
    kind: &'a str,
    devices: [Device<'a>; 1],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Device<'a> {
    name: &'a str,
    container_edits: Edits<'a>,
}

#[derive(Debug, Serialize)]
struct Edits<'a> {
    env: [String; 1],
    mounts: Vec<Mount<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Mount<'a> {
    host_path: &'a Path,
    container_path: String,
    options: [&'a str; 4],
}

/// Does what is typed.
pub(crate) fn cdi(runtime_dir: Option<&Path>, command: &CdiCommand) -> Result<(), Failure> {
    match command {
        CdiCommand::Generate(options) => generate(runtime_dir, options),
    }
}

fn generate(runtime_dir: Option<&Path>, options: &CdiGenerateOptions) -> Result<(), Failure> {
    let agent = agent::find(options.agent.as_deref())?;
    let runtime_dir = std::path::absolute(runtime_dir.unwrap_or(Path::new(DEFAULT_RUNTIME_DIR)))?;
    let text =
        serde_json::to_string_pretty(&spec(&agent, &runtime_dir)).expect("plain data") + "\n";
    match &options.output {
        None => output::script(text.as_bytes()),
        Some(file) => files::write(file, &text),
    }
}

/// The agent at `agent` and the daemon's folder, for containers.
fn spec<'a>(agent: &'a Path, runtime_dir: &'a Path) -> Spec<'a> {
    let mount = |host_path, container_path, access| Mount {
        host_path,
        container_path,
        options: [access, "nosuid", "nodev", "bind"],
    };
    let libraries = LIB.map(|lib| mount(agent, format!("{FOLDER}/{lib}/{AGENT}"), "ro"));
    let mut mounts = Vec::from(libraries);
    // A socket takes connections wherever its folder may be read.
    mounts.push(mount(runtime_dir, DEFAULT_RUNTIME_DIR.to_owned(), "ro"));
    Spec {
        cdi_version: VERSION,
        kind: KIND,
        devices: [Device {
            name: DEVICE,
            container_edits: Edits {
                env: [format!("LD_PRELOAD={FOLDER}/$LIB/{AGENT}")],
                mounts,
            },
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_is_where_every_glibc_looks_and_the_socket_where_the_agent_does() {
        let spec = spec(Path::new("/a/agent.so"), Path::new("/b"));
        let spec = serde_json::to_value(spec).unwrap();
        assert_eq!(spec["cdiVersion"], "0.3.0");
        let edits = &spec["devices"][0]["containerEdits"];
        assert_eq!(
            edits["env"][0],
            "LD_PRELOAD=/usr/lib/rtswap/$LIB/librtswap_cuda.so"
        );
        let mounts: Vec<_> = edits["mounts"].as_array().unwrap().iter().collect();
        let at = |path: &str| {
            let found = mounts.iter().find(|mount| mount["containerPath"] == path);
            found.map(|mount| mount["hostPath"].clone())
        };
        for lib in ["lib/x86_64-linux-gnu", "lib64", "lib"] {
            let place = format!("/usr/lib/rtswap/{lib}/librtswap_cuda.so");
            assert_eq!(at(&place), Some("/a/agent.so".into()));
        }
        assert_eq!(at("/run/rtswap"), Some("/b".into()));
    }
}
