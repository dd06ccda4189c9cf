//! What can go wrong, and the exit code that tells it.

use cudarc::driver::DriverError;

/// Why the program ends early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command line asks for what cannot be done.
    #[error("{0}")]
    Input(String),
    /// There is no driver library.
    #[error(
        "no CUDA driver: libcuda.so.1 cannot be loaded; install the NVIDIA driver, or put the \
         folder of a libcuda.so.1 on LD_LIBRARY_PATH"
    )]
    NoDriver,
    /// The driver has no such GPU.
    #[error("there is no GPU {index}: this machine has {count}; see --info")]
    NoGpu {
        /// The index asked for.
        index: u32,
        /// How many there are.
        count: u32,
    },
    /// A driver call failed.
    #[error("{doing}: {}", said(*source))]
    Cuda {
        /// What was being done.
        doing: String,
        /// What the driver said.
        source: DriverError,
    },
}

impl Failure {
    /// The process's exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Input(_) | Self::NoDriver | Self::NoGpu { .. } => 2,
            Self::Cuda { .. } => 3,
        }
    }
}

/// The driver's name and text of an error.
fn said(error: DriverError) -> String {
    match (error.error_name(), error.error_string()) {
        (Ok(name), Ok(text)) => format!("{} ({})", name.to_string_lossy(), text.to_string_lossy()),
        // A code that this driver does not know.
        _ => format!("CUDA error {}", error.0 as u32),
    }
}

/// Says what was being done when a driver call failed.
pub(crate) trait Doing<T> {
    /// Adds `doing` to the error.
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T> Doing<T> for Result<T, DriverError> {
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|source| Failure::Cuda {
            doing: doing(),
            source,
        })
    }
}
