//! Why a unit is not attached or detached.

use std::io;
use std::path::PathBuf;

use super::plan::Unregistrable;

/// Why a service is left as it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnitError {
    #[error("{typed:?} names no service: {why}")]
    Name { typed: String, why: &'static str },
    #[error("system services are root's: use sudo, or --user for a service of your own manager")]
    NotRoot,
    #[error(
        "neither XDG_CONFIG_HOME nor HOME is an absolute path, and your units are there; set one"
    )]
    NoHome,
    #[error("{call} fails: {why}")]
    Systemctl { call: String, why: String },
    #[error(
        "there is no {unit}; {systemctl} list-unit-files --type=service lists those that there are"
    )]
    NotFound {
        unit: String,
        systemctl: &'static str,
    },
    #[error(
        "{unit} cannot be started, because systemd calls it {state}; systemctl status {unit} says more"
    )]
    NotLoaded { unit: String, state: String },
    #[error(
        "{0} is transient and ends with its process; start the program by rtswapctl run instead"
    )]
    Transient(String),
    #[error("{unit} would run without rtswap: {obstacle}")]
    Sandbox { unit: String, obstacle: String },
    #[error("{unit} can have no {option}: {why}")]
    Unregistrable {
        unit: String,
        option: &'static str,
        why: Unregistrable,
    },
    #[error("{} was not written by rtswapctl attach; move it away first", .0.display())]
    Foreign(PathBuf),
    #[error("cannot change {}: {source}", .path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    #[error("{0} is not attached")]
    NotAttached(String),
}

impl UnitError {
    /// As the manual has the exit codes: 1 no, 2 bad input, 4 denied.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Name { .. } | Self::NoHome | Self::Unregistrable { .. } => 2,
            Self::NotRoot => 4,
            _ => 1,
        }
    }
}
