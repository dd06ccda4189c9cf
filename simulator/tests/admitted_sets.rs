//! What Theorem 1 admits misses no deadline under the scheduler, and no invariant breaks.

use rtswap_policy::admission::Test;
use rtswap_policy::assign::{Demand, Objective, assign};
use rtswap_policy::cost::{DirectionCost, SwapCost};
use rtswap_policy::scheduler::{Config, Overrun, Sharing};
use rtswap_policy::task::{Class, MemoryProfile, TaskSpec, Timing};
use rtswap_policy::units::{Bytes, Nanos, Ppm};
use rtswap_simulator::{Arrivals, Checks, Execution, Rng, Scenario, SimTask, run};

/// The unit of the tests' times, so large that rounding to nanoseconds is nothing.
const UNIT: u64 = 1_000;

/// What kind of sets to draw.
#[derive(Clone, Copy)]
struct Kind {
    base: bool,
    best_effort: bool,
    constrained: bool,
}

fn config(rng: &mut Rng, kind: Kind, capacity: u64) -> Config {
    let mut direction = |base: u64| DirectionCost {
        base: Nanos(if kind.base {
            rng.within(0, base) * UNIT
        } else {
            0
        }),
        per_chunk: Nanos(rng.within(1, 20) * UNIT),
        bytes_per_second: u64::MAX,
    };
    let swap_cost = SwapCost {
        out: direction(50),
        in_: direction(50),
    };
    let chunk = |cost: DirectionCost| cost.base + cost.chunk_time(Bytes(1));
    let drain = chunk(swap_cost.out).max(chunk(swap_cost.in_)) + Nanos(rng.within(0, 30) * UNIT);
    Config {
        capacity: Bytes(capacity),
        chunk: Bytes(1),
        swap_cost,
        best_effort_reserve: Bytes(u64::from(kind.best_effort)),
        drain: if kind.best_effort { drain } else { Nanos::ZERO },
        sharing: Sharing::Exclusive,
        dispatch_latency: Nanos::ZERO,
        overrun: Overrun::Continue,
        best_effort_quantum: Nanos(200 * UNIT),
        objective: match rng.within(0, 3) {
            0 => Objective::Volume,
            _ => Objective::Time,
        },
        test: Test::Theorem1,
        duplex: Ppm::ONE,
    }
}

/// A set that the test admits, as tight as it gets: periods are scaled by the left side of
/// Eq. (3). None if no scale admits it.
fn tight(rng: &mut Rng, kind: Kind) -> Option<Scenario> {
    let count = rng.within(2, 6);
    let mut demands: Vec<Demand> = (0..count)
        .map(|_| {
            let footprint = rng.within(1, 12);
            let period = (rng.within(1, 8) * rng.within(20, 400)) * UNIT;
            let share = if kind.constrained {
                rng.within(40, 100)
            } else {
                100
            };
            Demand {
                timing: Timing {
                    period: Nanos(period),
                    deadline: Nanos(period * share / 100),
                    wcet: Nanos(rng.within(1, 60) * UNIT),
                },
                memory: MemoryProfile {
                    footprint: Bytes(footprint),
                    swappable: Bytes(footprint - rng.within(0, footprint.min(2))),
                },
            }
        })
        .collect();
    let sum: u64 = demands.iter().map(|d| d.memory.footprint.0).sum();
    let most = demands.iter().map(|d| d.memory.footprint.0).max()?;
    let reserve = u64::from(kind.best_effort);
    let capacity = rng.within(most, sum) + reserve;
    let config = config(rng, kind, capacity);
    let platform = config.platform();
    let room = Bytes(capacity - reserve);
    // Ample time first, then as little as the volumes allow.
    for scale in [1_000.0, 1.0, 1.0] {
        let stretch = |span: Nanos, by: f64| Nanos((span.0 as f64 * by) as u64 + 1);
        for demand in &mut demands {
            demand.timing.period = stretch(demand.timing.period, scale);
            demand.timing.deadline = stretch(demand.timing.deadline, scale);
        }
        let left = assign(Test::Theorem1, &platform, room, &demands, config.objective)
            .ok()?
            .analysis
            .demand;
        let before = demands.clone();
        for demand in &mut demands {
            demand.timing.period = stretch(demand.timing.period, left);
            demand.timing.deadline = stretch(demand.timing.deadline, left);
        }
        let sound = demands.iter().all(|d| d.timing.wcet <= d.timing.deadline);
        if !sound || assign(Test::Theorem1, &platform, room, &demands, config.objective).is_err() {
            demands = before;
        }
    }
    // They register one after another, and with bases the volumes found are not always the best.
    let admitted = |count| {
        let first = &demands[..count];
        assign(Test::Theorem1, &platform, room, first, config.objective).is_ok()
    };
    if !(1..=demands.len()).all(admitted) {
        return None;
    }
    let mut tasks: Vec<SimTask> = demands
        .iter()
        .enumerate()
        .map(|(place, demand)| {
            let period = demand.timing.period.0;
            let offset = Nanos(rng.within(0, 1) * rng.within(0, period));
            SimTask {
                spec: TaskSpec {
                    name: format!("realtime-{place}"),
                    class: Class::Realtime(demand.timing),
                    memory: demand.memory,
                },
                arrivals: match rng.within(0, 2) {
                    0 => Arrivals::Sporadic {
                        offset,
                        jitter: Nanos(period / 3),
                    },
                    _ => Arrivals::Periodic { offset },
                },
                execution: Execution::Between {
                    least: Nanos(demand.timing.wcet.0 * rng.within(1, 2) / 2),
                    most: demand.timing.wcet,
                },
                arrives: None,
                departs: None,
            }
        })
        .collect();
    if kind.best_effort {
        // What the plan leaves when every realtime task is out by all that it may be.
        let plan = assign(Test::Theorem1, &platform, room, &demands, config.objective).ok()?;
        let out: u64 = plan.volumes.iter().map(|volume| volume.0).sum();
        let footprint = rng.within(1, capacity - (sum - out));
        let spec = TaskSpec {
            name: "best-effort".into(),
            class: Class::BestEffort,
            memory: MemoryProfile {
                footprint: Bytes(footprint),
                swappable: Bytes(footprint - rng.within(0, 1)),
            },
        };
        tasks.push(SimTask::new(spec, Nanos(rng.within(1, 300) * UNIT)));
    }
    let longest = demands.iter().map(|d| d.timing.period.0).max()?;
    let shortest_drain = Nanos(config.drain.0 * rng.within(0, 1));
    Some(Scenario {
        shortest_drain,
        checks: Checks::Every,
        ..Scenario::new(config, tasks, Nanos(longest * 12), rng.number())
    })
}

