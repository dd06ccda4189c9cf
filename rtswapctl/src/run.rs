//! `rtswapctl run`: register, then become the program.
//!
//! The program takes this process over (exec), so that its signals, its exit code, its parent's
//! view of it and systemd's notion of the main process are what they would be without rtswap. The
//! lease of the registration is a descriptor that it inherits: the registration ends with the last
//! of its processes.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rtswap_dbus::connect::RUNTIME_DIR_VARIABLE;
use rtswap_dbus::objects::{self, Objects};
use rtswap_dbus::{Manager1Proxy, Options, Size};
use rtswap_policy::units::Bytes;
use rtswap_taskset::profile::Profile;
use rustix::io::FdFlags;
use zbus::OwnedObjectPath;

use crate::agent;
use crate::cli::{Class, Declaration, RunOptions};
use crate::daemon::{converse, gpu_at};
use crate::failure::Failure;
use crate::output;
use crate::profile::{store, text};

/// How long a daemon may take to be back: at an upgrade the scripts of the package run in between.
const PATIENCE: Duration = Duration::from_secs(8);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(100);
/// What the agent reads its task's name from.
pub(crate) const TASK_VARIABLE: &str = "RTSWAP_TASK";

/// Returns only if the program could not be started.
pub(crate) fn run(runtime_dir: Option<&Path>, options: &RunOptions) -> Result<(), Failure> {
    let name = task_name(options.name.as_deref(), &options.program)?;
    let program = text::command(&options.program);
    let profile = profile_for(&options.declaration, &name, &program, store::find)?;
    let agent = agent::find(options.agent.as_deref())?;
    let preload = agent::preload(&agent)?;
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

    let lease = patiently(|| register(runtime_dir, &name, options, profile.as_ref()))?;
    rustix::io::fcntl_setfd(&lease, FdFlags::empty()).map_err(std::io::Error::from)?;
    let source = command.exec();
    Err(Failure::Start {
        program: program.to_string_lossy().into_owned(),
        source,
    })
}

/// Registers the task. Returns its lease. Says so if the task is on another GPU than its profile.
fn register(
    runtime_dir: Option<&Path>,
    name: &str,
    options: &RunOptions,
    profile: Option<&Profile>,
) -> Result<OwnedFd, Failure> {
    let declared = declared(&options.declaration, profile);
    converse(async {
        let connection = rtswap_dbus::find(runtime_dir).await?;
        let manager = Manager1Proxy::new(&connection)
            .await
            .map_err(rtswap_dbus::Error::from)?;
        let registered = manager.register_with_lease(name, declared.into_wire());
        let (task, lease) = registered.await?;
        if let Some(profile) = profile {
            let objects = objects::list(&connection).await;
            let program = text::command(&options.program);
            let text = objects
                .ok()
                .and_then(|objects| elsewhere(&objects, &task, profile, &program));
            if let Some(text) = text {
                output::note(&text);
            }
        }
        Ok(OwnedFd::from(lease))
    })
}

/// What there is to say where a task is on another GPU than the one on which its profile was measured.
fn elsewhere(
    objects: &Objects,
    task: &OwnedObjectPath,
    profile: &Profile,
    program: &str,
) -> Option<String> {
    let own = objects.tasks.iter().find(|(path, _)| path == task);
    let gpu = gpu_at(objects, &own?.1.gpu)?;
    let Profile {
        name, gpu: seen, ..
    } = profile;
    let (index, uuid) = (gpu.index, &gpu.uuid);
    (uuid != seen).then(|| {
        format!(
            "{name} was measured on {seen} and is on GPU {index}, {uuid}, where its C and its footprint may be others; measure \
             there by rtswapctl profile --name {name} --gpu {uuid} -- {program}"
        )
    })
}

