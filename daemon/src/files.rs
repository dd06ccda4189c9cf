//! The administrator's files: read at the start, and again when asked to.

use std::path::PathBuf;
use std::sync::Arc;

use rtswap_dbus::Error;
use rtswap_engine::input::TaskFile;

use crate::config::{self, Config, ConfigError};
use crate::dispatch::{Handle, Request};

/// Where they are.
#[derive(Clone, Debug)]
pub struct Files {
    config: PathBuf,
    /// The user named it, so it must be there.
    named: bool,
}

/// What they say.
#[derive(Debug)]
pub struct Said {
    /// rtswapd.toml.
    pub config: Config,
    /// tasks.d.
    pub tasks: Vec<TaskFile>,
    /// What of tasks.d could not be taken.
    pub errors: Vec<ConfigError>,
}

impl Files {
    /// Of the file that the user named, else [`config::DEFAULT_FILE`], and tasks.d beside it.
    pub fn new(named: Option<PathBuf>) -> Self {
        Self {
            named: named.is_some(),
            config: named.unwrap_or_else(|| PathBuf::from(config::DEFAULT_FILE)),
        }
    }

    /// Reads them all.
    pub fn read(&self) -> Result<Said, ConfigError> {
        let config = config::load(&self.config, self.named)?;
        let (tasks, errors) = config::load_tasks(&self.config.with_file_name("tasks.d"));
        Ok(Said {
            config,
            tasks,
            errors,
        })
    }

    /// Reads them again and puts them into effect. Where one is wrong, all stays as it was.
    pub async fn reload(self: &Arc<Self>, handle: &Handle) -> Result<(), Error> {
        let files = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || files.read()).await;
        let read = read.map_err(|error| Error::Busy(format!("cannot read the files: {error}")))?;
        let said = read.map_err(|error| Error::InvalidArgument(error.to_string()))?;
        if !said.errors.is_empty() {
            let errors: Vec<_> = said.errors.iter().map(ToString::to_string).collect();
            return Err(Error::InvalidArgument(errors.join("; ")));
        }
        let reload = |reply| Request::Reload {
            config: said.config,
            tasks: said.tasks,
            reply,
        };
        handle.call(reload).await
    }
}
