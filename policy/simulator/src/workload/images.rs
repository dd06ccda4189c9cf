//! Image generation.

use rtswap_policy::task::MemoryProfile;
use rtswap_policy::units::Nanos;

use super::{MILLISECOND, SECOND, program};
use crate::scenario::{Arrivals, SimTask};

/// A user has one to four images made from a text, looks at them and tries another text after one to
/// three minutes.
///
/// An image takes 5 to 12 s, about what diffusion models of 14 GiB take for 20 to 50 steps on a consumer card;
/// between two of them the program encodes and writes for 200 ms. All numbers are assumed.
pub fn images(name: &str, memory: MemoryProfile) -> SimTask {
    let arrivals = Arrivals::Thinks {
        jobs: (1, 4),
        pause: Nanos(200 * MILLISECOND),
        think: (Nanos(60 * SECOND), Nanos(180 * SECOND)),
    };
    program(name, memory, arrivals, (5 * SECOND, 12 * SECOND))
}
