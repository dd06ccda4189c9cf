//! Sets that refute admission tests which are weaker than ours (found by hill climbing): ours
//! must refuse them. Those whose sets were written down.

use rtswap_policy::admission::{Candidate, Platform, Test};
use rtswap_policy::assign::Objective;
use rtswap_policy::cost::{DirectionCost, SwapCost};
use rtswap_policy::scheduler::{Config, Overrun, Refusal, Scheduler, Sharing, Undrained};
use rtswap_policy::task::{Class, MemoryProfile, TaskId, TaskSpec, Timing, Weight};
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
        undrained: Undrained::Beside,
        swap_share: Ppm(100_000),
        longest_wait: Nanos(150_000_000),
        idle_gap: Nanos(2_000_000),
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
        weight: Weight::default(),
        idle_after: None,
    };
    let task = TaskId(1);
    let refusal = scheduler.register(Time(0), task, spec).unwrap_err();
    assert!(matches!(refusal, Refusal::NotSchedulable { .. }));
    assert_eq!(scheduler.poll_command(), None);
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
        weight: Weight::default(),
        idle_after: None,
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

/// What a chunk of one byte takes in each direction.
fn paced(capacity: u64, out: u64, in_: u64, drain: u64, sharing: Sharing) -> Config {
    let chunk = |nanos| DirectionCost {
        base: Nanos::ZERO,
        per_chunk: Nanos(nanos - 1),
        bytes_per_second: 1_000_000_000,
    };
    Config {
        capacity: Bytes(capacity),
        swap_cost: SwapCost {
            out: chunk(out),
            in_: chunk(in_),
        },
        sharing,
        test: Test::Demand,
        ..config(drain)
    }
}

fn asking(
    name: &str,
    (period, deadline, wcet): (u64, u64, u64),
    (footprint, swappable): (u64, u64),
    at: impl IntoIterator<Item = u64>,
) -> SimTask {
    let spec = TaskSpec {
        name: name.into(),
        class: Class::Realtime(timing(period, deadline, wcet)),
        memory: MemoryProfile {
            footprint: Bytes(footprint),
            swappable: Bytes(swappable),
        },
        weight: Weight::default(),
        idle_after: None,
    };
    SimTask {
        arrivals: Arrivals::At(at.into_iter().map(Nanos).collect()),
        ..SimTask::new(spec, Nanos::ZERO)
    }
}

fn beside(name: &str, size: u64, quantum: u64) -> SimTask {
    let spec = TaskSpec {
        name: name.into(),
        class: Class::BestEffort,
        memory: MemoryProfile {
            footprint: Bytes(size),
            swappable: Bytes(size),
        },
        weight: Weight::default(),
        idle_after: None,
    };
    SimTask::new(spec, Nanos(quantum))
}

/// A waits for ten chunks, which take 1000 to evict. Each time they are free an urgent job of
/// another comes, and a program that starts then asks for ten: had it got them, A would wait 1000
/// more for each program.
#[test]
fn what_was_evicted_for_a_job_that_waits_is_given_to_no_other() {
    const ROUNDS: u64 = 4;
    let (big, deadline) = (10_000_000, 28 + 1_010 * ROUNDS + 1_021);
    let mut tasks = vec![
        asking("waits", (big, deadline, 500), (10, 10), [0]),
        asking("victim", (big, big, 10), (10, 10), []),
    ];
    for parity in 0..2 {
        let rounds = (0..ROUNDS).filter(|round| round % 2 == parity);
        let from = |first: u64| rounds.clone().map(move |round| first + 1_010 * round);
        let name = |what: &str| format!("{what}{parity}");
        tasks.push(asking(
            &name("urgent"),
            (2_000, 1_061, 20),
            (1, 0),
            from(990),
        ));
        tasks.push(asking(
            &name("after"),
            (2_000, 1_061, 10),
            (1, 0),
            from(995),
        ));
    }
    for round in 0..ROUNDS {
        tasks.push(SimTask {
            arrives: Some(Nanos(1_005 + 1_010 * round)),
            arrivals: Arrivals::At(Vec::new()),
            ..beside(&format!("newcomer{round}"), 10, 5)
        });
    }
    let config = paced(14, 100, 10, 110, Sharing::Exclusive);
    let report = run(&Scenario::new(config, tasks, Nanos(20_000), 1)).unwrap();
    assert!(report.tasks.iter().all(|task| task.refused.is_none()));
    assert_eq!(report.tasks[0].jobs, 1);
    assert!(report.late.is_empty(), "{:#?}", report.late);
}

/// Five best-effort programs of two chunks run beside realtime when a job comes that lacks ten:
/// they leave the GPU together, not one after another as each is its victim.
#[test]
fn in_shared_mode_best_effort_drains_once() {
    let mut tasks = vec![
        asking("lacks", (1_000_000, 72, 1), (10, 10), [1_000]),
        asking("victim", (1_000_000, 1_000_000, 1), (10, 10), []),
    ];
    tasks.extend((0..5).map(|i| beside(&format!("beside{i}"), 2, 10_000_000)));
    let config = paced(10, 1, 1, 50, Sharing::Shared);
    let report = run(&Scenario::new(config, tasks, Nanos(20_000), 1)).unwrap();
    assert!(report.tasks.iter().all(|task| task.refused.is_none()));
    assert_eq!(report.tasks[0].jobs, 1);
    assert!(report.late.is_empty(), "{:#?}", report.late);
}
