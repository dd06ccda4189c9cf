//! Random sets at the edge of an admission test.

use rtswap_policy::admission::Test;
use rtswap_policy::assign::{Assignment, Demand, Objective, assign};
use rtswap_policy::cost::{DirectionCost, SwapCost};
use rtswap_policy::scheduler::{Config, Overrun, Sharing, Undrained};
use rtswap_policy::task::{Class, MemoryProfile, TaskSpec, Timing, Weight};
use rtswap_policy::units::{Bytes, Nanos, Ppm};
use rtswap_simulator::{Arrivals, Checks, Departure, Execution, Rng, Scenario, SimTask};

/// The unit of the tests' times, so large that rounding to nanoseconds is nothing.
pub(crate) const UNIT: u64 = 1_000;

/// What kind of sets to draw.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) test: Test,
    /// An operation has a base cost.
    pub(crate) base: bool,
    /// Deadlines before the period.
    pub(crate) constrained: bool,
    /// So many greedy best-effort tasks beside them.
    pub(crate) best_effort: u64,
    /// Tasks come, go, and come again.
    pub(crate) traffic: bool,
}

impl Kind {
    pub(crate) const fn of(test: Test) -> Self {
        Self {
            test,
            base: false,
            constrained: false,
            best_effort: 0,
            traffic: false,
        }
    }

    /// Who loads is best-effort until it is ready.
    fn drains(self) -> bool {
        self.best_effort > 0 || self.traffic
    }
}

fn config(rng: &mut Rng, kind: Kind, capacity: u64, reserve: u64) -> Config {
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
    let duplex = match kind.test {
        Test::Pipelined => Ppm(rng.within(500, 1_000) as u32 * 1_000),
        _ => Ppm::ONE,
    };
    // A best-effort operation has stopped within one chunk and one base, at the loaded pace.
    let chunk = |cost: DirectionCost| cost.base + cost.chunk_time(Bytes(1)).slowed(duplex);
    let drain = chunk(swap_cost.out).max(chunk(swap_cost.in_)) + Nanos(rng.within(0, 30) * UNIT);
    Config {
        capacity: Bytes(capacity),
        chunk: Bytes(1),
        swap_cost,
        best_effort_reserve: Bytes(reserve),
        drain: if kind.drains() { drain } else { Nanos::ZERO },
        sharing: Sharing::Exclusive,
        dispatch_latency: Nanos(rng.within(0, 1) * rng.within(0, 3) * UNIT),
        overrun: Overrun::Continue,
        undrained: Undrained::Beside,
        swap_share: Ppm(100_000),
        longest_wait: Nanos(2_000 * UNIT),
        idle_gap: Nanos(2_000_000),
        objective: match rng.within(0, 3) {
            0 => Objective::Volume,
            _ => Objective::Time,
        },
        test: kind.test,
        duplex,
    }
}

/// The plan for `demands`, if there is one.
pub(crate) fn plan(config: &Config, demands: &[Demand]) -> Option<Assignment> {
    let room = config.capacity.saturating_sub(config.best_effort_reserve);
    let platform = config.platform();
    assign(config.test, &platform, room, demands, config.objective).ok()
}

/// What the realtime tasks of a scenario ask for.
pub(crate) fn demands(scenario: &Scenario) -> Vec<Demand> {
    let realtime = |task: &SimTask| match task.spec.class {
        Class::Realtime(timing) => Some(Demand {
            timing,
            memory: task.spec.memory,
        }),
        Class::BestEffort => None,
    };
    scenario.tasks.iter().filter_map(realtime).collect()
}

/// `demands` with all times but C in thousandths of what they are; none if C does not fit.
pub(crate) fn scaled(demands: &[Demand], thousandths: u64) -> Option<Vec<Demand>> {
    let scale = |span: Nanos| Nanos(span.0 * thousandths / 1_000);
    demands
        .iter()
        .map(|demand| {
            let timing = Timing {
                period: scale(demand.timing.period),
                deadline: scale(demand.timing.deadline),
                wcet: demand.timing.wcet,
            };
            let fits = timing.wcet <= timing.deadline && timing.deadline <= timing.period;
            fits.then_some(Demand { timing, ..*demand })
        })
        .collect()
}

/// `demands` with the shortest times that the test admits, by bisection; none if it admits none.
fn tightened(config: &Config, demands: &[Demand]) -> Option<Vec<Demand>> {
    let admitted = |thousandths| {
        let scaled = scaled(demands, thousandths)?;
        plan(config, &scaled).map(|_| scaled)
    };
    let (mut fails, mut passes) = (0, 1_000);
    let mut best = loop {
        if let Some(admitted) = admitted(passes) {
            break admitted;
        }
        (fails, passes) = (passes, passes * 2);
        if passes > 1_000_000 {
            return None;
        }
    };
    while passes - fails > (passes / 200).max(1) {
        let middle = fails.midpoint(passes);
        match admitted(middle) {
            Some(admitted) => (passes, best) = (middle, admitted),
            None => fails = middle,
        }
    }
    Some(best)
}

