//! Where things are, by `cargo metadata`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use cargo_metadata::{Metadata, MetadataCommand};

use crate::process::Run;

/// The simulated driver's libraries as they are built, and as programs look for them.
pub(crate) const SIMGPU: [(&str, [&str; 2]); 2] = [
    ("libsimgpu_cuda.so", ["libcuda.so.1", "libcuda.so"]),
    (
        "libsimgpu_nvml.so",
        ["libnvidia-ml.so.1", "libnvidia-ml.so"],
    ),
];

/// rtswap itself, the simulated GPU and a program to run on it: what nearly all that is tried needs.
const STACK: [&str; 6] = [
    "rtswapd",
    "rtswapctl",
    "rtswap-cuda",
    "simgpu-cuda",
    "simgpu-nvml",
    "dnn",
];

/// What tells cargo to build all of it, and `others`.
pub(crate) fn stack_and<'a>(others: &[&'a str]) -> Vec<&'a str> {
    let packages = STACK.iter().chain(others);
    packages.flat_map(|package| ["-p", *package]).collect()
}

/// The workspace that this program was built in.
pub(crate) struct Workspace {
    /// What cargo knows of it.
    pub metadata: Metadata,
}

impl Workspace {
    /// Asks cargo; nothing is downloaded for it.
    pub(crate) fn read() -> Result<Self> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
        let mut command = MetadataCommand::new();
        command.manifest_path(manifest).no_deps();
        let metadata = command.exec().context("reading the workspace")?;
        Ok(Self { metadata })
    }

    /// Its root folder.
    pub(crate) fn root(&self) -> &Path {
        self.metadata.workspace_root.as_std_path()
    }

    /// The folder of all build outputs.
    pub(crate) fn target(&self) -> &Path {
        self.metadata.target_directory.as_std_path()
    }

    /// `cargo ARGUMENTS` in the root folder.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Run {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        Run::new(cargo, self.root()).args(arguments)
    }

    /// Builds everything with its tests, as they use it; the folder of what was built. Always the whole workspace: of
    /// a part cargo would build many dependencies anew, with that part's features.
    pub(crate) fn debug(&self) -> Result<PathBuf> {
        self.cargo(&["build", "--workspace", "--all-targets"])
            .succeed()?;
        let folder = self.target().join("debug");
        link_simgpu(&folder)?;
        Ok(folder)
    }

    /// Builds rtswap, the simulated GPU and `others`, optimised, for this machine; the folder of
    /// what was built.
    pub(crate) fn release(&self, others: &[&str]) -> Result<PathBuf> {
        self.cargo(&["build", "--release"])
            .args(&stack_and(others))
            .succeed()?;
        Ok(self.target().join("release"))
    }

    /// As [`Self::release`], but soon, with little of it optimised.
    pub(crate) fn demo(&self, others: &[&str]) -> Result<PathBuf> {
        self.cargo(&["build", "--profile", "demo"])
            .args(&stack_and(others))
            .succeed()?;
        Ok(self.target().join("demo"))
    }
}

/// Links the simulated driver's libraries among what was built in `built` into a folder of their
/// own, under the names by which programs load them, so that no `cargo run` picks them up by
/// accident; the folder.
pub(crate) fn link_simgpu(built: &Path) -> Result<PathBuf> {
    let folder = built.join("simgpu");
    fs::create_dir_all(&folder)?;
    for (library, names) in SIMGPU {
        let library = built.join(library);
        ensure!(library.exists(), "{} was not built", library.display());
        for name in names {
            let link = folder.join(name);
            if let Err(error) = fs::remove_file(&link)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                return Err(error).with_context(|| format!("replacing {}", link.display()));
            }
            symlink(&library, &link).with_context(|| format!("linking {}", link.display()))?;
        }
    }
    Ok(folder)
}