fn no_miss_in(runs: u32, seed: u64, kind: Kind) {
    let mut rng = Rng::new(seed);
    let (mut simulated, mut jobs, mut swapping, mut beside) = (0, 0, 0, 0);
    while simulated < runs {
        let Some(scenario) = tight(&mut rng, kind) else {
            continue;
        };
        let report = run(&scenario).unwrap_or_else(|error| panic!("{error}\n{scenario:#?}"));
        assert!(report.admitted(), "{report:#?}\n{scenario:#?}");
        assert_eq!(report.misses(), 0, "{report:#?}\n{scenario:#?}");
        assert!(report.violations.is_empty(), "{report:#?}\n{scenario:#?}");
        simulated += 1;
        let last = report.tasks.last();
        beside += last.map_or(0, |task| task.jobs + task.revoked);
        jobs += report.tasks.iter().map(|task| task.jobs).sum::<u64>();
        swapping += u32::from(report.tasks.iter().any(|task| task.volume > Bytes::ZERO));
    }
    assert!(jobs > u64::from(runs) * 20);
    assert!(beside > u64::from(runs));
    assert!(
        swapping > runs / 2,
        "only {swapping} of {runs} runs swapped at all"
    );
}

#[test]
fn without_a_base_cost() {
    let kind = Kind {
        base: false,
        best_effort: false,
        constrained: false,
    };
    no_miss_in(3_000, 1, kind);
}

#[test]
fn with_a_base_cost_and_deadlines_before_the_period() {
    let kind = Kind {
        base: true,
        best_effort: false,
        constrained: true,
    };
    no_miss_in(3_000, 2, kind);
}

#[test]
fn beside_best_effort() {
    let kind = Kind {
        base: false,
        best_effort: true,
        constrained: false,
    };
    no_miss_in(2_000, 3, kind);
}

#[test]
fn tight_means_tight() {
    let kind = Kind {
        base: false,
        best_effort: false,
        constrained: false,
    };
    let mut rng = Rng::new(4);
    let sides: Vec<f64> = (0..200)
        .filter_map(|_| tight(&mut rng, kind))
        .map(|scenario| {
            let demands: Vec<Demand> = scenario
                .tasks
                .iter()
                .filter_map(|task| match task.spec.class {
                    Class::Realtime(timing) => Some(Demand {
                        timing,
                        memory: task.spec.memory,
                    }),
                    Class::BestEffort => None,
                })
                .collect();
            let config = scenario.config;
            let plan = assign(
                Test::Theorem1,
                &config.platform(),
                config.capacity,
                &demands,
                config.objective,
            );
            plan.unwrap().analysis.demand
        })
        .collect();
    let tight = sides.iter().filter(|side| **side > 0.98).count();
    assert!(tight * 2 > sides.len(), "{tight} of {}", sides.len());
}

#[test]
fn a_wcet_that_is_a_lie_is_seen() {
    let kind = Kind {
        base: false,
        best_effort: false,
        constrained: false,
    };
    let mut rng = Rng::new(5);
    let mut late = 0;
    for _ in 0..50 {
        let Some(mut scenario) = tight(&mut rng, kind) else {
            continue;
        };
        for task in &mut scenario.tasks {
            if let Class::Realtime(timing) = task.spec.class {
                let (least, most) = (timing.deadline, timing.deadline);
                task.execution = Execution::Between { least, most };
            }
        }
        let report = run(&scenario).unwrap();
        assert!(!report.violations.is_empty());
        late += report.misses();
    }
    assert!(late > 0);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let kind = Kind {
        base: true,
        best_effort: true,
        constrained: true,
    };
    let mut rng = Rng::new(6);
    let scenario = (0..100).find_map(|_| tight(&mut rng, kind)).unwrap();
    assert_eq!(run(&scenario).unwrap(), run(&scenario).unwrap());
}
