//! The GPU and the tasks of the tests.

use rtswap_policy::admission::Test;
use rtswap_policy::assign::Objective;
use rtswap_policy::cost::{DirectionCost, SwapCost};
use rtswap_policy::scheduler::{Config, Overrun, Sharing, Undrained};
use rtswap_policy::task::{Class, MemoryProfile, TaskSpec, Timing, Weight};
use rtswap_policy::units::{Bytes, Nanos, Ppm};

/// δ, and the unit of sizes.
pub(crate) const CHUNK: Bytes = Bytes(10);
/// The unit of times.
pub(crate) const MS: u64 = 1_000_000;

/// A copy engine that takes `per_chunk` ns for each chunk.
pub(crate) const fn engine(per_chunk: u64) -> DirectionCost {
    DirectionCost {
        base: Nanos::ZERO,
        per_chunk: Nanos(per_chunk),
        bytes_per_second: u64::MAX,
    }
}

pub(crate) fn config(capacity: u64) -> Config {
    Config {
        capacity: Bytes(capacity),
        chunk: CHUNK,
        swap_cost: SwapCost {
            out: engine(MS),
            in_: engine(MS),
        },
        best_effort_reserve: Bytes::ZERO,
        drain: Nanos(MS),
        sharing: Sharing::Exclusive,
        dispatch_latency: Nanos::ZERO,
        overrun: Overrun::Continue,
        undrained: Undrained::Beside,
        swap_share: Ppm(100_000),
        longest_wait: Nanos(15_000 * MS),
        idle_gap: Nanos(2_000_000),
        objective: Objective::Time,
        test: Test::Theorem1,
        duplex: Ppm::ONE,
    }
}

/// A task of this period, which is its deadline too, and this WCET in nanoseconds.
pub(crate) fn periodic(period: u64, wcet: u64, footprint: u64, swappable: u64) -> TaskSpec {
    TaskSpec {
        name: "realtime".into(),
        class: Class::Realtime(Timing {
            period: Nanos(period),
            deadline: Nanos(period),
            wcet: Nanos(wcet),
        }),
        memory: MemoryProfile {
            footprint: Bytes(footprint),
            swappable: Bytes(swappable),
        },
        weight: Weight::default(),
        idle_after: None,
    }
}

/// As [`periodic`], in milliseconds.
pub(crate) fn realtime(period: u64, wcet: u64, footprint: u64, swappable: u64) -> TaskSpec {
    periodic(period * MS, wcet * MS, footprint, swappable)
}

pub(crate) fn best_effort() -> TaskSpec {
    TaskSpec {
        name: "best-effort".into(),
        class: Class::BestEffort,
        memory: MemoryProfile::default(),
        weight: Weight::default(),
        idle_after: None,
    }
}
