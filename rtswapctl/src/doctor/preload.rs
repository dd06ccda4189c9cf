//! The agent: whether it is there, and the dynamic loader takes it into a program.

use std::process::{Command, Stdio};

use super::finding::Finding;
use crate::agent;

/// The glibc that the agent is built for.
const GLIBC: (u32, u32) = (2, 28);

pub(super) fn check() -> Vec<Finding> {
    vec![glibc(), loads()]
}

fn glibc() -> Finding {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    judge_glibc(text.unwrap_or_default().trim())
}

/// `text` is what getconf(1) says, such as `glibc 2.36`.
fn judge_glibc(text: &str) -> Finding {
    let (major, minor) = GLIBC;
    let version = text.strip_prefix("glibc ").and_then(|text| {
        let (major, minor) = text.split_once('.')?;
        Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
    });
    match version {
        Some(version) if version >= GLIBC => Finding::ok("glibc", text),
        Some(_) => Finding::fault(
            "glibc",
            format!("{text}, and the agent needs {major}.{minor} or later"),
            "upgrade the distribution, or run programs in a container of a newer one",
        ),
        None => Finding::warning(
            "glibc",
            "getconf knows no glibc: the agent cannot be preloaded into programs of another C library",
            "run programs in a container that has glibc",
        ),
    }
}

/// Starts a program with the agent: this one, which ends at once.
fn loads() -> Finding {
    let agent = match agent::find(None) {
        Ok(agent) => agent,
        Err(failure) => {
            return Finding::fault(
                "agent",
                failure.to_string(),
                "sudo apt install --reinstall rtswap",
            );
        }
    };
    let started = agent::preload(&agent)
        .map_err(|failure| failure.to_string())
        .and_then(|preload| {
            Command::new("/proc/self/exe")
                .arg("--version")
                .env("LD_PRELOAD", preload)
                .env("LC_ALL", "C")
                .stdin(Stdio::null())
                .output()
                .map_err(|error| error.to_string())
        });
    let agent = agent.display();
    match started {
        Ok(output) if output.status.success() && output.stderr.is_empty() => {
            Finding::ok("agent", format!("{agent} loads"))
        }
        Ok(output) => refused(&agent.to_string(), &String::from_utf8_lossy(&output.stderr)),
        Err(why) => refused(&agent.to_string(), &why),
    }
}

/// The loader's own words say why.
fn refused(agent: &str, said: &str) -> Finding {
    let why = said
        .lines()
        .next()
        .unwrap_or("the program that it was loaded into ended");
    let mend = if said.contains("GLIBC_") {
        "it is built for a newer system: sudo apt install --reinstall rtswap"
    } else {
        "sudo apt install --reinstall rtswap; what else is in LD_PRELOAD must load, too"
    };
    Finding::fault("agent", format!("{agent} does not load: {why}"), mend)
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn a_glibc_is_new_enough_or_not() {
        assert_eq!(judge_glibc("glibc 2.36").level, Level::Ok);
        assert_eq!(judge_glibc("glibc 2.28").level, Level::Ok);
        assert_eq!(judge_glibc("glibc 2.17").level, Level::Fault);
        assert_eq!(judge_glibc("").level, Level::Warning);
    }

    #[test]
    fn the_loaders_words_are_passed_on() {
        let said =
            "/bin/x: /lib/libc.so.6: version `GLIBC_2.99' not found (required by /agent.so)\nmore";
        let finding = refused("/agent.so", said);
        assert!(
            finding.found.ends_with("(required by /agent.so)"),
            "{finding:?}"
        );
        assert!(finding.mend.unwrap().contains("newer system"));
    }
}
