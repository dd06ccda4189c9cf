//! Which tasks the processes of a service are.

use std::fmt;

use super::UnitError;
use super::name::UnitName;
use super::systemd::Properties;
use crate::cli::{AttachOptions, Class, Declaration};
use crate::failure::Failure;
use crate::run::task_name;

/// The tasks of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tasks {
    /// All its processes are one, which is registered for the user that the service runs as, by name or number.
    One { name: String, user: String },
    /// Each process is one by itself.
    Apart(Unregistrable),
}

/// Why a service's task is not registered in advance. Each of its processes is then a best-effort task by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unregistrable {
    /// It was asked for.
    PerProcess,
    /// A user's manager runs it.
    OfUser,
    /// It is a template: its instances would be one task.
    Template,
    /// Its user id is drawn at each start.
    DynamicUser,
    /// Its daemon was named by its folder.
    OtherDaemon,
}

impl fmt::Display for Unregistrable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PerProcess => "--per-process says so",
            Self::OfUser => "tasks are registered for system services alone",
            Self::Template => "all instances of a template would be one task; attach an instance",
            Self::DynamicUser => {
                "a task belongs to a user, and DynamicUser= draws another at each start"
            }
            Self::OtherDaemon => {
                "tasks are registered with the system's rtswapd, and --runtime-dir names another"
            }
        })
    }
}

/// Decides on the tasks of a service. An option is an error if it needs a registration and there can be none.
pub(super) fn tasks(
    name: &UnitName,
    options: &AttachOptions,
    has_runtime_dir: bool,
    service: &Properties,
) -> Result<Tasks, Failure> {
    let why = if options.per_process {
        Unregistrable::PerProcess
    } else if options.user {
        Unregistrable::OfUser
    } else if name.is_template() {
        Unregistrable::Template
    } else if service.is("DynamicUser") {
        Unregistrable::DynamicUser
    } else if has_runtime_dir {
        Unregistrable::OtherDaemon
    } else {
        let user = match service.one("User") {
            "" => "root",
            user => user,
        };
        return Ok(Tasks::One {
            name: task_name(options.name.as_deref(), &[name.task().into()])?,
            user: user.to_owned(),
        });
    };
    let needing = options.name.is_some().then_some("--name");
    match needing.or_else(|| declared_option(&options.declaration)) {
        Some(option) => Err(Failure::Unit(UnitError::Unregistrable {
            unit: name.full().to_owned(),
            option,
            why,
        })),
        None => Ok(Tasks::Apart(why)),
    }
}

/// The first option that declares something which no process declares by itself.
fn declared_option(declaration: &Declaration) -> Option<&'static str> {
    let given = [
        ("--period", declaration.period.is_some()),
        ("--deadline", declaration.deadline.is_some()),
        ("--wcet", declaration.wcet.is_some()),
        ("--footprint", declaration.footprint.is_some()),
        ("--swappable", declaration.swappable.is_some()),
        ("--weight", declaration.weight.is_some()),
        ("--idle-after", declaration.idle_after.is_some()),
        ("--gpu", declaration.gpu.is_some()),
        (
            "--class realtime",
            declaration.class == Some(Class::Realtime),
        ),
    ];
    let mut given = given.into_iter().filter(|(_, is_given)| *is_given);
    given.next().map(|(option, _)| option)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn planned(arguments: &[&str], has_runtime_dir: bool, text: &str) -> Result<Tasks, Failure> {
        let typed = ["rtswapctl", "attach"].iter().chain(arguments);
        let Command::Attach(options) = Cli::try_parse_from(typed).unwrap().command else {
            panic!("{arguments:?}");
        };
        let name = UnitName::parse(&options.unit)?;
        tasks(&name, &options, has_runtime_dir, &Properties::parse(text))
    }

    #[test]
    fn a_task_belongs_to_the_user_that_the_service_runs_as() {
        let one = |arguments: &[&str], text| match planned(arguments, false, text).unwrap() {
            Tasks::One { name, user } => (name, user),
            apart @ Tasks::Apart(_) => panic!("{apart:?}"),
        };
        let ollama = one(&["ollama", "--weight", "200"], "User=bot");
        assert_eq!(ollama, ("ollama".into(), "bot".into()));
        let named = one(&["llama@chat", "--name", "chat"], "User=");
        assert_eq!(named, ("chat".into(), "root".into()));
        assert_eq!(one(&["llama@chat"], "User=1").0, "llama-chat");
        let long = planned(&[&"a".repeat(64)], false, "").unwrap_err();
        assert!(long.to_string().contains("give one with --name"));
    }

    #[test]
    fn where_no_user_is_known_before_each_process_is_a_task_by_itself() {
        let why = |arguments: &[&str], has_runtime_dir, text| match planned(
            arguments,
            has_runtime_dir,
            text,
        )
        .unwrap()
        {
            Tasks::Apart(why) => why,
            one @ Tasks::One { .. } => panic!("{one:?}"),
        };
        let dynamic = "DynamicUser=yes\nUser=a";
        let best_effort = ["a", "--class", "best-effort"];
        assert_eq!(why(&["a", "--user"], false, ""), Unregistrable::OfUser);
        let asked = why(&["a", "--per-process"], false, "User=x");
        assert_eq!(asked, Unregistrable::PerProcess);
        assert_eq!(why(&["a@"], false, "User=x"), Unregistrable::Template);
        assert_eq!(why(&["a"], false, dynamic), Unregistrable::DynamicUser);
        assert_eq!(
            why(&best_effort, false, dynamic),
            Unregistrable::DynamicUser
        );
        assert_eq!(why(&["a"], true, "User=x"), Unregistrable::OtherDaemon);
        for option in [
            ["--name", "b"],
            ["--period", "33ms"],
            ["--weight", "50"],
            ["--gpu", "0"],
            ["--class", "realtime"],
        ] {
            let refused = planned(&["a", option[0], option[1]], false, dynamic).unwrap_err();
            let text = refused.to_string();
            assert!(
                text.contains(option[0]) && text.contains("DynamicUser="),
                "{text}"
            );
        }
    }
}
