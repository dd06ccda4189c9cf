//! What a process sees of the machine between nvmlInit and nvmlShutdown.

use std::io::ErrorKind;
use std::sync::{Mutex, PoisonError};

use simgpu_core::Observer;
use simgpu_core::config::{Config, GpuConfig};
use simgpu_core::machine::{MachineError, default_dir};

use crate::status::{Result, Status};

/// The machine, as it is at the time of a call.
pub(crate) enum View {
    /// There is one.
    Machine(Observer),
    /// No process has made one yet; this is what it would be, and all of it free.
    Configured(Config),
}

struct Library {
    /// How often nvmlInit was called without a matching nvmlShutdown.
    inits: usize,
    /// None unless initialised.
    view: Option<View>,
}

static LIBRARY: Mutex<Library> = Mutex::new(Library {
    inits: 0,
    view: None,
});

/// nvmlInit. Why it fails is also told on stderr: a code alone could not say it.
pub(crate) fn init() -> Result<()> {
    locked(|library| {
        library.refresh().map_err(|error| {
            eprintln!("simgpu: {error}");
            Status::from(&error)
        })?;
        library.inits += 1;
        Ok(())
    })
}

/// nvmlShutdown: the last one ends it.
pub(crate) fn shutdown() -> Result<()> {
    locked(|library| {
        library.inits = library.inits.checked_sub(1).ok_or(Status::Uninitialized)?;
        if library.inits == 0 {
            library.view = None;
        }
        Ok(())
    })
}

/// Whether nvmlInit was called.
pub(crate) fn is_initialized() -> Result<()> {
    locked(|library| library.is_initialized())
}

/// Looks at the machine as it is now; `see` gets every answer from one state of it.
pub(crate) fn look<T>(see: impl FnOnce(&View) -> Result<T>) -> Result<T> {
    locked(|library| {
        library.is_initialized()?;
        see(library.refresh().map_err(|error| Status::from(&error))?)
    })
}

fn locked<T>(body: impl FnOnce(&mut Library) -> T) -> T {
    // A panic leaves the words whole: each change is one step.
    body(&mut LIBRARY.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Library {
    fn is_initialized(&self) -> Result<()> {
        if self.inits > 0 {
            Ok(())
        } else {
            Err(Status::Uninitialized)
        }
    }

    /// A machine can be made, removed and made anew while programs look.
    fn refresh(&mut self) -> Result<&View, MachineError> {
        let dir = default_dir();
        let now = match self.view.take() {
            Some(View::Machine(observer)) if observer.is_in(&dir) => View::Machine(observer),
            before => match Observer::open(&dir) {
                Ok(observer) => View::Machine(observer),
                Err(error) if is_absence(&error) => match before {
                    Some(View::Configured(config)) => View::Configured(config),
                    _ => View::Configured(Config::from_env()?.unwrap_or_default()),
                },
                Err(error) => return Err(error),
            },
        };
        Ok(self.view.insert(now))
    }
}

fn is_absence(error: &MachineError) -> bool {
    matches!(error, MachineError::System { source, .. } if source.kind() == ErrorKind::NotFound)
}

impl View {
    /// What the GPUs are made of.
    pub(crate) fn config(&self) -> &Config {
        match self {
            Self::Machine(observer) => observer.config(),
            Self::Configured(config) => config,
        }
    }

    /// What one GPU is made of; a GPU that was there and is not is lost.
    pub(crate) fn gpu(&self, gpu: usize) -> Result<&GpuConfig> {
        self.config().gpus.get(gpu).ok_or(Status::GpuIsLost)
    }

    /// The machine, if there is one.
    pub(crate) fn machine(&self) -> Option<&Observer> {
        match self {
            Self::Machine(observer) => Some(observer),
            Self::Configured(_) => None,
        }
    }
}
