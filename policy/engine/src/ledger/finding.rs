//! What the ledger tells the daemon after a sample.

use core::fmt;

use rtswap_policy::units::Bytes;

/// How an agent's report of a process differs from the other witnesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disagreement {
    /// The process holds memory, but no agent reports any.
    Untracked,
    /// The agent reports more than there is.
    Overreport,
    /// The agent reports less than there is.
    Underreport,
    /// NVML shows more than the agent reports, but no call of the process that the probes know took
    /// that memory. It may be variables and code of modules, a larger context, or older than the
    /// probes, so it does not prove that the agent lies.
    Unaccounted,
    /// What the process held before the probes were attached is not known.
    BaselineUnknown,
}

impl Disagreement {
    /// The name in status, D-Bus and log.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Untracked => "untracked",
            Self::Overreport => "overreport",
            Self::Underreport => "underreport",
            Self::Unaccounted => "unaccounted",
            Self::BaselineUnknown => "baseline-unknown",
        }
    }

    /// Whether the agent reports less than there is, with intent or not.
    pub(super) const fn is_shortfall(self) -> bool {
        matches!(
            self,
            Self::Underreport | Self::Untracked | Self::Unaccounted
        )
    }
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Something that the log should tell and the daemon may act upon. `disagreement` is none where one
/// ended; sizes are the bytes of process `pid` by the witness that the field names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields share the sentence above")]
pub enum Finding {
    /// A disagreement between NVML and an agent began, changed or ended.
    Named {
        pid: u32,
        disagreement: Option<Disagreement>,
        nvml: Bytes,
        agent: Bytes,
    },
    /// A disagreement between the probes and an agent began, changed or ended.
    Counted {
        pid: u32,
        disagreement: Option<Disagreement>,
        counted: Bytes,
        agent: Bytes,
    },
    /// NVML shows none of the managed processes: it numbers processes by another PID namespace.
    Blind,
    /// NVML shows an unmanaged process that holds more than a context, for the first time.
    Unmanaged { pid: u32, nvml: Bytes },
    /// A multi-process server (MPS) runs, so NVML cannot tell what each process holds.
    Shared,
}
