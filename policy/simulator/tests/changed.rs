//! Tasks whose timing changes while they run: no job that has a deadline misses it, before, after or during a change.

use rtswap_policy::admission::Test;
use rtswap_policy::assign::Objective;
use rtswap_policy::cost::{DirectionCost, SwapCost};
use rtswap_policy::scheduler::{Config, JobEnd, Overrun, Sharing, Undrained};
use rtswap_policy::task::{Class, MemoryProfile, TaskId, TaskSpec, Timing, Weight};
use rtswap_policy::units::{Bytes, Nanos, Ppm, Time};
use rtswap_simulator::{
    Arrivals, Change, Checks, Observer, Record, Rng, Scenario, SimTask, observe,
};

#[derive(Default)]
struct Watched {
    in_time: u64,
    late: u64,
    taken: u64,
    refused: u64,
}

impl Observer for Watched {
    fn job(&mut self, record: &Record) {
        let account = &record.account;
        if account.end == JobEnd::Completed && account.deadline.is_some() {
            let is_late = account.lateness() > Nanos::ZERO;
            self.late += u64::from(is_late);
            self.in_time += u64::from(!is_late);
        }
    }

    fn change(&mut self, _now: Time, change: Change) {
        self.taken += u64::from(matches!(change, Change::Admitted(_)));
        self.refused += u64::from(matches!(change, Change::Refused(_)));
    }
}

fn config(test: Test, rng: &mut Rng) -> Config {
    let mut direction = || DirectionCost {
        base: Nanos(rng.within(0, 3)),
        per_chunk: Nanos(rng.within(0, 2)),
        bytes_per_second: u64::MAX,
    };
    Config {
        capacity: Bytes(20),
        chunk: Bytes(1),
        swap_cost: SwapCost {
            out: direction(),
            in_: direction(),
        },
        best_effort_reserve: Bytes(0),
        drain: Nanos(4),
        sharing: Sharing::Auto,
        dispatch_latency: Nanos::ZERO,
        overrun: Overrun::Continue,
        undrained: Undrained::Beside,
        swap_share: Ppm(100_000),
        longest_wait: Nanos(150_000_000),
        idle_gap: Nanos(2_000_000),
        objective: Objective::Time,
        test,
        duplex: Ppm::ONE,
    }
}

fn timing(wcet: Nanos, rng: &mut Rng) -> Class {
    let period = Nanos(rng.within(40, 160));
    let deadline = Nanos(rng.within(wcet.0 + (period.0 - wcet.0) / 3, period.0));
    Class::Realtime(Timing {
        period,
        deadline,
        wcet,
    })
}

/// Two to four tasks that need more than there is, as often as they may, and a greedy best-effort one.
fn scenario(test: Test, seed: u64) -> Scenario {
    let mut rng = Rng::new(seed);
    let count = rng.within(2, 4);
    let mut tasks = Vec::new();
    let mut wcets = Vec::new();
    for place in 0..count {
        let wcet = Nanos(rng.within(3, 15));
        let swappable = Bytes(rng.within(4, 8));
        let spec = TaskSpec {
            name: format!("realtime-{place}"),
            class: timing(wcet, &mut rng),
            memory: MemoryProfile {
                footprint: swappable + Bytes(1),
                swappable,
            },
            weight: Weight::default(),
            idle_after: None,
        };
        let mut task = SimTask::new(spec, Nanos::ZERO);
        task.arrivals = Arrivals::Greedy;
        tasks.push(task);
        wcets.push(wcet);
    }
    let spec = TaskSpec {
        name: "best-effort".into(),
        class: Class::BestEffort,
        memory: MemoryProfile {
            footprint: Bytes(3),
            swappable: Bytes(3),
        },
        weight: Weight::default(),
        idle_after: None,
    };
    tasks.push(SimTask::new(spec, Nanos(50)));
    let duration = Nanos(6_000);
    let mut scenario = Scenario::new(config(test, &mut rng), tasks, duration, seed);
    scenario.checks = Checks::Every;
    let mut changes: Vec<_> = (0..6)
        .map(|_| {
            let place = rng.within(0, count - 1);
            let class = timing(wcets[place as usize], &mut rng);
            (
                Nanos(rng.within(0, duration.0)),
                TaskId(place as u32),
                class,
            )
        })
        .collect();
    changes.sort_by_key(|(at, ..)| *at);
    scenario.classes = changes;
    scenario
}

#[test]
fn no_job_misses_its_deadline_whatever_changes() {
    let runs = std::env::var("CHANGED_RUNS").map_or(400, |runs| runs.parse().expect("a number"));
    let mut watched = Watched::default();
    let mut ran = 0;
    for seed in 0..runs {
        let test = [Test::Theorem1, Test::Demand, Test::Pipelined][seed as usize % 3];
        // A set that is not admitted at the beginning is none.
        let Ok(_) = observe(&scenario(test, seed), &mut watched) else {
            continue;
        };
        ran += 1;
        assert_eq!(watched.late, 0, "seed {seed}");
    }
    let Watched {
        in_time,
        taken,
        refused,
        ..
    } = watched;
    println!(
        "{ran} of {runs} runs: {in_time} jobs in time, {taken} changes admitted, {refused} refused"
    );
    assert!(
        ran * 2 > runs && taken > runs / 2 && refused > runs / 20,
        "{ran} {taken} {refused}"
    );
}
