//! From lines to a profile and its text, each way to be wrong with its message, and that what is written is read as the
//! same.

use std::fmt::Write;

use proptest::prelude::*;
use rtswap_policy::task::MemoryProfile;
use rtswap_policy::units::{Bytes, Nanos, Ppm};

use super::*;

const MIB: u64 = 1 << 20;
const MS: u64 = 1_000_000;

const GOOD: &str = r#"# What `rtswapctl profile` saw: measured, not proven.
version = 1
name = "yolo"
measured = 2026-11-27T13:00:00Z
program = "python3 \"infer\".py"
jobs = "declared"

[gpu]
uuid = "GPU-01234567-89ab-cdef-0123-456789abcdef"
name = "NVIDIA H200"
chunk = "16MiB"

[memory]
footprint = "112MiB"
swappable = "64MiB"

[period]
median_ms = 33.3
shortest_ms = 33.1

[execution]
wcet_ms = 12.41

[execution.alone]
count = 200
median_ms = 11
high = 0.99
high_ms = 11.5
max_ms = 11.9
quantile = 0.985
confidence = 0.95

[execution.loaded]
count = 100
median_ms = 12
high = 0.99
high_ms = 12.3
max_ms = 12.402
quantile = 0.97
confidence = 0.95

[[allocation]]
bytes = "48MiB"
count = 1
kind = "context"

[[allocation]]
bytes = 1000
count = 3
kind = "arena"
"#;

fn good() -> Profile {
    let execution = |count, [median, high, max]: [u64; 3], quantile| Execution {
        count,
        median: Nanos(median),
        high: (Ppm(990_000), Nanos(high)),
        max: Nanos(max),
        quantile: Ppm(quantile),
        confidence: Ppm(950_000),
    };
    Profile {
        name: "yolo".into(),
        measured: 1_795_784_400,
        process: None,
        program: "python3 \"infer\".py".into(),
        jobs: Jobs::Declared,
        gpu: "GPU-01234567-89ab-cdef-0123-456789abcdef".into(),
        gpu_name: Some("NVIDIA H200".into()),
        chunk: Bytes(16 * MIB),
        memory: MemoryProfile {
            footprint: Bytes(112 * MIB),
            swappable: Bytes(64 * MIB),
        },
        period: (Nanos(33_300_000), Nanos(33_100_000)),
        wcet: Nanos(12_410_000),
        alone: execution(200, [11 * MS, 11_500_000, 11_900_000], 985_000),
        loaded: execution(100, [12 * MS, 12_300_000, 12_402_000], 970_000),
        allocations: vec![
            Allocation {
                bytes: Bytes(48 * MIB),
                kind: AllocationKind::Context,
                count: 1,
            },
            Allocation {
                bytes: Bytes(1_000),
                kind: AllocationKind::Arena,
                count: 3,
            },
        ],
    }
}

fn about() -> About {
    let good = good();
    About {
        name: good.name,
        measured: good.measured,
        program: good.program,
        gpu: good.gpu,
        gpu_name: good.gpu_name,
    }
}

