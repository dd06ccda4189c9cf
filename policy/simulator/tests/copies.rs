//! In-job copies and swaps on the same copy engines, by exact instants.

use rtswap_policy::admission::{Candidate, Test};
use rtswap_policy::assign::Objective;
use rtswap_policy::cost::{DirectionCost, SwapCost};
use rtswap_policy::scheduler::{Config, Direction, Overrun, Sharing, Undrained};
use rtswap_policy::task::{Class, MemoryProfile, TaskSpec, Timing, Weight};
use rtswap_policy::units::{Bytes, Nanos, Ppm};
use rtswap_simulator::{
    After, Arrivals, Checks, Departure, Execution, Link, Report, Scenario, ScenarioError, Script,
    SimError, SimTask, run,
};

/// Far beyond all that happens.
const PERIOD: Nanos = Nanos(1_000_000);

/// Of what both swapped tasks move, with a time of 100 for each where the engine is shared and of 50 otherwise.
const CHUNKS: Bytes = Bytes(10);

fn cost(chunk: u64) -> SwapCost {
    let direction = DirectionCost {
        base: Nanos::ZERO,
        per_chunk: Nanos(chunk - 1),
        bytes_per_second: u64::MAX,
    };
    SwapCost {
        out: direction,
        in_: direction,
    }
}

fn config() -> Config {
    Config {
        capacity: Bytes(12),
        chunk: Bytes(1),
        swap_cost: cost(100),
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
        test: Test::Demand,
        duplex: Ppm::ONE,
    }
}

fn task(name: &str, deadline: u64, wcet: Nanos, swappable: Bytes, releases: &[u64]) -> SimTask {
    let timing = Timing {
        period: PERIOD,
        deadline: Nanos(deadline),
        wcet,
    };
    let spec = TaskSpec {
        name: name.into(),
        class: Class::Realtime(timing),
        memory: MemoryProfile {
            footprint: swappable.max(Bytes(1)),
            swappable,
        },
        weight: Weight::default(),
        idle_after: None,
    };
    SimTask {
        arrivals: Arrivals::At(releases.iter().copied().map(Nanos).collect()),
        ..SimTask::new(spec, Nanos::ZERO)
    }
}

/// A byte takes a nanosecond alone.
fn copy(direction: Direction, duplex: u32, bytes: u64) -> Script {
    let mut script = Script::new(Link {
        out: 1_000_000_000,
        in_: 1_000_000_000,
        duplex: Ppm(duplex),
        latency: Nanos::ZERO,
    });
    script.copy(direction, Bytes(bytes), After::default());
    script
}

/// `urgent` and `copies` are always resident. `swapped` is out and needs all the memory of `victim`, which asks for nothing.
fn set(script: Script, urgent: &[u64], copies: &[u64], swapped: &[u64]) -> Vec<SimTask> {
    let wcet = script.loaded().unwrap();
    let none = Bytes::ZERO;
    vec![
        task("urgent", 5_000, Nanos(10), none, urgent),
        SimTask {
            execution: Execution::Copies(script),
            ..task("copies", 20_000, wcet, none, copies)
        },
        task("swapped", 30_000, Nanos(100), CHUNKS, swapped),
        task("victim", PERIOD.0, Nanos(100), CHUNKS, &[]),
    ]
}

fn simulate(tasks: Vec<SimTask>) -> Report {
    let scenario = Scenario {
        checks: Checks::Every,
        ..Scenario::new(config(), tasks, PERIOD, 1)
    };
    let report = run(&scenario).unwrap();
    assert!(report.admitted(), "{report:#?}");
    assert!(report.violations.is_empty(), "{report:#?}");
    report
}

fn responses(report: &Report) -> [u64; 3] {
    [0, 1, 2].map(|place| report.tasks[place].response_max.0)
}

#[test]
fn an_eviction_and_a_copy_out_have_half_an_engine_each() {
    let script = copy(Direction::Out, 1_000_000, 100);
    let report = simulate(set(script, &[], &[0], &[10]));
    // The job copies 10 alone, and the other 90 in 180. By then 1.8 chunks have left; 8.2 leave in 410, and 10 come in in 500.
    assert_eq!(responses(&report), [0, 190, 180 + 410 + 500 + 100]);
}

#[test]
fn an_eviction_slows_a_copy_in_by_the_duplex_rate_only() {
    let script = copy(Direction::In, 800_000, 100);
    let report = simulate(set(script, &[], &[0], &[10]));
    // 90 at 4/5 take 112.5. The eviction has its engine to itself.
    assert_eq!(responses(&report), [0, 10 + 113, 500 + 500 + 100]);
}

#[test]
fn a_swap_in_slows_a_copy_out_by_the_duplex_rate_only() {
    let mut script = copy(Direction::In, 800_000, 0);
    script.compute(Nanos(600), After::default());
    let compute = 1;
    let after = After {
        compute,
        ..After::default()
    };
    script.copy(Direction::Out, Bytes(100), after);
    let report = simulate(set(script, &[], &[0], &[10]));
    // The swap-in is under way from 510 to 1010.
    assert_eq!(responses(&report), [0, 600 + 125, 500 + 500 + 100]);
}

