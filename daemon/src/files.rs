//! The administrator's files: read at the start, and again when asked to.

use std::path::PathBuf;
use std::sync::Arc;

use rtswap_dbus::Error;
use rtswap_engine::input::{Call, TaskFile};

use crate::config::{self, Config, ConfigError};
use crate::dispatch::{Handle, OpenCall, Request};

/// The paths of the files.
#[derive(Clone, Debug)]
pub struct Files {
    config: PathBuf,
    /// The path was given by the user, so the file must exist.
    named: bool,
}

/// The contents of the files.
#[derive(Debug)]
pub struct Contents {
    /// The settings in rtswapd.toml, or the defaults where there is no such file, and the rules in policy.toml.
    pub config: Config,
    /// The tasks declared in tasks.d, one for each file that was accepted.
    pub tasks: Vec<TaskFile>,
    /// The errors of the files in tasks.d that were not accepted.
    pub errors: Vec<ConfigError>,
}

impl Files {
    /// Of the file that the user named, else [`config::DEFAULT_FILE`], with policy.toml and tasks.d beside it.
    pub fn new(named: Option<PathBuf>) -> Self {
        Self {
            named: named.is_some(),
            config: named.unwrap_or_else(|| PathBuf::from(config::DEFAULT_FILE)),
        }
    }

    /// Reads all files. An error only where rtswapd.toml or policy.toml is wrong, since a policy that is left out would
    /// allow what it forbids; errors of tasks.d are in the result.
    pub fn read(&self) -> Result<Contents, ConfigError> {
        let mut config = config::load(&self.config, self.named)?;
        config.engine.rules = config::load_policy(&self.config.with_file_name("policy.toml"))?;
        let (tasks, errors) = config::load_tasks(&self.config.with_file_name("tasks.d"));
        Ok(Contents {
            config,
            tasks,
            errors,
        })
    }

    /// Reads all files again and puts them into effect. If any file is wrong, nothing changes.
    pub async fn reload(self: &Arc<Self>, handle: &Handle) -> Result<(), Error> {
        let files = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || files.read()).await;
        let read = read.map_err(|error| Error::Busy(format!("cannot read the files: {error}")))?;
        let contents = read.map_err(|error| Error::InvalidArgument(error.to_string()))?;
        if !contents.errors.is_empty() {
            let errors: Vec<_> = contents.errors.iter().map(ToString::to_string).collect();
            return Err(Error::InvalidArgument(errors.join("; ")));
        }
        let Config { daemon, engine } = contents.config;
        let call = Call::Reload {
            config: engine,
            tasks: contents.tasks,
        };
        let reload = |reply| {
            let config = daemon;
            Request::Call(Box::new(call), OpenCall::Reload { config, reply })
        };
        handle.call(reload).await
    }
}
