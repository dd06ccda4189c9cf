//! Random mixes of best-effort programs, most of which do not fit together.

use rtswap_policy::cost::{DirectionCost, SwapCost};
use rtswap_policy::scheduler::{Config, Sharing};
use rtswap_policy::task::{Class, MemoryProfile, TaskSpec, Weight};
use rtswap_policy::units::{Bytes, Nanos, Ppm};
use rtswap_simulator::workload::Card;
use rtswap_simulator::{Arrivals, Execution, Rng, Scenario, SimTask};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLISECOND;

/// What every program holds that cannot be swapped.
const CONTEXT: u64 = GIB / 2;

/// A number of any size between the two: each factor of two is as likely.
fn any_size(rng: &mut Rng, least: u64, most: u64) -> u64 {
    let doublings = (most / least).ilog2();
    let from = least << rng.within(0, doublings.into());
    rng.within(from, (2 * from).min(most))
}

fn config(rng: &mut Rng, sharing: Sharing) -> Config {
    let mut direction = || DirectionCost {
        base: Nanos(rng.within(0, 200_000)),
        per_chunk: Nanos(rng.within(0, 100_000)),
        // A program that loads is refused its memory if the others need more than 5 s to leave.
        bytes_per_second: rng.within(6, 60) * GIB,
    };
    let swap_cost = SwapCost {
        out: direction(),
        in_: direction(),
    };
    let chunk = Bytes((64 * MIB) << rng.within(0, 2));
    let bound = |cost: DirectionCost| cost.base + cost.chunk_time(chunk);
    let least = bound(swap_cost.out).max(bound(swap_cost.in_));
    Config {
        capacity: Bytes(24 * GIB),
        chunk,
        swap_cost,
        drain: least + Nanos(any_size(rng, MILLISECOND, 100 * MILLISECOND)),
        sharing,
        swap_share: Ppm(any_size(rng, 10_000, 500_000) as u32),
        longest_wait: Nanos(any_size(rng, SECOND / 2, 30 * SECOND)),
        idle_gap: Nanos(2_000_000),
        ..Card::SMALL.config()
    }
}

fn arrivals(rng: &mut Rng) -> Arrivals {
    let pause = any_size(rng, 1_000, SECOND);
    let think = any_size(rng, MILLISECOND, 30 * SECOND);
    match rng.within(0, 3) {
        0 => Arrivals::Greedy,
        // One job after another, with hardly a gap.
        1 => Arrivals::Thinks {
            jobs: (1, 1),
            pause: Nanos::ZERO,
            think: (Nanos(pause / 2), Nanos(pause)),
        },
        _ => Arrivals::Thinks {
            jobs: (1, rng.within(1, 20)),
            pause: Nanos(pause),
            think: (Nanos(think / 4), Nanos(think)),
        },
    }
}

fn task(rng: &mut Rng, place: u64, chunk: u64, most: u64) -> SimTask {
    let footprint = CONTEXT + rng.within(1, most) * chunk;
    let spec = TaskSpec {
        name: format!("program-{place}"),
        class: Class::BestEffort,
        memory: MemoryProfile {
            footprint: Bytes(footprint),
            swappable: Bytes(footprint - CONTEXT),
        },
        weight: Weight::new(10_u32.pow(rng.within(0, 4) as u32)).expect("at most 10,000"),
        idle_after: None,
    };
    let span = any_size(rng, MILLISECOND, 20 * SECOND);
    SimTask {
        arrivals: arrivals(rng),
        execution: Execution::Between {
            least: Nanos(span / 2),
            most: Nanos(span),
        },
        ..SimTask::new(spec, Nanos(span))
    }
}

/// The mix of this seed.
pub(crate) fn mix(seed: u64, sharing: Sharing) -> Scenario {
    let mut rng = Rng::new(seed);
    let config = config(&mut rng, sharing);
    let count = rng.within(2, 8);
    // In chunks: beside what the others cannot swap, each fits.
    let chunk = config.chunk.0;
    let most = (config.capacity.0 - count * CONTEXT) / chunk;
    let tasks = (0..count)
        .map(|place| task(&mut rng, place, chunk, most))
        .collect();
    let duration = Nanos(rng.within(60, 240) * SECOND);
    Scenario {
        shortest_drain: Nanos(config.drain.0 * rng.within(0, 1)),
        ..Scenario::new(config, tasks, duration, rng.number())
    }
}
