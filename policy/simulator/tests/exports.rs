//! The pictures of a run: valid, complete, and the same bytes for the same run, in this process
//! and in another.

use std::process::Command;

use rtswap_policy::admission::Test;
use rtswap_policy::assign::Objective;
use rtswap_policy::cost::{DirectionCost, SwapCost};
use rtswap_policy::scheduler::{Config, Overrun, Sharing, Undrained};
use rtswap_policy::task::{Class, MemoryProfile, TaskSpec, Timing, Weight};
use rtswap_policy::units::{Bytes, Nanos, Ppm};
use rtswap_simulator::export::svg::View;
use rtswap_simulator::export::{chrome, svg};
use rtswap_simulator::{
    Arrivals, Departure, Execution, Report, Responses, Scenario, SimTask, Timeline, observe,
};
use serde_json::Value;

const MILLISECOND: u64 = 1_000_000;

/// Three realtime tasks that swap, one of which comes and goes, beside best-effort; names that no
/// format likes; one overrun that makes others late.
fn scenario(test: Test) -> Scenario {
    let cost = DirectionCost {
        base: Nanos(20_000),
        per_chunk: Nanos(MILLISECOND),
        bytes_per_second: u64::MAX,
    };
    let config = Config {
        capacity: Bytes(10),
        chunk: Bytes(1),
        swap_cost: SwapCost {
            out: cost,
            in_: cost,
        },
        best_effort_reserve: Bytes(1),
        drain: Nanos(2 * MILLISECOND),
        sharing: Sharing::Exclusive,
        dispatch_latency: Nanos(5_000),
        overrun: Overrun::Continue,
        undrained: Undrained::Beside,
        swap_share: Ppm(100_000),
        longest_wait: Nanos(3_000 * MILLISECOND),
        idle_gap: Nanos(2_000_000),
        objective: Objective::Time,
        test,
        duplex: Ppm(800_000),
    };
    let realtime = |name: &str, period: u64, wcet: u64, footprint| {
        let timing = Timing {
            period: Nanos(period * MILLISECOND),
            deadline: Nanos(period * MILLISECOND),
            wcet: Nanos(wcet * MILLISECOND),
        };
        let spec = TaskSpec {
            name: name.into(),
            class: Class::Realtime(timing),
            memory: MemoryProfile {
                footprint: Bytes(footprint),
                swappable: Bytes(footprint),
            },
            weight: Weight::default(),
            idle_after: None,
        };
        SimTask::new(spec, Nanos::ZERO)
    };
    let mut camera = realtime("front <camera> & \"lidar\"", 120, 7, 5);
    let once = std::iter::once(Nanos(200 * MILLISECOND));
    let spans = once.chain([Nanos(7 * MILLISECOND); 40]).collect();
    camera.execution = Execution::Each(spans);
    let mut guest = realtime("guest\\\u{7}\n", 300, 5, 3);
    guest.arrives = Some(Nanos(400 * MILLISECOND));
    guest.departs = Some(Departure {
        at: Nanos(1_700 * MILLISECOND),
        dying: Nanos(50 * MILLISECOND),
    });
    let other = TaskSpec {
        name: "best-effort".into(),
        class: Class::BestEffort,
        memory: MemoryProfile {
            footprint: Bytes(2),
            swappable: Bytes(1),
        },
        weight: Weight::default(),
        idle_after: None,
    };
    let mut planner = realtime("planner", 160, 11, 6);
    planner.arrivals = Arrivals::Sporadic {
        offset: Nanos(3 * MILLISECOND),
        jitter: Nanos(9 * MILLISECOND),
    };
    let best_effort = SimTask::new(other, Nanos(13 * MILLISECOND));
    let tasks = vec![camera, planner, guest, best_effort];
    Scenario::new(config, tasks, Nanos(2_000 * MILLISECOND), 11)
}

fn exports(test: Test) -> (Report, Timeline, Responses, String, String) {
    let scenario = scenario(test);
    let mut watching = (Timeline::new(&scenario), Responses::default());
    let report = observe(&scenario, &mut watching).expect("the scenario can be run");
    let (timeline, responses) = watching;
    let trace = chrome::trace(&timeline);
    let picture = svg::timeline(&timeline, &View::whole(&timeline));
    (report, timeline, responses, trace, picture)
}