/// A process with jobs that take `times`, one each 10 ms.
fn lines(times: &[(u64, Option<&str>)], kind: &str) -> String {
    let mut text = String::from(
        r#"{"event":"start","version":1,"pid":7,"program":"infer","ns":1}
{"event":"gpu","gpu":0,"uuid":"0","chunk_bytes":16777216,"memory_bytes":1073741824}
{"event":"alloc","gpu":0,"ns":2,"bytes":50331648,"kind":"unswappable","why":"context"}
{"event":"alloc","gpu":0,"ns":3,"bytes":1000,"kind":"arena"}
{"event":"alloc","gpu":0,"ns":4,"bytes":1000,"kind":"arena"}
{"event":"free","gpu":0,"ns":5,"bytes":1000,"kind":"arena"}
{"event":"alloc","gpu":0,"ns":6,"bytes":1000,"kind":"arena"}
"#,
    );
    for (place, (time, name)) in times.iter().enumerate() {
        let requested = 10 * MS * place as u64;
        let name = name.map_or(String::new(), |name| format!(r#","name":"{name}""#));
        let _ = writeln!(
            text,
            r#"{{"event":"job","gpu":0,"kind":"{kind}"{name},"requested_ns":{requested},"granted_ns":{},"completed_ns":{},"resident_bytes":{},"swapped_bytes":0,"arena_bytes":{},"unswappable_bytes":{},"peak_bytes":{}}}"#,
            requested + 500,
            requested + 500 + time,
            112 * MIB,
            64 * MIB,
            48 * MIB,
            112 * MIB,
        );
    }
    text
}

fn record(times: &[(u64, Option<&str>)], kind: &str) -> Record {
    Record::read(&lines(times, kind)).unwrap().unwrap()
}

#[test]
fn everything_can_be_said() {
    assert_eq!(parse(GOOD), Ok(good()));
    assert_eq!(good().to_toml(), GOOD);
    let process = Some("camera".to_owned());
    let job = Profile { process, ..good() };
    assert_eq!(parse(&job.to_toml()), Ok(job));
}

#[test]
fn a_command_line_that_is_not_whole_is_no_command() {
    let of = |program: &str| {
        let run = record(&vec![(MS, None); 20], "declared");
        let program = program.to_owned();
        let about = About { program, ..about() };
        fold(&about, &run, &run).unwrap().whole
    };
    let whole = "é".repeat(255);
    assert_eq!(of(&whole).command(), Some(&*whole));
    for (program, kept) in [
        ("x".repeat(256), "x".repeat(254)),
        ("rm -r a\nb".to_owned(), "rm -r a".to_owned()),
        ("infer \u{fffd}.onnx".to_owned(), "infer ".to_owned()),
    ] {
        let cut = of(&program);
        assert_eq!((cut.program.clone(), cut.command()), (kept + "…", None));
        assert_eq!(
            parse(&cut.to_toml()).as_ref().map(Profile::command),
            Ok(None)
        );
    }
}

#[test]
fn a_job_is_kept_by_a_name_that_a_task_can_have() {
    let times: Vec<_> = (0..40)
        .map(|n| (MS, Some(["front", "rear-left"][n % 2])))
        .collect();
    let run = record(&times, "declared");
    let name = "x".repeat(57);
    let about = About {
        name: name.clone(),
        ..about()
    };
    let folded = fold(&about, &run, &run).unwrap();
    assert_eq!(folded.long, [format!("{name}.rear-left")]);
    let [front] = &folded.named[..] else {
        panic!("{folded:?}")
    };
    assert_eq!(
        (front.name.len(), front.process.as_ref()),
        (63, Some(&name))
    );
    assert_eq!(folded.whole.process, None);
}

#[test]
fn two_runs_become_a_profile() {
    let times: Vec<_> = (1..=200).map(|n| (n * MS / 20, None)).collect();
    let alone = record(&times, "declared");
    let times: Vec<_> = (1..=100).map(|n| (n * MS / 10 + 1, None)).collect();
    let loaded = record(&times, "declared");
    let folded = fold(&about(), &alone, &loaded).unwrap();
    assert_eq!((folded.named.len(), folded.loading), (0, 0));
    let whole = folded.whole;
    assert_eq!(whole.jobs, Jobs::Declared);
    assert_eq!(whole.memory, good().memory);
    assert_eq!(whole.chunk, Bytes(16 * MIB));
    assert_eq!(whole.period, (Nanos(10 * MS), Nanos(10 * MS)));
    let Execution {
        median, high, max, ..
    } = whole.alone;
    assert_eq!((median, max), (Nanos(5 * MS), Nanos(10 * MS)));
    assert_eq!(high, (Ppm(990_000), Nanos(198 * MS / 20)));
    assert_eq!(whole.alone.quantile, Ppm(985_000));
    assert_eq!(whole.loaded.quantile, Ppm(970_000));
    // Rounded up, with nothing beyond that.
    assert_eq!(whole.loaded.max, Nanos(10_001_000));
    assert_eq!(whole.wcet, Nanos(10_010_000));
    let kinds: Vec<_> = whole
        .allocations
        .iter()
        .map(|it| (it.kind, it.count))
        .collect();
    assert_eq!(
        kinds,
        [(AllocationKind::Context, 1), (AllocationKind::Arena, 2)]
    );
    assert_eq!(parse(&whole.to_toml()), Ok(whole));
}

#[test]
fn jobs_with_names_have_profiles_of_their_own() {
    let times: Vec<_> = (0..60)
        .map(|n| match n % 3 {
            0 => (5 * MS, Some("front")),
            1 => (7 * MS, Some("rear")),
            _ if n == 2 => (MS, Some("once")),
            _ => (9 * MS, None),
        })
        .collect();
    let run = record(&times, "declared");
    let folded = fold(&about(), &run, &run).unwrap();
    assert_eq!(folded.whole.wcet, Nanos(9 * MS));
    let named = folded.named.iter();
    let named: Vec<_> = named
        .map(|it| (&*it.name, it.wcet, it.alone.count, it.period.0))
        .collect();
    assert_eq!(
        named,
        [
            ("yolo.front", Nanos(5 * MS), 20, Nanos(30 * MS)),
            ("yolo.rear", Nanos(7 * MS), 20, Nanos(30 * MS)),
        ]
    );
    assert_eq!(folded.named[0].alone.high.0, Ppm(950_000), "of few jobs");
    assert_eq!(folded.rare, ["once"]);
}

#[test]
fn what_a_program_does_while_it_loads_does_not_count() {
    let grown = |from: u64| {
        let text = lines(&vec![(MS, None); 30], "implicit");
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        for line in lines.iter_mut().take(7 + from as usize).skip(7) {
            let peak = format!("\"peak_bytes\":{}", 112 * MIB);
            *line = line.replace(&peak, "\"peak_bytes\":1");
            *line = line.replace(
                &format!("\"resident_bytes\":{}", 112 * MIB),
                "\"resident_bytes\":1",
            );
        }
        Record::read(&(lines.join("\n") + "\n")).unwrap().unwrap()
    };
    // The first job of all, and the one by which the memory has grown.
    assert_eq!(grown(0).counted().len(), 29);
    assert_eq!(grown(4).counted().len(), 25);
    let few = fold(&about(), &grown(0), &grown(11)).unwrap_err();
    assert_eq!(
        few,
        FoldError::TooFew {
            alone: 29,
            loaded: 18
        }
    );
    let folded = fold(&about(), &grown(0), &grown(4)).unwrap();
    assert_eq!((folded.whole.jobs, folded.loading), (Jobs::Implicit, 6));
    // Before the first declared job, and what follows it.
    let mut text = lines(&[(9 * MS, None)], "implicit");
    let declared = lines(&vec![(MS, None); 30], "declared");
    text.extend(declared.lines().skip(7).flat_map(|line| [line, "\n"]));
    let last = lines(&[(2 * MS, None)], "implicit");
    text.extend(last.lines().skip(7).flat_map(|line| [line, "\n"]));
    let run = Record::read(&text).unwrap().unwrap();
    assert_eq!(run.counted().len(), 31);
    let folded = fold(&about(), &run, &run).unwrap();
    assert_eq!(
        (folded.whole.jobs, folded.whole.wcet),
        (Jobs::Mixed, Nanos(2 * MS))
    );
}

#[test]
fn a_record_is_of_its_last_program_and_of_its_busiest_gpu() {
    let one = lines(&[(MS, None)], "declared");
    let two = lines(&[(MS, None), (MS, None)], "declared");
    let both = one.clone() + &two + "{\"event\":\"jo";
    assert_eq!(Record::read(&both).unwrap().unwrap().jobs.len(), 2);
    let elsewhere = two
        + &one
            .replace("\"gpu\":0", "\"gpu\":1")
            .replace("\"start\"", "\"gpu\"")
            .replace("\"version\":1", "\"gpu\":1,\"chunk_bytes\":1");
    let record = Record::read(&elsewhere).unwrap().unwrap();
    assert_eq!(record.jobs.len(), 2);
    assert_eq!(Record::read(""), Ok(None));
    assert_eq!(Record::read(&lines(&[], "declared")), Ok(None));
}

#[test]
fn a_line_that_no_agent_writes_is_told() {
    let good = lines(&[(MS, None)], "declared");
    for (from, to, said) in [
        (
            "\"version\":1",
            "\"version\":2",
            "line 1 of the record: version 2 is not known",
        ),
        (
            "\"bytes\":1000",
            "\"bytes\":-1",
            "line 4 of the record: no whole number \"bytes\"",
        ),
        (
            "\"why\":\"context\"",
            "\"why\":\"x\"",
            "line 3 of the record: \"x\" is no kind",
        ),
        (
            "\"granted_ns\":500",
            "\"granted_ns\":9999999999",
            "line 8 of the record: the job ends before",
        ),
        (
            "{\"event\":\"gpu\"",
            "{\"event\":\"x\"",
            "line 2 of the record: \"x\" is no event",
        ),
        (
            "{\"event\":\"gpu\"",
            "\u{7}",
            "line 2 of the record: expected value",
        ),
    ] {
        let error = Record::read(&good.replacen(from, to, 1)).unwrap_err();
        assert!(error.to_string().starts_with(said), "{error}");
    }
}

#[test]
fn what_is_wrong_in_a_file_is_told_with_its_place() {
    for (from, to, expected) in [
        (
            "version = 1",
            "version = 2",
            "2:11: version: version 2 is not known; write version = 1",
        ),
        ("jobs", "job", "6:1: job: unknown key; did you mean jobs?"),
        (
            "\"declared\"",
            "\"often\"",
            "6:8: jobs: \"often\" where \"declared\" or \"implicit\" or \"mixed\" belongs; write one of these",
        ),
        (
            "wcet_ms = 12.41",
            "wcet_ms = 12.4",
            "22:11: execution.wcet_ms: the WCET, 12.4 ms, is shorter than a job that was seen, 12.402 ms; write at least 12.402",
        ),
        (
            "count = 100",
            "count = 0.5",
            "34:9: execution.loaded.count: 0.5 is not a whole number from 1 on; write one",
        ),
        (
            "swappable = \"64MiB\"",
            "swappable = \"1GiB\"",
            "15:13: memory.swappable: 1073741824 bytes (1.00 GiB) can be swapped of a footprint of 117440512 bytes (112.0 MiB); write at most 117440512",
        ),
        (
            "high = 0.99",
            "high = 1.2",
            "27:8: execution.alone.high: 1.2 is no share: 0 < duplex ≤ 1; write, for example, 0.8",
        ),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let error = parse(&GOOD.replacen(from, to, 1)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

proptest! {
    #[test]
    fn what_is_folded_is_written_and_read_as_the_same(
        times in prop::collection::vec(0_u64..10_000_000_000, 20..150),
        program in ".{1,300}",
    ) {
        let times: Vec<_> = times.into_iter().map(|time| (time, None)).collect();
        let run = record(&times, "declared");
        let about = About { program: format!("x{program}"), ..about() };
        let whole = fold(&about, &run, &run).unwrap().whole;
        let longest = times.iter().map(|it| it.0).max().unwrap();
        prop_assert!(whole.wcet.0 >= longest && whole.wcet.0 - longest <= 10_000);
        let text = whole.to_toml();
        prop_assert_eq!(parse(&text), Ok(whole), "{}", text);
    }

    #[test]
    fn no_text_panics(at in any::<prop::sample::Index>(), removed in 0_usize..9, put in ".{0,4}") {
        let mut text: Vec<char> = GOOD.chars().collect();
        let from = at.index(text.len() + 1);
        let to = (from + removed).min(text.len());
        text.splice(from..to, put.chars());
        let text: String = text.into_iter().collect();
        if let Ok(profile) = parse(&text) {
            prop_assert_eq!(parse(&profile.to_toml()), Ok(profile));
        }
    }
}
