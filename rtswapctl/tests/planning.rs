//! `plan` and `simulate` from outside: answers, exit codes, bad input, and the same bytes each time.
#![allow(missing_docs)]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const EXAMPLE: &str = include_str!("../../examples/taskset.toml");
const REFUSED: &str = include_str!("../../examples/refused.toml");

fn rtswapctl(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rtswapctl"))
        .current_dir(folder)
        .args(arguments)
        .output()
        .unwrap()
}

/// Runs `arguments` beside a file set.toml that has `text`.
fn with(text: &str, arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("set.toml"), text).unwrap();
    rtswapctl(folder.path(), arguments)
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The example with `from` replaced by `to` wherever it is.
fn changed(from: &str, to: &str) -> String {
    assert!(EXAMPLE.contains(from), "{from}");
    EXAMPLE.replace(from, to)
}

/// Both commands refuse `text` at `line` with a message that has `said`, and print nothing else.
fn refuses(text: &str, line: usize, said: &str) {
    for command in ["plan", "simulate"] {
        let output = with(text, &[command, "set.toml"]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{command}: {message}");
        let place = format!("rtswapctl: set.toml:{line}:");
        assert!(message.starts_with(&place), "{place} {message}");
        assert!(message.contains(said), "{said}: {message}");
        assert_eq!(message.lines().count(), 1, "{message}");
        assert!(output.stdout.is_empty(), "{command} printed something");
    }
}

/// The line of the example that has `what`, from 1.
fn line_of(what: &str) -> usize {
    let place = EXAMPLE.lines().position(|line| line.contains(what));
    place.unwrap() + 1
}

#[test]
fn bad_input_is_refused_with_its_line_and_what_to_write() {
    let period = "period_ms = 4000.0";
    let at = line_of(period);
    for (to, said) in [
        ("period_ms = 0.0", "write, for example, 4000.0"),
        ("period_ms = -4000.0", "write a number without one"),
        (
            "period_ms = nan",
            "not a finite number; write one in digits",
        ),
        (
            "period_ms = inf",
            "not a finite number; write one in digits",
        ),
        ("period_ms = 1e300", "write fewer ms"),
        ("period_ms = \"4s\"", "write 4000, the key has the unit"),
        ("period_ms = \"4GiB\"", "write a number of ms"),
        ("perod_ms = 4000.0", "did you mean period_ms?"),
    ] {
        refuses(&changed(period, to), at, said);
    }
    let long = changed("deadline_ms = 3000.0", "deadline_ms = 3601.0");
    refuses(&long, line_of("deadline_ms = "), "write at most 3600");
    let slow = changed("wcet_ms = 48.0", "wcet_ms = 3001.0");
    refuses(
        &slow,
        line_of("wcet_ms = 48.0"),
        "write at most 3000, or a longer deadline_ms",
    );
    let large = changed("\"5.2GiB\"", "\"6.3GiB\"");
    refuses(&large, line_of("\"5.2GiB\""), "write at most 6657199308");
    let memory = line_of("memory = ");
    refuses(&changed("24GiB", "24GX"), memory, "did you mean \"24GiB\"?");
    refuses(&changed("24GiB", "24"), memory, "write \"24GiB\"");
    refuses(&changed("24GiB", "99999999TiB"), memory, "write less");
    refuses(
        &changed("resnet-416", ""),
        line_of("resnet-416"),
        "the name is empty; write one",
    );
    let twice = changed("resnet-416", "resnet-608");
    refuses(&twice, line_of("resnet-416"), "too; write another");
    let none = &EXAMPLE[..EXAMPLE.find("[[task]]").unwrap()];
    refuses(
        none,
        none.trim_end().lines().count(),
        "write at least one [[task]]",
    );
}

#[test]
fn too_many_tasks_are_refused() {
    let head = &EXAMPLE[..EXAMPLE.find("[[task]]").unwrap()];
    let task = |place| {
        format!(
            "[[task]]\nname = \"{place}\"\nperiod_ms = 9e6\nwcet_ms = 1\nfootprint = 0\nswappable = 0\n"
        )
    };
    let text: String = std::iter::once(head.to_owned())
        .chain((0..4_097).map(task))
        .collect();
    let last = head.lines().count() + 4_096 * 6 + 1;
    refuses(&text, last, "at most 4096 fit in a set; leave out 1");
    let text = &text[..text.rfind("[[task]]").unwrap()];
    let output = with(text, &["plan", "--test", "theorem1", "set.toml"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn files_that_are_none_are_refused() {
    for (arguments, said) in [
        (["plan", "nowhere.toml"], "cannot read nowhere.toml: "),
        (["plan", "."], ". is no regular file"),
        (["plan", "large.toml"], "large.toml has more than 64 MiB"),
        (["plan", "set.toml"], "set.toml:2: not UTF-8"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("set.toml"), b"version = 1\n\xff").unwrap();
        let large = fs::File::create(folder.path().join("large.toml")).unwrap();
        large.set_len((64 << 20) + 1).unwrap();
        let output = rtswapctl(folder.path(), &arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(said), "{said}: {message}");
    }
}

#[test]
fn json_says_all_that_was_promised() {
    let output = with(EXAMPLE, &["plan", "set.toml", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let plan = json(&output);
    let keys: Vec<_> = plan
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    for key in [
        "version",
        "schedulable",
        "test",
        "chunk_bytes",
        "total_swap_bytes",
        "blocking_ns",
        "blocking_term",
        "utilization",
        "bound",
        "slack",
        "gap",
        "tasks",
        "reason",
    ] {
        assert!(keys.contains(&key), "{key} is not in {keys:?}");
    }
    assert_eq!(
        (&plan["version"], &plan["schedulable"]),
        (&1.into(), &true.into())
    );
    assert_eq!(
        (&plan["test"], &plan["reason"]),
        (&"demand".into(), &Value::Null)
    );
    let tasks = plan["tasks"].as_array().unwrap();
    let sum = |key: &str| {
        tasks
            .iter()
            .map(|task| task[key].as_u64().unwrap())
            .sum::<u64>()
    };
    assert_eq!(
        plan["total_swap_bytes"].as_u64(),
        Some(sum("swap_volume_bytes"))
    );
    assert_eq!(tasks.len(), 8);
    assert_eq!(tasks[0]["name"], "yolo-608");
    for task in tasks {
        let volume = task["swap_volume_bytes"].as_u64().unwrap();
        assert!(volume.is_multiple_of(plan["chunk_bytes"].as_u64().unwrap()));
        assert_eq!(task["swap_out_ns"].as_u64() > Some(0), volume > 0);
    }
    let shares = tasks
        .iter()
        .map(|task| task["utilization"].as_f64().unwrap());
    assert!((shares.sum::<f64>() - plan["utilization"].as_f64().unwrap()).abs() < 1e-9);
}

#[test]
fn what_is_not_schedulable_exits_1_with_the_reason() {
    let larger = changed("24GiB", "6GiB");
    for (text, said) in [
        (REFUSED, "it would fit with"),
        (&larger, "yolo-608 needs 6.20 GiB at once and 6.00 GiB"),
    ] {
        let output = with(text, &["plan", "set.toml"]);
        assert_eq!(output.status.code(), Some(1));
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(printed.contains(said), "{printed}");
        assert!(output.stderr.is_empty());
        let simulated = with(text, &["simulate", "set.toml"]);
        assert_eq!(simulated.status.code(), Some(1));
        assert_eq!(String::from_utf8(simulated.stdout).unwrap(), printed);
        let answer = json(&with(text, &["plan", "set.toml", "--json"]));
        assert_eq!(
            (&answer["version"], &answer["schedulable"]),
            (&1.into(), &false.into())
        );
        assert!(
            printed.contains(answer["reason"].as_str().unwrap()),
            "{answer}"
        );
    }
}

#[test]
fn every_test_and_objective_is_taken() {
    let mut volumes = Vec::new();
    for test in ["theorem1", "demand", "pipelined"] {
        for objective in ["time", "volume"] {
            let options = [
                "plan",
                "set.toml",
                "--json",
                "--test",
                test,
                "--objective",
                objective,
            ];
            let output = with(EXAMPLE, &options);
            assert_eq!(output.status.code(), Some(0), "{test} {objective}");
            let plan = json(&output);
            assert_eq!(plan["test"], test);
            volumes.push(plan["total_swap_bytes"].as_u64().unwrap());
        }
    }
    assert!(
        volumes.chunks(2).all(|pair| pair[1] <= pair[0]),
        "{volumes:?}"
    );
    let output = with(EXAMPLE, &["plan", "set.toml", "--test", "theorem2"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn json_and_toml_and_standard_input_say_the_same() {
    let toml = "version = 1\n[gpu]\nmemory = \"1GiB\"\n[[task]]\nname = \"a\"\nperiod_ms = 33.3\n\
                wcet_ms = 8\nfootprint = \"600MiB\"\nswappable = \"500MiB\"\n";
    let json = r#"{"version": 1, "gpu": {"memory": "1GiB"}, "task": [{"name": "a",
        "period_ms": 33.3, "wcet_ms": 8, "footprint": "600MiB", "swappable": "500MiB"}]}"#;
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("set.toml"), toml).unwrap();
    fs::write(folder.path().join("set.json"), json).unwrap();
    let from_toml = rtswapctl(folder.path(), &["plan", "set.toml"]);
    assert_eq!(from_toml.status.code(), Some(0), "{from_toml:?}");
    assert_eq!(rtswapctl(folder.path(), &["plan", "set.json"]), from_toml);
    for text in [toml, json] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_rtswapctl"))
            .args(["plan", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        assert_eq!(child.wait_with_output().unwrap(), from_toml);
    }
}

#[test]
fn a_simulation_misses_nothing_that_was_planned() {
    for extra in [
        &[][..],
        &["--seed", "7"],
        &["--test", "pipelined", "--seed", "8"],
    ] {
        let options = [
            &["simulate", "set.toml", "--json", "--duration", "30s"],
            extra,
        ]
        .concat();
        let output = with(EXAMPLE, &options);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let answer = json(&output);
        assert_eq!(
            (&answer["version"], &answer["misses"]),
            (&1.into(), &0.into())
        );
        let tasks = answer["tasks"].as_array().unwrap();
        let jobs: u64 = tasks
            .iter()
            .map(|task| task["jobs"].as_u64().unwrap())
            .sum();
        assert_eq!(answer["jobs"].as_u64(), Some(jobs));
        for task in tasks {
            // 30 s hold 6 to 10 of the periods, each begun one having a release.
            let count = task["jobs"].as_u64().unwrap();
            assert!((6..=11).contains(&count), "{task}");
            let times = &task["response_ns"];
            assert!(
                times["max"].as_u64() <= task["deadline_ns"].as_u64(),
                "{task}"
            );
            assert!(times["p50"].as_u64() <= times["max"].as_u64(), "{task}");
        }
    }
}

#[test]
fn the_same_command_writes_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("set.toml"), EXAMPLE).unwrap();
    let run = |place: usize| {
        let (trace, svg) = (format!("{place}.json"), format!("{place}.svg"));
        let simulated = rtswapctl(
            folder.path(),
            &[
                "simulate", "set.toml", "--seed", "3", "--trace", &trace, "--svg", &svg,
            ],
        );
        assert_eq!(simulated.status.code(), Some(0), "{simulated:?}");
        let planned = rtswapctl(folder.path(), &["plan", "set.toml", "--json"]);
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        (simulated.stdout, planned.stdout, read(&trace), read(&svg))
    };
    let first = run(1);
    assert!(first == run(2), "two runs differ");
    let trace: Value = serde_json::from_str(&first.2).unwrap();
    assert!(
        trace["traceEvents"]
            .as_array()
            .is_some_and(|events| events.len() > 100)
    );
    assert!(first.3.starts_with("<svg") && first.3.contains("yolo-608"));
    let other = rtswapctl(folder.path(), &["simulate", "set.toml", "--seed", "4"]);
    assert_ne!(other.stdout, first.0, "the seed changes nothing");
}

#[test]
fn what_cannot_be_simulated_is_said() {
    for (extra, said) in [
        (["--duration", "0s"], "give a longer one"),
        (["--duration", "3"], "a time needs a unit"),
        (["--duration", "9999999min"], "jobs, and at most 50000000"),
        (["--duration", "99999999min"], "more than 10000 days"),
        (["--trace", "./set.toml"], "FILE and --trace are the same"),
        (
            ["--trace", "nowhere/trace.json"],
            "cannot write nowhere/trace.json",
        ),
    ] {
        let options = [&["simulate", "set.toml"], &extra[..]].concat();
        let output = with(EXAMPLE, &options);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(said), "{message}");
    }
}

/// Runs `script` in a shell beside set.toml, `rtswapctl` being its first argument.
fn shell(script: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("set.toml"), EXAMPLE).unwrap();
    fs::write(folder.path().join("refused.toml"), REFUSED).unwrap();
    Command::new("bash")
        .current_dir(folder.path())
        .args(["-c", script, env!("CARGO_BIN_EXE_rtswapctl")])
        .output()
        .unwrap()
}

#[test]
fn output_that_cannot_be_written_is_said_and_exits_5() {
    for script in [
        "$0 plan set.toml > /dev/full",
        "$0 plan refused.toml --json > /dev/full",
        "$0 simulate set.toml > /dev/full",
        "$0 simulate set.toml --svg /dev/full",
    ] {
        let output = shell(script);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{script}: {said}");
        assert!(
            said.contains("could not be written: ") || said.contains("cannot write /dev/full: "),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    let silent = shell("$0 plan set.toml > /dev/full 2> /dev/full");
    assert_eq!(silent.status.code(), Some(5), "{silent:?}");
}

#[test]
fn a_reader_that_goes_ends_it_quietly_and_changes_no_answer() {
    for (file, code) in [("set.toml", 0), ("refused.toml", 1)] {
        for command in ["plan", "simulate", "plan --json"] {
            // The reader has gone before anything is written.
            let script = format!("(sleep 0.2; $0 {command} {file}) | :; exit ${{PIPESTATUS[0]}}");
            let output = shell(&script);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(
                (said.as_ref(), output.status.code()),
                ("", Some(code)),
                "{script}"
            );
        }
    }
}

#[test]
fn nothing_is_written_over_the_task_set_or_twice() {
    let folder = tempfile::tempdir().unwrap();
    let set = folder.path().join("set.toml");
    fs::write(&set, EXAMPLE).unwrap();
    std::os::unix::fs::symlink("set.toml", folder.path().join("link")).unwrap();
    let absent = folder.path().join("out");
    let absent = absent.to_str().unwrap();
    for outputs in [
        &["--trace", "set.toml"][..],
        &["--svg", "./set.toml"],
        &["--svg", "link"],
        &["--trace", "out", "--svg", absent],
        &["--trace", "out", "--svg", "./out"],
    ] {
        let output = rtswapctl(
            folder.path(),
            &[&["simulate", "set.toml"], outputs].concat(),
        );
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{outputs:?}: {said}");
        assert!(said.contains("are the same file"), "{said}");
        assert_eq!(fs::read_to_string(&set).unwrap(), EXAMPLE);
        assert!(!Path::new(absent).exists());
    }
    let null = [
        "simulate",
        "set.toml",
        "--trace",
        "/dev/null",
        "--svg",
        "/dev/null",
    ];
    assert_eq!(rtswapctl(folder.path(), &null).status.code(), Some(0));
}

/// A set of two tasks that swap nothing, its times in ms.
fn two(period: &str, wcet: &str) -> String {
    let task = |name| {
        format!(
            "[[task]]\nname = \"{name}\"\nperiod_ms = {period}\nwcet_ms = {wcet}\n\
             footprint = \"64MiB\"\nswappable = 0\n"
        )
    };
    let head = "version = 1\n[gpu]\nmemory = \"1GiB\"\n";
    [head.to_owned(), task("a"), task("b")].concat()
}

#[test]
fn jobs_may_wait_for_as_long_as_their_deadlines_allow() {
    // Minutes, days, and the longest that are taken.
    for (period, wcet) in [
        ("400e3", "150e3"),
        ("864e6", "4e8"),
        ("86400000000", "40000000000"),
    ] {
        let set = two(period, wcet);
        for test in ["theorem1", "demand"] {
            let plan = with(&set, &["plan", "set.toml", "--test", test, "--json"]);
            if plan.status.code() == Some(1) {
                // Blocking counts in full for the first test.
                assert_eq!(test, "theorem1");
                continue;
            }
            let options = [
                "simulate",
                "set.toml",
                "--test",
                test,
                "--duration",
                "1s",
                "--json",
            ];
            let output = with(&set, &options);
            assert_eq!(output.status.code(), Some(0), "{output:?}");
            assert_eq!(json(&output)["jobs"], 2);
        }
    }
    refuses(&two("86400000001", "1"), 6, "write at most 86400000000");
    refuses(
        &two("9223372036854.775807", "1"),
        6,
        "longer than 1000 days",
    );
}

#[test]
fn the_text_names_what_it_is_about() {
    let set = "version = 1\n[gpu]\nmemory = \"1470MiB\"\n[[task]]\nname = \"a\"\nperiod_ms = 100\n\
               wcet_ms = 60\nfootprint = \"1469MiB\"\nswappable = \"800MiB\"\n";
    let plan = |set: &str, test| {
        let output = with(set, &["plan", "set.toml", "--test", test]);
        String::from_utf8(output.stdout).unwrap()
    };
    let said = plan(set, "demand");
    assert!(said.contains(": 1 task needs 1.00 times"), "{said}");
    let said = plan(set, "theorem1");
    assert!(
        said.starts_with("The best that was found, in chunks of 2 MiB:"),
        "{said}"
    );
    let blocking = "with a blocking of 60.000 ms (swap-in and execution of a) over the shortest";
    assert!(said.contains(blocking), "{said}");
    let short = set
        .replace("= 60\n", "= 0.0025\n")
        .replace("\"1469MiB\"", "1023");
    let said = plan(&short.replace("\"800MiB\"", "0"), "demand");
    assert!(said.contains("0.0025 ms     1023 B"), "{said}");
}
