//! A chat with a language model.

use rtswap_policy::task::MemoryProfile;
use rtswap_policy::units::Nanos;

use super::{MILLISECOND, SECOND, program};
use crate::scenario::{Arrivals, SimTask};

/// A user asks, reads the answer and asks again after 5 to 60 s. The model answers in one to three parts,
/// between which a tool runs for 300 ms.
///
/// A part of 50 to 300 tokens takes 1 to 5 s, because decoding reads all weights for each token: at 936 GB/s
/// of an RTX 3090 and 14 GiB that is 60 tokens a second, and the same on a card with more of both. The
/// times of user and tool are assumed.
pub fn chat(name: &str, memory: MemoryProfile) -> SimTask {
    let arrivals = Arrivals::Thinks {
        jobs: (1, 3),
        pause: Nanos(300 * MILLISECOND),
        think: (Nanos(5 * SECOND), Nanos(60 * SECOND)),
    };
    program(name, memory, arrivals, (SECOND, 5 * SECOND))
}
