//! Trials: programs under a private daemon, to measure what a machine or a model does.
//!
//! `daemon` is the private daemon, `child` a program that does not outlive the trial, `neighbor` one that loads the copy
//! engines, `interrupt` the wish to stop, `place` the GPU and the programs that a trial needs, `company` the tasks that are
//! there too, `stalls` whether the host let programs run.

pub(crate) mod child;
pub(crate) mod company;
pub(crate) mod daemon;
pub(crate) mod interrupt;
pub(crate) mod neighbor;
pub(crate) mod place;
pub(crate) mod stalls;

use std::path::PathBuf;
use std::time::Duration;

/// Why a trial cannot be made or came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrialError {
    #[error("{program} is not at {}; install the package {package}", .path.display())]
    Absent {
        program: &'static str,
        path: PathBuf,
        package: &'static str,
    },
    #[error("cannot start {program}: {source}")]
    Start {
        program: String,
        source: std::io::Error,
    },
    #[error("{program} ended ({status}): {said}")]
    Ended {
        program: String,
        status: std::process::ExitStatus,
        said: String,
    },
    #[error("{what}: not within {} s", .bound.as_secs())]
    Late { what: String, bound: Duration },
    #[error("the GPU driver tells nothing: {0}; rtswapctl doctor says more")]
    Driver(String),
    #[error("no GPU is {wanted}: there is {there}")]
    NoSuchGpu { wanted: String, there: String },
    #[error("interrupted: nothing was kept")]
    Interrupted,
    #[error(transparent)]
    Bus(#[from] rtswap_dbus::Error),
    #[error(transparent)]
    Connect(#[from] rtswap_dbus::connect::ConnectError),
    #[error(transparent)]
    System(#[from] std::io::Error),
}
