//! The pace of a pipelined region: what the test charges for is reached, and never exceeded.

use rtswap_policy::admission::{Candidate, Test};
use rtswap_policy::assign::Objective;
use rtswap_policy::cost::{DirectionCost, SwapCost};
use rtswap_policy::scheduler::{Config, Overrun, Sharing, Undrained};
use rtswap_policy::task::{Class, MemoryProfile, TaskSpec, Timing, Weight};
use rtswap_policy::units::{Bytes, Nanos, Ppm};
use rtswap_simulator::{Arrivals, Checks, Rng, Scenario, SimTask, run};

/// Chunk times and bases, out and in.
#[derive(Clone, Copy, Debug)]
struct Costs {
    chunk: (u64, u64),
    base: (u64, u64),
    duplex: Ppm,
}

/// Two tasks of `chunks` chunks, all of which must leave for the other: one asks, and when it is
/// done the other. The response of the second, and what the test charges for it.
fn response(costs: Costs, chunks: u64) -> (Nanos, Nanos) {
    let direction = |base, chunk| DirectionCost {
        base: Nanos(base),
        per_chunk: Nanos(chunk - 1),
        bytes_per_second: u64::MAX,
    };
    let swap_cost = SwapCost {
        out: direction(costs.base.0, costs.chunk.0),
        in_: direction(costs.base.1, costs.chunk.1),
    };
    let config = Config {
        capacity: Bytes(chunks),
        chunk: Bytes(1),
        swap_cost,
        best_effort_reserve: Bytes::ZERO,
        drain: Nanos::ZERO,
        sharing: Sharing::Exclusive,
        dispatch_latency: Nanos::ZERO,
        overrun: Overrun::Continue,
        undrained: Undrained::Beside,
        swap_share: Ppm(100_000),
        longest_wait: Nanos(150_000),
        idle_gap: Nanos(2_000_000),
        objective: Objective::Time,
        test: Test::Pipelined,
        duplex: costs.duplex,
    };
    let timing = Timing {
        period: Nanos(1_000_000_000),
        deadline: Nanos(1_000_000_000),
        wcet: Nanos(10),
    };
    let task = |name: &str, at| {
        let spec = TaskSpec {
            name: name.into(),
            class: Class::Realtime(timing),
            memory: MemoryProfile {
                footprint: Bytes(chunks),
                swappable: Bytes(chunks),
            },
            weight: Weight::default(),
            idle_after: None,
        };
        SimTask {
            arrivals: Arrivals::At(vec![Nanos(at)]),
            ..SimTask::new(spec, Nanos::ZERO)
        }
    };
    let tasks = vec![task("first", 0), task("second", 500_000_000)];
    let scenario = Scenario {
        checks: Checks::Every,
        ..Scenario::new(config, tasks, timing.period, 1)
    };
    let report = run(&scenario).unwrap_or_else(|error| panic!("{error}, {costs:?}, {chunks}"));
    assert!(report.admitted(), "{report:#?}");
    let volume = Bytes(chunks);
    let set = [Candidate { timing, volume }; 2];
    let charged = Test::Pipelined.analyse(&config.platform(), &set).tasks[1].demand;
    (report.tasks[1].response_max, charged)
}

#[test]
fn the_bound_is_reached_whichever_direction_is_slower() {
    for chunk in [(50, 30), (30, 50), (40, 40)] {
        for chunks in [1, 2, 7, 40] {
            let costs = Costs {
                chunk,
                base: (70, 0),
                duplex: Ppm(500_000),
            };
            let (response, charged) = response(costs, chunks);
            assert_eq!(response, charged, "{costs:?}, {chunks} chunks");
        }
    }
}

#[test]
fn the_bound_is_never_exceeded() {
    let mut rng = Rng::new(8);
    for _ in 0..2_000 {
        let mut any = |most| rng.within(1, most);
        let costs = Costs {
            chunk: (any(1_000), any(1_000)),
            base: (any(500) - 1, any(500) - 1),
            // Slower than a quarter of its speed an operation counts as overdue.
            duplex: Ppm(250_000 + any(750_000) as u32),
        };
        let chunks = any(30);
        let (response, charged) = response(costs, chunks);
        assert!(
            response <= charged,
            "{response} of {charged}: {costs:?}, {chunks} chunks"
        );
    }
}
