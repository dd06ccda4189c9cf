//! `rtswapctl run`: register, then become the program.
//!
//! The program takes this process over (exec), so that its signals, its exit code, its parent's
//! view of it and systemd's notion of the main process are what they would be without rtswap. The
//! lease of the registration is a descriptor that it inherits: the registration ends with the last
//! of its processes.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rtswap_dbus::connect::RUNTIME_DIR_VARIABLE;
use rtswap_dbus::{Manager1Proxy, Options};
use rustix::io::FdFlags;

use crate::cli::{Class, RunOptions};
use crate::daemon::converse;
use crate::failure::Failure;

const AGENT: &str = "librtswap_cuda.so";
const SYSTEM_FOLDER: &str = concat!("/usr/lib/", std::env!("RTSWAP_MULTIARCH"));
/// What the agent reads its task's name from.
const TASK_VARIABLE: &str = "RTSWAP_TASK";

/// Returns only if the program could not be started.
pub(crate) fn run(runtime_dir: Option<&Path>, options: &RunOptions) -> Result<(), Failure> {
    missing(options)?;
    let name = name(options)?;
    let agent = agent(options.agent.as_deref())?;
    let preload = preload(&agent)?;
    let (program, arguments) = options.program.split_first().expect("clap requires one");
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("LD_PRELOAD", preload)
        .env(TASK_VARIABLE, &name);
    // The agent looks where the task was registered.
    if let Some(runtime_dir) = runtime_dir {
        command.env(RUNTIME_DIR_VARIABLE, runtime_dir);
    }

    let declared = declared(options);
    let lease = converse(async {
        let connection = rtswap_dbus::find(runtime_dir).await?;
        let manager = Manager1Proxy::new(&connection)
            .await
            .map_err(rtswap_dbus::Error::from)?;
        let (_, lease) = manager
            .register_with_lease(&name, declared.into_wire())
            .await?;
        Ok(OwnedFd::from(lease))
    })?;
    rustix::io::fcntl_setfd(&lease, FdFlags::empty()).map_err(std::io::Error::from)?;
    let source = command.exec();
    Err(Failure::Start {
        program: program.to_string_lossy().into_owned(),
        source,
    })
}

/// A realtime task must say all its numbers; each one that it does not is named.
fn missing(options: &RunOptions) -> Result<(), Failure> {
    let realtime = match options.class {
        Some(class) => class == Class::Realtime,
        None => options.period.is_some(),
    };
    let needed = [
        ("--period", options.period.is_some()),
        ("--wcet", options.wcet.is_some()),
        ("--footprint", options.footprint.is_some()),
        ("--swappable", options.swappable.is_some()),
    ];
    let absent: Vec<_> = needed
        .iter()
        .filter(|(_, given)| !given)
        .map(|(name, _)| *name)
        .collect();
    if realtime && !absent.is_empty() {
        return Err(Failure::Missing(absent));
    }
    Ok(())
}

fn name(options: &RunOptions) -> Result<String, Failure> {
    let program = Path::new(&options.program[0]);
    let file = program.file_name().unwrap_or_default().to_string_lossy();
    let name = options.name.clone().unwrap_or_else(|| file.into_owned());
    let letters = name
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    if letters && (1..=63).contains(&name.len()) {
        Ok(name)
    } else {
        Err(Failure::Name(name))
    }
}

/// The library that is named, else the one beside this program, else the system's.
fn agent(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let system = Path::new(SYSTEM_FOLDER).join(AGENT);
    let candidates = if let Some(path) = named {
        vec![path.to_path_buf()]
    } else {
        let beside = std::env::current_exe()?.with_file_name(AGENT);
        vec![beside, system]
    };
    let found = candidates.iter().find(|path| path.is_file());
    let found = found.ok_or_else(|| Failure::NoAgent(candidates.last().expect("one").clone()))?;
    Ok(found.canonicalize()?)
}

/// The agent ahead of what is preloaded already. The system's by a path that glibc's loader alone
/// expands: musl's would end each of its programs that the started one starts in turn.
fn preload(agent: &Path) -> Result<OsString, Failure> {
    let text = agent.to_string_lossy();
    if text.contains([' ', ':']) {
        return Err(Failure::AgentPath(agent.to_path_buf()));
    }
    let mut preload = if agent == Path::new(SYSTEM_FOLDER).join(AGENT) {
        OsString::from(format!("/usr/$LIB/{AGENT}"))
    } else {
        agent.as_os_str().to_owned()
    };
    if let Some(present) = std::env::var_os("LD_PRELOAD").filter(|present| !present.is_empty()) {
        preload.push(":");
        preload.push(present);
    }
    Ok(preload)
}

fn declared(options: &RunOptions) -> Options {
    Options {
        period: options.period,
        deadline: options.deadline,
        wcet: options.wcet,
        footprint: options.footprint.clone(),
        swappable: options.swappable.clone(),
        gpu: options.gpu.clone(),
        class: options.class.map(|class| match class {
            Class::Realtime => "realtime".to_owned(),
            Class::BestEffort => "best-effort".to_owned(),
        }),
        pidfd: None,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command as Typed};

    fn typed(arguments: &[&str]) -> RunOptions {
        let typed = ["rtswapctl", "run"]
            .iter()
            .chain(arguments)
            .chain(&["--", "/usr/bin/true"]);
        match Cli::try_parse_from(typed).unwrap().command {
            Typed::Run(options) => options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_realtime_task_is_told_all_that_it_lacks() {
        let Err(Failure::Missing(absent)) = missing(&typed(&["--period", "33ms"])) else {
            panic!("accepted");
        };
        assert_eq!(absent, ["--wcet", "--footprint", "--swappable"]);
        let Err(failure) = missing(&typed(&["--class", "realtime", "--wcet", "3ms"])) else {
            panic!("accepted");
        };
        assert!(
            failure
                .to_string()
                .starts_with("a realtime task needs --period, --footprint, --sw")
        );
        assert!(missing(&typed(&[])).is_ok());
        assert!(missing(&typed(&["--period", "33ms", "--class", "best-effort"])).is_ok());
    }

    #[test]
    fn the_name_is_the_programs_unless_given() {
        assert_eq!(name(&typed(&[])).unwrap(), "true");
        assert_eq!(name(&typed(&["--name", "yolo-608"])).unwrap(), "yolo-608");
        assert!(matches!(
            name(&typed(&["--name", "a/b"])),
            Err(Failure::Name(_))
        ));
    }

    #[test]
    fn an_agent_that_is_not_there_is_an_error() {
        let failure = agent(Some(Path::new("/nonexistent/agent.so"))).unwrap_err();
        assert!(failure.to_string().contains("/nonexistent/agent.so"));
        assert!(matches!(
            preload(Path::new("/a b/agent.so")),
            Err(Failure::AgentPath(_))
        ));
        let first = |agent: &Path| {
            let preload = preload(agent).unwrap().into_string().unwrap();
            preload.split(':').next().map(str::to_owned)
        };
        let system = first(&Path::new(SYSTEM_FOLDER).join(AGENT));
        assert_eq!(system.as_deref(), Some("/usr/$LIB/librtswap_cuda.so"));
        assert_eq!(
            first(Path::new("/a/agent.so")).as_deref(),
            Some("/a/agent.so")
        );
    }
}
