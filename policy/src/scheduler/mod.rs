//! EDF with bounded swap volumes, sans IO: `handle(now, event)`, then `poll_command()` until
//! empty, then `poll_timeout()`.

pub mod command;
pub mod event;

pub use command::{Command, Direction, JobAccount, JobEnd, ViolationKind};
pub use event::{Event, JobKind, JobSeq, OpenJob, SwapOutcome, SwapSeq, Usage, WantSeq};