/// Tries again for a while where the daemon seems to be restarting, and says so once.
fn patiently<T>(attempt: impl Fn() -> Result<T, Failure>) -> Result<T, Failure> {
    let start = Instant::now();
    let mut is_said = false;
    loop {
        let failure = match attempt() {
            Ok(done) => return Ok(done),
            Err(failure) => failure,
        };
        // A call that was lost may have registered the task: its name is free again once the daemon that
        // is back has seen that nobody holds the lease.
        let is_own = is_said && matches!(failure, Failure::Refused(rtswap_dbus::Error::Busy(_)));
        if start.elapsed() >= PATIENCE || !(failure.is_restart() || is_own) {
            return Err(failure);
        }
        if !is_said {
            let seconds = PATIENCE.as_secs();
            output::note(&format!(
                "{failure}; rtswapd may be restarting: trying again for {seconds} s"
            ));
            is_said = true;
        }
        thread::sleep(PAUSE);
    }
}

/// The profile of a realtime task that does not say all its numbers, and says that it was measured; an error that names
/// what is there in neither.
pub(crate) fn profile_for(
    options: &Declaration,
    name: &str,
    program: &str,
    find: impl Fn(&str) -> Result<Option<Profile>, Failure>,
) -> Result<Option<Profile>, Failure> {
    let realtime = match options.class {
        Some(class) => class == Class::Realtime,
        None => options.period.is_some(),
    };
    let measured = [
        ("--wcet", options.wcet.is_some()),
        ("--footprint", options.footprint.is_some()),
        ("--swappable", options.swappable.is_some()),
    ];
    let lacking = measured.into_iter().filter(|(_, given)| !given);
    let lacking: Vec<_> = lacking.map(|(name, _)| name).collect();
    if !realtime {
        return Ok(None);
    }
    let profile = match lacking.as_slice() {
        [] => None,
        _ => find(name)?,
    };
    let period = options.period.is_none().then_some("--period");
    let lacking = lacking.into_iter().filter(|_| profile.is_none());
    let absent: Vec<_> = period.into_iter().chain(lacking).collect();
    if !absent.is_empty() {
        return Err(Failure::Missing {
            absent,
            name: name.to_owned(),
            program: program.to_owned(),
        });
    }
    if let Some(profile) = &profile {
        output::note(&text::promise(profile));
    }
    Ok(profile)
}

/// The name that is given, or the program's.
pub(crate) fn task_name(given: Option<&str>, program: &[OsString]) -> Result<String, Failure> {
    let file = Path::new(&program[0]).file_name().unwrap_or_default();
    let name = given.map_or_else(|| file.to_string_lossy().into_owned(), str::to_owned);
    if is_task_name(&name) {
        Ok(name)
    } else {
        Err(Failure::Name(name))
    }
}

/// Whether it can name a task.
pub(crate) fn is_task_name(name: &str) -> bool {
    let letters = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    name.bytes().all(letters) && (1..=63).contains(&name.len())
}

