//! Why a call is refused.

use alloc::string::String;

use crate::ids::RegistrationId;

/// Why a call is refused, with what to do. The kinds are D-Bus's (`org.rtswap.Error`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// An argument cannot be right.
    #[error("{0}")]
    InvalidArgument(String),
    /// The caller may not.
    #[error("{0}")]
    AccessDenied(String),
    /// No such registration.
    #[error("{0} is not there")]
    NoSuchTask(RegistrationId),
    /// No such GPU.
    #[error("{0}")]
    NoSuchGpu(String),
    /// The admission test says no.
    #[error("{0}")]
    NotSchedulable(String),
    /// The task of that name runs by a plan from its dataflow graph, and nothing executes such plans.
    #[error(
        "the task {0} runs by a plan from its graph, and rtswapd has no executor for such plans yet; on a \
         GPU that holds its footprint, declare its wcet, footprint and swappable instead"
    )]
    NeedsExecutor(String),
    /// The process that the call is about has lost the connection of its agent.
    #[error("{0}")]
    AgentLost(String),
    /// A limit is reached, or an operation is under way that excludes the call: it may succeed later.
    #[error("{0}")]
    Busy(String),
}
