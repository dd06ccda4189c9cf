//! Programs as people run them on one GPU, each with a file of its own, and mixes of them that do not fit
//! together. All numbers are assumed or rounded from what is publicly known of such programs, as each file
//! says; none was recorded.

mod batch;
mod card;
mod chat;
mod images;
mod mixes;
mod training;

pub use batch::batch;
pub use card::Card;
pub use chat::chat;
pub use images::images;
pub use mixes::{MIXES, Mix, Program};
pub use training::training;

use alloc::string::ToString;

use rtswap_policy::task::{Class, MemoryProfile, TaskSpec, Weight};
use rtswap_policy::units::Nanos;

use crate::scenario::{Arrivals, Execution, SimTask};

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLISECOND;

/// A best-effort program that is there from the beginning, with jobs of `least` to `most`.
fn program(
    name: &str,
    memory: MemoryProfile,
    arrivals: Arrivals,
    (least, most): (u64, u64),
) -> SimTask {
    let spec = TaskSpec {
        name: name.to_string(),
        class: Class::BestEffort,
        memory,
        weight: Weight::default(),
        idle_after: None,
    };
    let (least, most) = (Nanos(least), Nanos(most));
    SimTask {
        arrivals,
        execution: Execution::Between { least, most },
        ..SimTask::new(spec, most)
    }
}
