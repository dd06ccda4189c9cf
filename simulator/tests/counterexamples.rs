//! Sets that refute admission tests which are weaker than ours (found by hill climbing): ours
//! must refuse them. Those whose sets were written down.

use rtswap_policy::admission::{Candidate, Platform, Test};
use rtswap_policy::assign::Objective;
use rtswap_policy::cost::{DirectionCost, SwapCost};
use rtswap_policy::scheduler::{Command, Config, Event, Overrun, Scheduler, Sharing};
use rtswap_policy::task::{Class, MemoryProfile, TaskId, TaskSpec, Timing};
use rtswap_policy::units::{Bytes, Nanos, Ppm, Time};
use rtswap_simulator::{Arrivals, Scenario, SimTask, run};

fn timing(period: u64, deadline: u64, wcet: u64) -> Timing {
    Timing {
        period: Nanos(period),
        deadline: Nanos(deadline),
        wcet: Nanos(wcet),
    }
}

fn config(drain: u64) -> Config {
    let free = DirectionCost {
        base: Nanos::ZERO,
        per_chunk: Nanos::ZERO,
        bytes_per_second: u64::MAX,
    };
    Config {
        capacity: Bytes(100),
        chunk: Bytes(1),
        swap_cost: SwapCost {
            out: free,
            in_: free,
        },
        best_effort_reserve: Bytes(0),
        drain: Nanos(drain),
        sharing: Sharing::Exclusive,
        dispatch_latency: Nanos::ZERO,
        overrun: Overrun::Continue,
        best_effort_quantum: Nanos(1_000_000),
        objective: Objective::Time,
        test: Test::Theorem1,
        duplex: Ppm::ONE,
    }
}

fn platform(drain: u64) -> Platform {
    config(drain).platform()
}

/// Without swaps, E is C.
fn candidates(set: &[(u64, u64, u64, usize)]) -> Vec<Candidate> {
    let one = |&(period, deadline, wcet, count): &(u64, u64, u64, usize)| {
        let timing = timing(period, deadline, wcet);
        std::iter::repeat_n(
            Candidate {
                timing,
                volume: Bytes::ZERO,
            },
            count,
        )
    };
    set.iter().flat_map(one).collect()
}

#[test]
fn deadlines_below_the_longest_period_are_not_all_that_counts() {
    let set = candidates(&[
        (27, 25, 1, 9),
        (27, 26, 1, 6),
        (18, 17, 1, 5),
        (18, 14, 1, 3),
    ]);
    let demand = |at: u64| -> u64 {
        let jobs = |c: &Candidate| match at.checked_sub(c.timing.deadline.0) {
            Some(past) => past / c.timing.period.0 + 1,
            None => 0,
        };
        set.iter().map(jobs).sum()
    };
    assert!(
        (1..27).all(|at| demand(at) <= at),
        "every deadline below 27 passes"
    );
    assert_eq!(demand(53), 54);
    assert!(!Test::Theorem1.holds(&platform(0), &set));
}

/// C = 9, T = D = 10, and best-effort that takes 5 to leave: asked for at 1, it ends at 15, due 11.
/// A test that looks at deadlines below the longest period only sees none.
#[test]
fn a_drain_counts_at_the_longest_period_too() {
    assert!(!Test::Theorem1.holds(&platform(5), &candidates(&[(10, 10, 9, 1)])));
    let mut scheduler = Scheduler::new(config(5));
    let spec = TaskSpec {
        name: "x".into(),
        class: Class::Realtime(timing(10, 10, 9)),
        memory: MemoryProfile::default(),
    };
    let task = TaskId(1);
    scheduler
        .handle(Time(0), Event::Register { task, spec })
        .unwrap();
    assert!(matches!(
        scheduler.poll_command(),
        Some(Command::Refused { .. })
    ));
}

/// Two tasks with x = 2, and a best-effort program of one chunk that runs when the first asks: it
/// leaves the GPU, but its chunk stays, since who is draining gives none. So the region of the
/// second needs two evictions. If one base were charged, as min(n−1, k) has it, E = 2 + 1 + 100 + 1
/// = 104 each, and 104 + 104 ≤ 208, yet the response would be 307.
#[test]
fn best_effort_is_evicted_too() {
    let chunk = |base| DirectionCost {
        base: Nanos(base),
        per_chunk: Nanos::ZERO,
        bytes_per_second: u64::MAX,
    };
    let config = Config {
        capacity: Bytes(3),
        best_effort_reserve: Bytes(1),
        swap_cost: SwapCost {
            out: chunk(100),
            in_: chunk(0),
        },
        test: Test::Pipelined,
        ..config(101)
    };
    let spec = |name: &str, class, footprint| TaskSpec {
        name: name.into(),
        class,
        memory: MemoryProfile {
            footprint: Bytes(footprint),
            swappable: Bytes(footprint),
        },
    };
    let realtime = |name, period, first| {
        let class = Class::Realtime(timing(period, period, 1));
        SimTask {
            arrivals: Arrivals::At(vec![Nanos(first)]),
            ..SimTask::new(spec(name, class, 2), Nanos::ZERO)
        }
    };
    let other = spec("best-effort", Class::BestEffort, 1);
    let tasks = vec![
        realtime("long", 10_000, 10_000),
        realtime("short", 208, 10_001),
        SimTask::new(other, Nanos(100_000)),
    ];
    let report = run(&Scenario::new(config, tasks, Nanos(20_000), 1)).unwrap();
    assert!(report.tasks[1].refused.is_some(), "{report:#?}");
}