#[test]
fn a_copy_has_the_engine_for_itself_once_the_swap_has_ended() {
    let script = copy(Direction::In, 1_000_000, 1_100);
    let report = simulate(set(script, &[], &[0], &[10]));
    // Alone until 510, with half of the engine until the ten chunks are in at 1510, then alone for the last 90.
    assert_eq!(responses(&report), [0, 1_600, 1_600 + 100 - 10]);
}

#[test]
fn a_copy_that_begins_later_slows_the_swap_from_then_on() {
    let mut script = copy(Direction::In, 1_000_000, 50);
    script.compute(Nanos(30), After::default());
    let (compute, in_) = (1, 1);
    let after = After {
        compute,
        in_,
        ..After::default()
    };
    script.compute(Nanos(530), after);
    script.copy(
        Direction::In,
        Bytes(40),
        After {
            compute: 2,
            ..after
        },
    );
    let report = simulate(set(script, &[], &[0], &[10]));
    // Copy until 50, compute until 580, copy. The swap-in begins at 510 and has 70 of its 500 by then. The copy takes 80, in
    // which the swap-in gets 40 further.
    assert_eq!(responses(&report), [0, 660, 500 + 70 + 80 + 390 + 100]);
}

#[test]
fn a_job_that_dies_leaves_its_engine() {
    let script = copy(Direction::Out, 1_000_000, 100);
    let mut tasks = set(script, &[], &[0], &[10]);
    let (at, dying) = (Nanos(50), Nanos::ZERO);
    tasks[1].departs = Some(Departure { at, dying });
    let report = simulate(tasks);
    // 0.4 chunks have left by then, the rest leaves in 480.
    assert_eq!(report.tasks[2].response_max, Nanos(40 + 480 + 500 + 100));
}

#[test]
fn loading_takes_the_wcet() {
    let script = copy(Direction::Out, 1_000_000, 100);
    let start = |tasks| simulate(tasks).start;
    let mut alike = set(script.clone(), &[], &[0], &[10]);
    alike[1].execution = Execution::Each(vec![Nanos(200)]);
    assert_eq!(script.loaded(), Some(Nanos(200)));
    // Five operations of ten chunks, at half the charge where a scenario has copies. All else is the same.
    let [shared, whole] = [set(script, &[], &[0], &[10]), alike].map(start);
    assert_eq!(whole - shared, Nanos(5 * 10 * 50));
}

/// The swap-in begins while the job copies, so that the region lasts longer than Oᴵⁿ + C at the rate of a whole engine.
#[test]
fn a_swap_charged_at_the_rate_of_a_whole_engine_would_miss() {
    let script = copy(Direction::In, 1_000_000, 100);
    let mut tasks = set(script, &[501], &[499], &[0]);
    // The eviction ends at 500, and the job has copied one byte by then. The other 99 take 198, in which 1.98 chunks come;
    // the other 8.02 take 401.
    let report = simulate(tasks.clone());
    let swapped = 500 + 198 + 401 + 100;
    assert_eq!(responses(&report), [swapped + 10 - 501, 199, swapped]);

    let deadline = 650;
    assert!(report.tasks[0].response_max > Nanos(deadline));
    if let Class::Realtime(timing) = &mut tasks[0].spec.class {
        timing.deadline = Nanos(deadline);
    }
    let candidates: Vec<Candidate> = tasks
        .iter()
        .filter_map(|task| match task.spec.class {
            Class::Realtime(timing) => Some(Candidate {
                timing,
                volume: task.spec.memory.swappable,
            }),
            Class::BestEffort => None,
        })
        .collect();
    let charged = config().platform();
    let mut whole = charged;
    whole.cost = cost(50);
    assert!(Test::Demand.holds(&whole, &candidates));
    assert!(!Test::Demand.holds(&charged, &candidates));
}

#[test]
fn scripts_that_cannot_be_run_are_refused() {
    let refused = |change: fn(&mut SimTask)| {
        let script = copy(Direction::Out, 1_000_000, 100);
        let mut tasks = set(script, &[], &[0], &[10]);
        change(&mut tasks[1]);
        match run(&Scenario::new(config(), tasks, PERIOD, 1)) {
            Err(SimError::Scenario(error)) => error,
            other => panic!("{other:?}"),
        }
    };
    let name = || String::from("copies");
    assert_eq!(
        refused(|task| {
            task.spec.class = Class::BestEffort;
        }),
        ScenarioError::NoScript(name())
    );
    assert_eq!(
        refused(|task| {
            let mut script = copy(Direction::Out, 1_000_000, 100);
            let compute = 1;
            let after = After {
                compute,
                ..After::default()
            };
            script.compute(Nanos(1), after);
            task.execution = Execution::Copies(script);
        }),
        ScenarioError::EndlessScript(name())
    );
    assert_eq!(
        refused(|task| {
            task.execution = Execution::Copies(copy(Direction::Out, 1_000_000, 0));
        }),
        ScenarioError::Execution(name())
    );
}
