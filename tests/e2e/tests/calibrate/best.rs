//! The best chunk size by exhaustive simulation: task sets that do not fit, each planned and run with every size.

use anyhow::{Context, Result};
use rtswap_policy::admission::{Platform, Test};
use rtswap_policy::assign::{Demand, Objective, assign};
use rtswap_policy::cost::SwapCost;
use rtswap_policy::scheduler::{Config, Overrun, Sharing, Undrained};
use rtswap_policy::task::{Class, MemoryProfile, TaskSpec, Timing, Weight};
use rtswap_policy::units::{Bytes, Nanos, Ppm};
use rtswap_simulator::{Observer, Rng, Scenario, SimTask, SwapRecord};

const SETS: u64 = 24;
const TASKS: u64 = 4;
/// Of the whole GPU out and in: so much slack have all plans, whatever the chunk size.
const SLACK: u64 = 8;
const PERIODS: u64 = 20;

/// The time that swaps take.
#[derive(Default)]
struct Swapping(Nanos);

impl Observer for Swapping {
    fn swap(&mut self, record: &SwapRecord) {
        self.0 += Nanos(record.ended.0 - record.started.0);
    }
}

/// The chunk size of `sizes` with which the sets spend the least time on swaps, each set counted in relation to its best.
pub(crate) fn chunk(cost: SwapCost, capacity: Bytes, sizes: &[Bytes]) -> Result<Bytes> {
    let mut losses = vec![0.0; sizes.len()];
    for seed in 1..=SETS {
        let set = draw(seed, cost, capacity);
        let times = sizes
            .iter()
            .map(|chunk| swapping(cost, capacity, *chunk, &set, seed));
        let times = times.collect::<Result<Vec<_>>>()?;
        let best = times.iter().map(|time| time.0).min().context("no sizes")?;
        for (loss, time) in losses.iter_mut().zip(times) {
            *loss += time.0 as f64 / best.max(1) as f64;
        }
    }
    let best = losses.iter().zip(sizes).min_by(|a, b| a.0.total_cmp(b.0));
    Ok(*best.context("no sizes")?.1)
}

/// Tasks that need from 1.1 to 1.6 of the memory.
fn draw(seed: u64, cost: SwapCost, capacity: Bytes) -> Vec<TaskSpec> {
    let mut rng = Rng::new(seed);
    let need = capacity.0 / 10 * rng.within(11, 16);
    let parts: Vec<_> = (0..TASKS).map(|_| rng.within(2, 6)).collect();
    let sum: u64 = parts.iter().sum();
    let whole = cost.out.bound(capacity, Bytes(2 << 20)) + cost.in_.bound(capacity, Bytes(2 << 20));
    let tasks = parts.iter().enumerate().map(|(at, part)| {
        // A thousandth more or less, so that no size divides all.
        let footprint = Bytes(need / sum * part + rng.within(0, need / 1000));
        let period = Nanos(whole.0 * SLACK * rng.within(10, 30) / 10);
        TaskSpec {
            name: format!("task-{at}"),
            class: Class::Realtime(Timing {
                period,
                deadline: period,
                wcet: Nanos(whole.0 / 20),
            }),
            memory: MemoryProfile {
                footprint,
                swappable: footprint,
            },
            weight: Weight::default(),
            idle_after: None,
        }
    });
    tasks.collect()
}

fn swapping(
    cost: SwapCost,
    capacity: Bytes,
    chunk: Bytes,
    set: &[TaskSpec],
    seed: u64,
) -> Result<Nanos> {
    let config = Config {
        capacity,
        chunk,
        swap_cost: cost,
        best_effort_reserve: Bytes::ZERO,
        drain: Nanos::ZERO,
        undrained: Undrained::Beside,
        sharing: Sharing::Exclusive,
        dispatch_latency: Nanos::ZERO,
        overrun: Overrun::Continue,
        swap_share: Ppm(100_000),
        longest_wait: Nanos(15_000_000_000),
        idle_gap: Nanos(2_000_000),
        objective: Objective::Time,
        test: Test::Demand,
        duplex: Ppm::ONE,
    };
    let demands = set.iter().map(|spec| {
        let Class::Realtime(timing) = spec.class else {
            unreachable!("drawn so")
        };
        Demand {
            timing,
            memory: spec.memory,
        }
    });
    let demands: Vec<_> = demands.collect();
    let platform: Platform = config.platform();
    let plan = assign(Test::Demand, &platform, capacity, &demands, Objective::Time);
    plan.map_err(|_| anyhow::anyhow!("set {seed} has no plan with chunks of {chunk}"))?;
    let longest = demands.iter().map(|demand| demand.timing.period.0).max();
    let duration = Nanos(longest.context("no tasks")? * PERIODS);
    let tasks = set
        .iter()
        .map(|spec| SimTask::new(spec.clone(), Nanos::ZERO));
    let scenario = Scenario::new(config, tasks.collect(), duration, seed);
    let mut swaps = Swapping::default();
    rtswap_simulator::observe(&scenario, &mut swaps)?;
    Ok(swaps.0)
}
