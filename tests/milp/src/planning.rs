//! How long it takes to plan a large set for all chunk sizes.

use std::time::Instant;

use rtswap_policy::admission::Test;
use rtswap_policy::assign::{Demand, Objective, assign_any_chunk};
use rtswap_policy::task::Timing;
use rtswap_policy::units::{Bytes, Nanos};
use serde::Serialize;

use crate::draw::Family;
use crate::random::Random;

/// How long it takes to plan one task set.
#[derive(Serialize)]
pub(crate) struct Planning {
    /// The number of tasks.
    pub(crate) tasks: usize,
    /// The admission test.
    pub(crate) test: &'static str,
    /// What is minimised: "time" or "volume".
    pub(crate) objective: &'static str,
    /// The cost per swap operation, in ms.
    pub(crate) base_ms: f64,
    /// Whether the set has volumes that pass the test.
    pub(crate) schedulable: bool,
    /// The best time of ten, in ms.
    pub(crate) millis: f64,
}

/// Plans 100 tasks of the paper's models on a GPU with three quarters of the memory they need: with
/// times that are too short, with longer ones, and at last with a cost per operation.
pub(crate) fn measure() -> Vec<Planning> {
    let mut random = Random(100);
    let (mut demands, mut platform) = (Vec::new(), None);
    while demands.len() < 100 {
        let instance = random.instance(Family::Paper);
        platform.get_or_insert(instance.platform);
        demands.extend(instance.demands);
    }
    demands.truncate(100);
    let Some(platform) = platform else {
        return Vec::new();
    };
    let needed: u64 = demands.iter().map(|d| d.memory.footprint.0).sum();
    let capacity = Bytes(needed / 4 * 3);
    let mut measured = Vec::new();
    for (times, base) in [(3, 0), (6, 0), (6, 2_000_000)] {
        let mut platform = platform;
        platform.cost.out.base = Nanos(base);
        platform.cost.in_.base = Nanos(base);
        let slower = |d: &Demand| Demand {
            timing: Timing {
                period: Nanos(d.timing.period.0 * times),
                deadline: Nanos(d.timing.deadline.0 * times),
                ..d.timing
            },
            ..*d
        };
        let demands: Vec<_> = demands.iter().map(slower).collect();
        for test in [Test::Theorem1, Test::Demand, Test::Pipelined] {
            for (objective, name) in [(Objective::Time, "time"), (Objective::Volume, "volume")] {
                let (mut millis, mut schedulable) = (f64::INFINITY, false);
                for _ in 0..10 {
                    let start = Instant::now();
                    let plan = assign_any_chunk(test, &platform, capacity, &demands, objective);
                    millis = millis.min(start.elapsed().as_secs_f64() * 1e3);
                    schedulable = plan.is_ok();
                }
                measured.push(Planning {
                    tasks: demands.len(),
                    test: test.name(),
                    objective: name,
                    base_ms: base as f64 / 1e6,
                    schedulable,
                    millis,
                });
            }
        }
    }
    measured
}