/// A scenario whose realtime tasks the test admits, and would not with times a hundredth shorter.
/// None if there is none for what was drawn.
pub(crate) fn tight(rng: &mut Rng, kind: Kind) -> Option<Scenario> {
    let count = rng.within(2, 6);
    let drawn: Vec<Demand> = (0..count)
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
    let footprints = drawn.iter().map(|d| d.memory.footprint.0);
    let (sum, most) = (footprints.clone().sum(), footprints.max()?);
    // What cannot be swapped of best-effort, and of who loads.
    let pinned = drawn
        .iter()
        .map(|d| (d.memory.footprint - d.memory.swappable).0);
    let loading: u64 = if kind.traffic { pinned.sum() } else { 0 };
    let reserve = kind.best_effort + loading;
    let capacity = rng.within(most, sum) + reserve;
    let config = config(rng, kind, capacity, reserve);
    let demands = tightened(&config, &drawn)?;
    // They register one after another, and the volumes found are not always the best.
    if !(1..=demands.len()).all(|count| plan(&config, &demands[..count]).is_some()) {
        return None;
    }
    let longest = demands.iter().map(|d| d.timing.period.0).max()?;
    let duration = Nanos(longest * 12);
    let mut tasks: Vec<SimTask> = demands
        .iter()
        .enumerate()
        .map(|(place, demand)| task(rng, place, demand))
        .collect();
    if kind.traffic {
        come_and_go(rng, &mut tasks, duration);
    }
    if kind.best_effort > 0 {
        let plan = plan(&config, &demands)?;
        let out: u64 = plan.volumes.iter().map(|volume| volume.0).sum();
        // What the plan leaves when every realtime task is out by all that it may be.
        let mut left = capacity - (sum - out);
        let count = kind.best_effort.min(left);
        for place in 0..count {
            let footprint = rng.within(1, left - (count - place - 1));
            left -= footprint;
            let spec = TaskSpec {
                name: format!("best-effort-{place}"),
                class: Class::BestEffort,
                memory: MemoryProfile {
                    footprint: Bytes(footprint),
                    swappable: Bytes(footprint - rng.within(0, 1)),
                },
                weight: Weight::default(),
                idle_after: None,
            };
            let mut sim = SimTask::new(spec, Nanos(rng.within(1, 300) * UNIT));
            if rng.within(0, 1) == 1 {
                idle(rng, &mut sim, duration);
            }
            tasks.push(sim);
        }
    }
    Some(Scenario {
        shortest_drain: Nanos(config.drain.0 * rng.within(0, 1)),
        ignores_aborts: false,
        checks: Checks::Every,
        ..Scenario::new(config, tasks, duration, rng.number())
    })
}

/// It has jobs now and then, and leaves the GPU between them.
fn idle(rng: &mut Rng, task: &mut SimTask, duration: Nanos) {
    let jobs = rng.within(1, 20);
    let releases = (0..jobs).map(|job| Nanos(duration.0 / jobs * job));
    task.arrivals = Arrivals::At(releases.collect());
    task.spec.idle_after = Some(Nanos(rng.within(1, 200) * UNIT));
}

fn task(rng: &mut Rng, place: usize, demand: &Demand) -> SimTask {
    let period = demand.timing.period.0;
    let offset = Nanos(rng.within(0, 1) * rng.within(0, period));
    let spec = TaskSpec {
        name: format!("realtime-{place}"),
        class: Class::Realtime(demand.timing),
        memory: demand.memory,
        weight: Weight::default(),
        idle_after: None,
    };
    SimTask {
        spec,
        arrivals: match rng.within(0, 3) {
            0 => Arrivals::Sporadic {
                offset,
                jitter: Nanos(period / 3),
            },
            1 => Arrivals::Greedy,
            _ => Arrivals::Periodic { offset },
        },
        execution: Execution::Between {
            least: Nanos((demand.timing.wcet.0 * rng.within(1, 2) / 2).max(1)),
            most: demand.timing.wcet,
        },
        arrives: None,
        departs: None,
    }
}

/// Some go, some come later, and some that went come again under their name.
fn come_and_go(rng: &mut Rng, tasks: &mut Vec<SimTask>, duration: Nanos) {
    let part = |of: u64| Nanos(duration.0 * of / 1_000);
    for place in 0..tasks.len() {
        if rng.within(0, 2) == 0 {
            continue;
        }
        let came = rng.within(0, 1) * rng.within(0, 400);
        let went = came + rng.within(50, 500);
        let dying = Nanos(rng.within(0, 1) * rng.within(0, 300) * UNIT);
        let task = &mut tasks[place];
        task.arrives = (came > 0).then(|| part(came));
        let again = task.clone();
        task.departs = Some(Departure {
            at: part(went),
            dying,
        });
        if rng.within(0, 1) == 1 {
            tasks.push(SimTask {
                arrives: Some(part(went) + dying + Nanos(rng.within(0, 100) * UNIT)),
                ..again
            });
        }
    }
}
