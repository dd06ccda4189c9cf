//! Why there are no probes, in words that say what to do.

use std::io;
use std::path::PathBuf;

use aya::maps::MapError;
use rustix::io::Errno;

/// Why there are no probes.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's doc says what its fields are")]
pub enum Problem {
    /// There is no object for this kind of machine.
    #[error("there are none for {} yet, only for x86_64", std::env::consts::ARCH)]
    Machine,
    /// The kernel has no uprobes, as the missing file `path` shows.
    #[error(
        "this kernel has no uprobes ({} is missing): CONFIG_UPROBE_EVENTS and CONFIG_BPF_EVENTS have to \
         be set", path.display()
    )]
    Kernel { path: PathBuf },
    /// There is no tracefs to be read, because of `cause`.
    #[error(
        "tracefs is not to be had ({cause}): mount it, `mount -t tracefs none /sys/kernel/tracing`"
    )]
    Tracefs { cause: io::Error },
    /// The daemon may not load the programs, because of `cause`.
    #[error(
        "eBPF programs may not be loaded ({cause}): rtswapd needs CAP_BPF and CAP_PERFMON (CAP_SYS_ADMIN \
         before Linux 5.8), and kernel lockdown at most `integrity`"
    )]
    Load { cause: String },
    /// The kernel's verifier refuses the programs: `cause` is the first line of its reason.
    #[error(
        "the kernel does not take the eBPF programs: {cause}; Linux 5.15 or later has all they need"
    )]
    Refused { cause: String },
    /// The daemon may not attach the programs, because of `cause`.
    #[error(
        "eBPF programs may not be attached ({cause}): rtswapd needs CAP_PERFMON for that, and \
         CAP_SYS_ADMIN before Linux 6.6"
    )]
    Attach { cause: String },
    /// The object lacks the map or program `what`, which this daemon was built for.
    #[error("the eBPF object lacks {what}: rtswapd was built wrongly")]
    Object { what: &'static str },
    /// A thread cannot be started, or no descriptor is left.
    #[error("no resources for the probes: {0}")]
    System(#[from] io::Error),
}

type Cause = dyn std::error::Error + 'static;

impl Problem {
    /// Of loading the object or one of its programs.
    pub(super) fn of_load(error: &Cause) -> Self {
        Self::of_loading(error, chain(error))
    }

    /// Of loading one program by a call of our own.
    pub(super) fn of_load_call(name: &str, error: &io::Error) -> Self {
        Self::of_loading(error, format!("{name}: {error}"))
    }

    fn of_loading(error: &Cause, cause: String) -> Self {
        // A verifier that refuses a program says EACCES.
        if denial(error) == Some(Errno::PERM) {
            Self::Load { cause }
        } else {
            Self::Refused { cause }
        }
    }

    /// Of reading the object.
    pub(super) fn of_object(error: &Cause) -> Self {
        let cause = chain(error);
        Self::Refused { cause }
    }

    /// Of attaching programs.
    pub(super) fn of_attach(error: &Cause) -> Self {
        let cause = chain(error);
        if denial(error).is_some() {
            Self::Attach { cause }
        } else {
            Self::Refused { cause }
        }
    }
}

impl From<MapError> for Problem {
    fn from(error: MapError) -> Self {
        Self::of_object(&error)
    }
}

/// How the kernel said that we may not.
fn denial(error: &Cause) -> Option<Errno> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            let errno = Errno::from_io_error(error)?;
            return [Errno::PERM, Errno::ACCESS]
                .contains(&errno)
                .then_some(errno);
        }
        next = error.source();
    }
    None
}

/// An error with what caused it, each said once.
fn chain(error: &Cause) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let cause = error.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
        next = error.source();
    }
    // The verifier's whole log is of use only when the programs are built.
    text.lines().next().unwrap_or_default().to_owned()
}
