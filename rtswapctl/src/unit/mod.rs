//! `rtswapctl attach` and `detach`: a systemd service gets the agent by a drop-in, and its task a registration in `tasks.d`.
//! `name` reads unit names, `systemd` asks for what is known of a unit, `plan` decides what it gets, `sandbox` finds what would
//! be in the way, `drop_in` and `registration` are the texts, `files` writes and removes them.

mod drop_in;
mod error;
mod files;
mod name;
mod plan;
mod registration;
mod sandbox;
mod systemd;

use std::path::{Path, PathBuf};

use rtswap_dbus::connect::{DEFAULT_RUNTIME_DIR, RUNTIME_DIR_VARIABLE};
use rtswapctl::cli::{AttachOptions, DetachOptions};

use self::drop_in::DropIn;
pub(crate) use self::error::UnitError;
use self::files::Changes;
use self::name::UnitName;
use self::plan::Tasks;
use self::registration::Registration;
use self::sandbox::Obstacle;
use self::systemd::Systemd;
use crate::failure::Failure;
use crate::profile::store;
use crate::run::{TASK_VARIABLE, declared, profile_for};
use crate::{agent, output, reload};

/// How each file of an attached unit begins.
const MARK: &str = "# Written by rtswapctl attach";
/// Beside the configuration that the packaged rtswapd reads.
const TASKS: &str = "/etc/rtswap/tasks.d";

/// The files of one attached unit.
#[derive(Debug)]
struct Places {
    drop_in: PathBuf,
    /// None for a user's unit.
    registration: Option<PathBuf>,
}

/// Gives a service the agent, from its next start on.
pub(crate) fn attach(runtime_dir: Option<&Path>, options: &AttachOptions) -> Result<(), Failure> {
    let typed = UnitName::parse(&options.unit)?;
    let systemd = Systemd::of(options.user)?;
    let service = systemd.service(&typed)?;
    // A drop-in belongs to the unit itself, not to an alias.
    let name = match service.one("Id") {
        id if typed.is_template() || id.is_empty() => typed,
        id => UnitName::parse(id)?,
    };
    let places = Places::of(&name, systemd)?;
    let tasks = plan::tasks(&name, options, runtime_dir.is_some(), &service)?;

    let library = agent::find(options.agent.as_deref())?;
    let file = library.file_name().unwrap_or_default().to_string_lossy();
    let path = agent::loader_path(&library)?;
    let present = service.variable("LD_PRELOAD");
    let preload = drop_in::preload(&path.to_string_lossy(), &file, present.as_deref());
    let folder = runtime_dir.unwrap_or(Path::new(DEFAULT_RUNTIME_DIR));
    for obstacle in sandbox::obstacles(&service, &preload, &library, folder) {
        match obstacle {
            Obstacle::Doubt(text) => output::note(&format!("{}: {text}", name.full())),
            Obstacle::Fatal(obstacle) => {
                let unit = name.full().to_owned();
                return Err(UnitError::Sandbox { unit, obstacle }.into());
            }
        }
    }

    let removal = systemd.removal(&name);
    let mut variables = vec![("LD_PRELOAD", preload)];
    if let Tasks::One { name, .. } = &tasks {
        variables.push((TASK_VARIABLE, name.clone()));
    }
    if let Some(folder) = runtime_dir {
        variables.push((RUNTIME_DIR_VARIABLE, folder.display().to_string()));
    }
    let drop_in = DropIn {
        removal: &removal,
        is_ordered: !options.user && runtime_dir.is_none(),
        variables: &variables,
    };
    let registration = match &tasks {
        Tasks::One { name, user } => {
            let profile = profile_for(&options.declaration, name, "PROGRAM", store::find)?;
            let registration = Registration {
                removal: &removal,
                name,
                user,
                declared: &declared(&options.declaration, profile.as_ref()),
            };
            Some(registration.text())
        }
        Tasks::Apart(_) => None,
    };
    places.fill(systemd, &drop_in.text(), registration.as_deref())?;

    let what = match &tasks {
        Tasks::One { name, user } => format!("its processes are the task {name} of {user}"),
        Tasks::Apart(why) => {
            format!("each of its processes is a best-effort task by itself, because {why}")
        }
    };
    output::text(&format!(
        "{unit} is attached by {}; {what}\nit takes effect at the next start: {} restart {}\n",
        places.drop_in.display(),
        systemd.systemctl(),
        name.started(),
        unit = name.full(),
    ))
}

/// Removes what [`attach`] wrote for a service.
pub(crate) fn detach(options: &DetachOptions) -> Result<(), Failure> {
    let name = UnitName::parse(&options.unit)?;
    let systemd = Systemd::of(options.user)?;
    let places = Places::of(&name, systemd)?;
    let had_drop_in = files::remove(&places.drop_in)?;
    let had_task = match &places.registration {
        Some(path) => files::remove(path)?,
        None => false,
    };
    if !had_drop_in && !had_task {
        return Err(UnitError::NotAttached(name.full().to_owned()).into());
    }
    systemd.reload()?;
    if had_task {
        reload_daemon("forgets the task")?;
    }
    output::text(&format!(
        "{} is detached\nit takes effect at the next start: {} restart {}\n",
        name.full(),
        systemd.systemctl(),
        name.started(),
    ))
}

impl Places {
    fn of(name: &UnitName, systemd: Systemd) -> Result<Self, UnitError> {
        let folder = format!("{}.d", name.full());
        let drop_in = systemd.units()?.join(folder).join("50-rtswap.conf");
        let task = Path::new(TASKS).join(format!("{}.toml", name.full()));
        Ok(Self {
            drop_in,
            registration: (!systemd.is_user).then_some(task),
        })
    }

    /// Writes the files and has them read, or leaves all as it was.
    fn fill(
        &self,
        systemd: Systemd,
        drop_in: &str,
        registration: Option<&str>,
    ) -> Result<(), Failure> {
        let mut changes = Changes::default();
        let done = self.write(&mut changes, systemd, drop_in, registration);
        if done.is_err() {
            output::note("the service stays as it was, for the reason below");
            changes.undo();
            if self.registration.is_some() {
                // The first failure is the one to tell.
                let _ = reload::reload(None);
            }
        }
        done
    }

    fn write(
        &self,
        changes: &mut Changes,
        systemd: Systemd,
        drop_in: &str,
        registration: Option<&str>,
    ) -> Result<(), Failure> {
        match (&self.registration, registration) {
            (Some(path), Some(text)) => {
                changes.write(path, text)?;
                reload_daemon("registers the task")?;
            }
            // The service may have had another user when it was attached before.
            (Some(path), None) => {
                if changes.remove(path)? {
                    reload_daemon("forgets the task")?;
                }
            }
            (None, _) => {}
        }
        changes.write(&self.drop_in, drop_in)?;
        Ok(systemd.reload()?)
    }
}

/// Has rtswapd read its files. One that does not run does so when it starts.
fn reload_daemon(purpose: &str) -> Result<(), Failure> {
    match reload::reload(None) {
        Err(failure @ Failure::Connect(_)) => {
            output::note(&format!("{failure}; it {purpose} when it starts"));
            Ok(())
        }
        done => done,
    }
}
