//! The driver's own account of the GPUs: `nvml` reads it, `mig` finds MIG instances, `identities` keeps
//! the processes' identities, `driver` asks the CUDA driver where NVML shows no GPU, `describe` says all that the doctor wants to know, `poller`
//! reads periodically on a thread of its own, because a call to NVML may take as long as the driver likes.

mod describe;
mod driver;
mod identities;
mod mig;
mod nvml;
mod poller;

pub use describe::describe;
pub use driver::answer;
pub use nvml::open;
pub use poller::{Poller, spawn};

use std::sync::Arc;

use rtswap_engine::sample::{Identity, Sample};

use crate::origin;
use crate::sys::clock::now;
use crate::sys::peer::{self, Stat};

/// A sample that shows nothing, as of now.
fn begin() -> Sample {
    Sample {
        began: now(),
        gpus: Vec::new(),
        left_alone: Vec::new(),
        named: Vec::new(),
    }
}

/// Identifies process `pid` by /proc; none once it is gone. Its start comes last: a process that
/// took its number meanwhile started later.
pub fn identify(pid: u32) -> Option<Identity> {
    let uid = peer::owner(pid)?;
    let origin = origin::of_process(pid).map(Arc::from);
    let Stat { comm, start_ticks } = peer::stat(pid)?;
    Some(Identity {
        uid,
        comm,
        origin,
        start_ticks,
    })
}