#[test]
fn the_trace_is_json_that_tells_every_job_and_every_operation() {
    for test in [Test::Theorem1, Test::Pipelined] {
        let (report, timeline, _, trace, _) = exports(test);
        assert!(report.admitted(), "{report:#?}");
        assert!(report.misses() > 0, "the overrun makes others late");
        let trace: Value = serde_json::from_str(&trace).expect("the trace is JSON");
        let events = trace["traceEvents"].as_array().unwrap();
        let named = |phase: &str, name: &str| {
            let is = |event: &&Value| event["ph"] == phase && event["name"] == name;
            events.iter().filter(is).count()
        };
        let names = events.iter().filter(|event| event["ph"] == "M");
        let names: Vec<&str> = names.filter_map(|e| e["args"]["name"].as_str()).collect();
        for name in &timeline.names {
            assert!(names.contains(&name.as_str()), "{name:?} in {names:?}");
        }
        let granted = timeline
            .jobs
            .iter()
            .filter(|job| job.account.granted.is_some());
        assert_eq!(named("X", "execution"), granted.count());
        assert_eq!(named("i", "deadline missed") as u64, report.misses());
        let row = |pid: u64, tid: u64| {
            let of = move |e: &&Value| e["ph"] == "X" && e["pid"] == pid && e["tid"] == tid;
            events.iter().filter(of)
        };
        assert_eq!(row(1, 2).count() + row(1, 3).count(), timeline.swaps.len());
        assert!(row(1, 2).count() > 10, "it swaps");
        let whole = |event: &Value| {
            let micros = |key: &str| (event[key].as_f64().unwrap() * 1e3).round() as u64;
            (micros("ts"), micros("ts") + micros("dur"))
        };
        // On every row an event lies within another or beside it, as viewers want it.
        for (pid, tid) in [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3), (2, 4)] {
            let spans: Vec<_> = row(pid, tid).map(whole).collect();
            assert!(!spans.is_empty(), "row {tid} of {pid}");
            for (place, a) in spans.iter().enumerate() {
                for b in &spans[place + 1..] {
                    let apart = a.1 <= b.0 || b.1 <= a.0;
                    let nested = (a.0 <= b.0 && b.1 <= a.1) || (b.0 <= a.0 && a.1 <= b.1);
                    assert!(apart || nested, "row {tid} of {pid}: {a:?} and {b:?}");
                }
            }
        }
    }
}

#[test]
fn records_agree_with_the_accounts_and_with_the_operations() {
    for test in [Test::Theorem1, Test::Pipelined] {
        let (report, timeline, responses, ..) = exports(test);
        let jobs = timeline.jobs.iter().map(|job| job.in_.bytes.0).sum::<u64>();
        let of_jobs = timeline.swaps.iter().filter(|swap| {
            let inward = swap.direction == rtswap_policy::scheduler::Direction::In;
            inward && swap.beneficiary.is_some()
        });
        assert_eq!(jobs, of_jobs.map(|swap| swap.bytes.0).sum::<u64>());
        for job in &timeline.jobs {
            let account = &job.account;
            let sum = account.queue + account.swap_out + account.swap_in + account.execution;
            assert_eq!(sum, account.ended - account.eligible);
            assert_eq!(job.in_.operations == 0, job.in_.bytes == Bytes::ZERO);
        }
        for (place, task) in report.tasks.iter().enumerate() {
            let id = rtswap_policy::task::TaskId(place as u32);
            let summary = responses.summary(id).unwrap();
            assert_eq!((summary.count, summary.misses), (task.jobs, task.misses));
            assert_eq!(summary.max, task.response_max);
            let mean = task.response_sum.0 / task.jobs;
            assert_eq!(summary.mean.0, mean);
            assert!(summary.min <= summary.p50 && summary.p99 <= summary.max);
        }
    }
}

#[test]
fn the_picture_is_well_formed_and_marks_what_was_missed() {
    let (report, timeline, _, _, picture) = exports(Test::Theorem1);
    let mut open = Vec::new();
    for tag in picture.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("each tag ends");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(tag.split(' ').next().unwrap());
        }
    }
    assert!(open.is_empty(), "{open:?}");
    assert!(picture.contains("front &lt;camera&gt; &amp;"));
    let late = picture.matches("<title>late by ").count();
    assert_eq!(late as u64, report.misses());
    // A part shows less, and all of it lies on the canvas.
    let view = View {
        from: Nanos(500 * MILLISECOND),
        until: Nanos(900 * MILLISECOND),
        width: 700,
    };
    let part = svg::timeline(&timeline, &view);
    assert!(part.len() * 2 < picture.len());
    for bar in part.split("<rect x=\"").skip(1) {
        let x: f64 = bar.split('"').next().unwrap().parse().unwrap();
        assert!((180.0..=880.0).contains(&x), "{bar}");
    }
    let none = View {
        from: Nanos(9),
        until: Nanos(3),
        width: 0,
    };
    assert!(svg::timeline(&timeline, &none).ends_with("</svg>\n"));
}

/// FNV-1a: enough to see a difference.
fn fingerprint(bytes: &str) -> u64 {
    bytes.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn fingerprints() -> String {
    [Test::Theorem1, Test::Demand, Test::Pipelined]
        .map(|test| {
            let (report, timeline, _, trace, picture) = exports(test);
            let all = [
                format!("{report:?}"),
                format!("{timeline:?}"),
                trace,
                picture,
            ];
            all.map(|text| format!("{:016x}", fingerprint(&text)))
                .join(" ")
        })
        .join(" ")
}

/// The test below runs this one in processes of their own.
#[test]
fn every_export_has_a_fingerprint_of_its_own() {
    let said = fingerprints();
    println!("fingerprints: {said}");
    let mut all: Vec<_> = said.split(' ').collect();
    all.sort_unstable();
    all.dedup();
    assert!(all.len() > 6, "{said}");
}

#[test]
fn another_process_gives_the_same_bytes() {
    let here = fingerprints();
    assert_eq!(here, fingerprints());
    let mut seen = 0;
    for _ in 0..2 {
        let other = Command::new(std::env::current_exe().expect("a test is a program"))
            .args([
                "--exact",
                "every_export_has_a_fingerprint_of_its_own",
                "--nocapture",
            ])
            .output()
            .expect("a test can be run again");
        let said = String::from_utf8_lossy(&other.stdout);
        let said = said.split("fingerprints: ").nth(1).expect("it says them");
        assert_eq!(said.lines().next(), Some(here.as_str()));
        seen += 1;
    }
    assert_eq!(seen, 2);
}
