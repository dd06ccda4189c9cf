//! Scenes of one plan following another.

use super::super::*;
use super::shell::*;
use crate::admission::Test;
use crate::cost::{DirectionCost, SwapCost};
use crate::task::{Class, TaskSpec, Timing};
use crate::units::{Bytes, Nanos};

/// A uses 4 of its 10, and 6 are taken back under x = 6 without a swap. The next plan has x = 0 for
/// it, but its next job still lacks 6: N, which the test admits only beside an A that lacks nothing,
/// has to wait until A has them again.
#[test]
fn budget_that_was_taken_back_unused_is_charged_until_it_is_back() {
    let chunk = |millis| DirectionCost {
        base: Nanos::ZERO,
        per_chunk: Nanos(millis * MS - 1),
        bytes_per_second: 1_000_000_000,
    };
    let mut shell = Shell::new(Config {
        chunk: Bytes(1),
        swap_cost: SwapCost {
            out: chunk(100),
            in_: chunk(1),
        },
        drain: Nanos::ZERO,
        test: Test::Demand,
        ..config(14)
    });
    let task = |deadline, wcet, footprint, swappable| TaskSpec {
        class: Class::Realtime(Timing {
            period: Nanos(1_000_000 * MS),
            deadline: Nanos(deadline * MS),
            wcet: Nanos(wcet * MS),
        }),
        ..realtime(1, 1, footprint, swappable)
    };
    let set = [
        (1, task(1_210, 1, 10, 10), 4, 24),
        (2, task(2_423, 1, 10, 10), 10, 24),
        (3, task(2_423, 1, 10, 10), 10, 25),
        (4, task(2_423, 1_208, 1, 0), 1, 25),
    ];
    let mut lacked = Bytes::ZERO;
    for (id, spec, uses, capacity) in set {
        shell.load(id, spec, uses);
        shell.warm(id);
        shell.at(shell.now / MS + 2_000_000);
        shell.finish_swaps();
        let first = shell.status(1);
        lacked = lacked.max(Bytes(10).saturating_sub(first.budget));
        if id > 1 {
            let bytes = Bytes(capacity);
            shell.tell(Event::Capacity { bytes });
        }
    }
    assert_eq!(lacked, Bytes(6));
    let (first, last) = (shell.status(1), shell.status(4));
    assert_eq!(
        (first.volume, last.volume),
        (Some(Bytes::ZERO), Some(Bytes::ZERO))
    );
    assert_eq!(first.budget, Bytes(10));
}