/// What is typed, and what of the rest was measured.
pub(crate) fn declared(options: &Declaration, profile: Option<&Profile>) -> Options {
    let size = |bytes: Bytes| Size::Bytes(bytes.0);
    let memory = profile.map(|profile| profile.memory);
    Options {
        period: options.period,
        deadline: options.deadline,
        wcet: options
            .wcet
            .or_else(|| profile.map(|profile| Duration::from_nanos(profile.wcet.0))),
        footprint: options
            .footprint
            .clone()
            .or_else(|| memory.map(|memory| size(memory.footprint))),
        swappable: options
            .swappable
            .clone()
            .or_else(|| memory.map(|memory| size(memory.swappable))),
        weight: options.weight,
        idle_after: options.idle_after,
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
    use rtswap_dbus::{GpuProperties, TaskProperties};

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
        let complete = |arguments: &[&str]| {
            let declaration = typed(arguments).declaration;
            profile_for(&declaration, "yolo", "/usr/bin/true", |_| Ok(None))
        };
        let said = |arguments: &[&str]| complete(arguments).unwrap_err().to_string();
        assert_eq!(
            said(&["--period", "33ms"]),
            "a realtime task needs --wcet, --footprint, --swappable; measure by rtswapctl profile --name yolo -- \
             /usr/bin/true, or leave out --period to run it best-effort"
        );
        let said = said(&["--class", "realtime", "--wcet", "3ms"]);
        assert!(said.starts_with("a realtime task needs --period, --footprint, --sw"));
        assert!(complete(&[]).is_ok());
        assert!(complete(&["--period", "33ms", "--class", "best-effort"]).is_ok());
    }

    #[test]
    fn a_profile_says_what_is_not_typed() {
        let declaration = typed(&["--period", "33ms", "--footprint", "20MiB"]).declaration;
        let found = |_: &str| Ok(Some(store::tests::profile()));
        let profile = profile_for(&declaration, "yolo", "infer", found).unwrap();
        let declared = declared(&declaration, profile.as_ref());
        assert_eq!(declared.wcet, Some(Duration::from_micros(12_400)));
        assert_eq!(declared.footprint, Some(Size::Bytes(20 << 20)));
        assert_eq!(declared.swappable, Some(Size::Bytes(10 << 20)));
    }

    #[test]
    fn a_profile_of_another_gpu_is_told_with_how_to_measure_anew() {
        let profile = store::tests::profile();
        let on = |uuid: &str| {
            let gpu = GpuProperties {
                uuid: uuid.into(),
                index: 1,
                ..GpuProperties::default()
            };
            let task = TaskProperties {
                gpu: rtswap_dbus::gpu_path(1),
                ..TaskProperties::default()
            };
            let objects = Objects {
                gpus: vec![(rtswap_dbus::gpu_path(1), gpu)],
                tasks: vec![(rtswap_dbus::task_path(7), task)],
                others: Vec::new(),
            };
            elsewhere(
                &objects,
                &rtswap_dbus::task_path(7),
                &profile,
                "infer 'a b'",
            )
        };
        assert_eq!(on(&profile.gpu), None);
        let text = on("GPU-b").unwrap();
        assert!(text.starts_with(
            "yolo was measured on GPU-01234567-89ab-cdef-0123-456789abcdef and is on GPU 1, GPU-b,"
        ));
        assert!(
            text.ends_with("by rtswapctl profile --name yolo --gpu GPU-b -- infer 'a b'"),
            "{text}"
        );
    }

    #[test]
    fn a_weight_is_checked_before_the_daemon_is_asked() {
        assert_eq!(
            declared(&typed(&["--weight", "200"]).declaration, None).weight,
            Some(200)
        );
        assert_eq!(declared(&typed(&[]).declaration, None).weight, None);
        for wrong in ["0", "10001", "-1", "much"] {
            let typed = ["rtswapctl", "run", "--weight", wrong, "--", "true"];
            assert!(Cli::try_parse_from(typed).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_what_a_restart_looks_like_is_tried_again() {
        let lost = || Failure::Refused(rtswap_dbus::Error::Ending("rtswapd is ending".into()));
        let busy = || Failure::Refused(rtswap_dbus::Error::Busy("the name is taken".into()));
        let attempts = |failures: Vec<Failure>| {
            let failures = std::cell::RefCell::new(failures.into_iter());
            let result = patiently(|| failures.borrow_mut().next().map_or(Ok(()), Err));
            (result, failures.into_inner().count())
        };
        assert!(matches!(
            attempts(vec![lost(), busy(), lost()]),
            (Ok(()), 0)
        ));
        let (result, left) = attempts(vec![busy(), lost()]);
        assert!(matches!((result, left), (Err(Failure::Refused(_)), 1)));
        let (result, left) = attempts(vec![Failure::No, lost()]);
        assert!(matches!((result, left), (Err(Failure::No), 1)));
    }

    #[test]
    fn the_name_is_the_programs_unless_given() {
        let name = |arguments: &[&str]| {
            let options = typed(arguments);
            task_name(options.name.as_deref(), &options.program)
        };
        assert_eq!(name(&[]).unwrap(), "true");
        assert_eq!(name(&["--name", "yolo-608"]).unwrap(), "yolo-608");
        assert!(matches!(name(&["--name", "a/b"]), Err(Failure::Name(_))));
    }
}
