//! `plan` and `simulate` with a model that is larger than the GPU.
#![allow(missing_docs)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const EXAMPLE: &str = include_str!("../../examples/larger-than-gpu.toml");
const GRAPH: &[u8] = include_bytes!("../../examples/bert-base.json.gz");
const EXAMINED: &[u8] = include_bytes!("../../tests/eval/graphs/bert-base.json.gz");

const GIB: u64 = 1 << 30;

/// A folder with a set and the graph of the example.
fn folder(set: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("set.toml"), set).unwrap();
    fs::write(folder.path().join("bert-base.json.gz"), GRAPH).unwrap();
    folder
}

fn rtswapctl(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rtswapctl"))
        .current_dir(folder)
        .args(arguments)
        .output()
        .unwrap()
}

/// The JSON of `plan`, and its exit status.
fn plan(set: &str, more: &[&str]) -> (Value, Option<i32>) {
    let folder = folder(set);
    let output = rtswapctl(
        folder.path(),
        &[&["plan", "set.toml", "--json"], more].concat(),
    );
    let read = serde_json::from_slice(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    (read.expect(&said), output.status.code())
}

/// The example with `from` replaced by `to`.
fn changed(from: &str, to: &str) -> String {
    assert!(EXAMPLE.contains(from), "{from}");
    EXAMPLE.replace(from, to)
}

#[test]
fn the_example_has_the_graph_that_is_examined() {
    assert!(GRAPH == EXAMINED);
}

#[test]
fn a_task_larger_than_the_gpu_is_admitted_with_a_budget_and_refused_without() {
    for test in ["theorem1", "demand", "pipelined"] {
        let (answer, code) = plan(EXAMPLE, &["--test", test]);
        assert_eq!(
            (&answer["schedulable"], code),
            (&Value::Bool(true), Some(0))
        );
        let trainer = &answer["tasks"][1];
        let [budget, tensors, context, footprint, host] =
            ["budget", "tensors", "context", "footprint", "host"]
                .map(|key| trainer["in_job"][format!("{key}_bytes")].as_u64().unwrap());
        assert!(tensors + context > 3 * 4 * GIB / 2, "1.5 times the GPU");
        assert!(budget + context == footprint && footprint <= 4 * GIB);
        assert!(host <= 16 * GIB);
        assert_eq!(trainer["needs_executor"], true);
        assert_eq!(answer["tasks"][0]["needs_executor"], false);
        assert_eq!(answer["tasks"][0]["in_job"], Value::Null);
    }
    // The same task with all that its tensors need, and as fast as it then is.
    let fixed = changed(
        "graph = \"bert-base.json.gz\"\ncontext = \"300MiB\"",
        "wcet_ms = 221\nfootprint = \"6.5GiB\"\nswappable = \"6.2GiB\"",
    );
    let fixed = fixed.replace("host_memory = \"16GiB\"\n", "");
    let (answer, code) = plan(&fixed, &[]);
    assert_eq!(
        (&answer["schedulable"], code),
        (&Value::Bool(false), Some(1))
    );
    let reason = answer["reason"].as_str().unwrap();
    assert!(reason.contains("trainer"), "{reason}");
}

#[test]
fn less_memory_takes_longer() {
    let wcet = |memory: &str| {
        let (answer, _) = plan(&changed("memory = \"4GiB\"", memory), &[]);
        answer["tasks"][1]["in_job"]["wcet_ns"].as_u64().unwrap()
    };
    let [least, less, whole] = [
        "memory = \"3GiB\"",
        "memory = \"5GiB\"",
        "memory = \"10GiB\"",
    ]
    .map(wcet);
    assert!(least > less && less > whole, "{least} {less} {whole}");
    // Only the input is copied where all fits.
    assert!(whole < 222_000_000, "{whole}");
}

#[test]
fn what_is_admitted_misses_nothing_beside_swaps_of_others() {
    for test in ["theorem1", "demand", "pipelined"] {
        for seed in [&[][..], &["--seed", "1"], &["--seed", "2"]] {
            let folder = folder(EXAMPLE);
            let fixed = ["simulate", "set.toml", "--json", "--test", test];
            let duration = ["--duration", "10min"];
            let output = rtswapctl(folder.path(), &[&fixed[..], &duration, seed].concat());
            let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(output.status.code(), Some(0), "{answer}");
            assert_eq!(answer["misses"], 0);
            assert_eq!(answer["violations"], Value::Array(vec![]));
            assert!(answer["tasks"][1]["jobs"].as_u64() >= Some(60));
        }
    }
}

#[test]
fn what_lacks_is_told() {
    for (from, to, said) in [
        // The copies of the model need more.
        ("\"16GiB\"", "\"1GiB\"", "host memory"),
        // Not even its largest operator fits.
        ("memory = \"4GiB\"", "memory = \"1600MiB\"", "trainer needs"),
        ("period_ms = 10000", "period_ms = 300", "more period"),
    ] {
        let (answer, code) = plan(&changed(from, to), &[]);
        assert_eq!(
            (&answer["schedulable"], code),
            (&Value::Bool(false), Some(1))
        );
        let reason = answer["reason"].as_str().unwrap();
        assert!(reason.contains(said), "{said}: {reason}");
        assert!(!reason.contains("less footprint of trainer"), "{reason}");
    }
}

#[test]
fn a_graph_that_cannot_be_read_is_told_and_nothing_is_written_over_it() {
    let folder = folder(&changed(
        "bert-base.json.gz\"\ncontext",
        "set.toml\"\ncontext",
    ));
    let output = rtswapctl(folder.path(), &["plan", "set.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.starts_with("rtswapctl: set.toml:1:1: not JSON"),
        "{said}"
    );

    fs::write(folder.path().join("set.toml"), EXAMPLE).unwrap();
    let onto = ["simulate", "set.toml", "--svg", "bert-base.json.gz"];
    let output = rtswapctl(folder.path(), &onto);
    assert_eq!(output.status.code(), Some(2));
    let there = fs::read(folder.path().join("bert-base.json.gz")).unwrap();
    assert!(there == GRAPH);
}
