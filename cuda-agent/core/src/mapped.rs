//! Where the driver treats memory that is mapped, as all of ours is, otherwise than what its own cuMemAlloc gives: such a
//! call is answered or completed here, as it is without rtswap.

use crate::agent::Agent;
use crate::cuda::Context;
use crate::ops::Owner;

/// The kind of memory (a CUmemorytype) and the address of an end of a copy.
pub type End = (u32, u64);

/// Whether a copy names a kind of memory that CUmemorytype does not list.
#[inline]
pub fn is_of_unknown_kind(ends: [End; 2]) -> bool {
    ends.iter().any(|(kind, _)| !matches!(kind, 1..=4))
}

impl Agent {
    /// Whether a copy names what cuMemAlloc gave as of an unknown kind. Driver 580.159 refuses that for memory of its own
    /// cuMemAlloc, but copies mapped memory of kind 0.
    pub fn refuses(&self, ends: [End; 2]) -> bool {
        let mut unknown = ends.into_iter().filter(|&end| is_of_unknown_kind([end; 2]));
        unknown.any(|(_, at)| self.context_at(at).is_some())
    }

    /// The context of what cuMemAlloc gave at an address. Where a graph's node names no context, driver 580.159 takes that
    /// of its memory, and refuses the node if it finds none, as behind mapped memory.
    pub fn context_at(&self, address: u64) -> Option<Context> {
        match self.allocated_at(address)?.ok()?.owner {
            Owner::Context(context) => Some(context),
            Owner::Pool(_) | Owner::Program => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::tests::{CHUNK, bench};
    use crate::cuda::Stream;

    const DEVICE: u32 = 2;

    #[test]
    fn a_copy_of_unknown_kind_is_refused_for_what_cumemalloc_gave() {
        let bench = bench("kinds", |_| ());
        let at = bench.alloc(CHUNK);
        for kind in [0, 5, 77, 1 << 31, u32::MAX] {
            let odd = (kind, at + 8);
            assert!(is_of_unknown_kind([odd, (DEVICE, at)]));
            assert!(bench.agent.refuses([odd, (DEVICE, at)]));
            assert!(bench.agent.refuses([(DEVICE, at), odd]));
            let elsewhere = [(kind, 8), (DEVICE, at)];
            assert!(!bench.agent.refuses(elsewhere), "the driver's own");
        }
        assert!((1..=4).all(|kind| !is_of_unknown_kind([(kind, at); 2])));
        assert!(!bench.agent.refuses([(DEVICE, at); 2]));
    }

    #[test]
    fn memory_of_cumemalloc_has_a_context_and_a_pools_has_none() {
        let bench = bench("contexts", |_| ());
        let at = bench.alloc(CHUNK);
        let current = bench.agent.current_known().map(|(_, context)| context);
        assert!(current.is_some());
        assert_eq!(bench.agent.context_at(at + CHUNK - 1), current);
        assert_eq!(bench.agent.context_at(at + CHUNK), None);
        let ordered = bench.agent.alloc_async(CHUNK, Stream::LEGACY, None);
        let ordered = ordered.expect("managed").expect("there is room");
        assert_eq!(bench.agent.context_at(ordered), None);
    }
}
