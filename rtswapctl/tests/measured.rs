//! `rtswapctl plan --on`: a task set on a GPU as it was measured.
#![allow(missing_docs)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const EXAMPLE: &str = include_str!("../../examples/taskset.toml");

fn rtswapctl(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rtswapctl"))
        .current_dir(folder)
        .args(arguments)
        .output()
        .unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What `rtswapctl calibrate --export` writes.
const MEASURED: &str = "version = 1\ngpu = \"GPU-01234567-89ab-cdef-0123-456789abcdef\"\n\
    measured = 2026-11-27T13:00:00Z\nchunk = \"8MiB\"\nduplex = 0.5\n\
    [swap_cost.out]\nbase_us = 0\nper_chunk_us = 0\ngib_per_s = 32\n\
    [swap_cost.in]\nbase_us = 0\nper_chunk_us = 0\ngib_per_s = 32\n";

#[test]
fn a_set_is_planned_for_the_gpu_that_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("set.toml", EXAMPLE);
    write("gpu.toml", MEASURED);
    let plan = |set: &str, test: &str| {
        let options = ["plan", set, "--on", "gpu.toml", "--test", test, "--json"];
        json(&rtswapctl(folder.path(), &options))
    };
    // A chunk takes 1/4096 s alone, and twice that with the other engine loaded.
    let chunk_ns = |answer: &Value| {
        let tasks = answer["tasks"].as_array().unwrap().iter();
        let volumes = tasks.map(|task| (&task["swap_out_ns"], &task["swap_volume_bytes"]));
        let mut volumes =
            volumes.map(|(ns, bytes)| (ns.as_u64().unwrap(), bytes.as_u64().unwrap()));
        let (ns, bytes) = volumes.find(|(_, bytes)| *bytes > 0).unwrap();
        ns / (bytes >> 23)
    };
    let demand = plan("set.toml", "demand");
    assert_eq!(demand["chunk_bytes"], 8 << 20);
    assert!((488_282..488_300).contains(&chunk_ns(&demand)), "{demand}");
    assert_eq!(chunk_ns(&plan("set.toml", "pipelined")), 244_141);
    write(
        "own.toml",
        &EXAMPLE.replace("# chunk = \"64MiB\"", "chunk = \"64MiB\""),
    );
    assert_eq!(plan("own.toml", "demand")["chunk_bytes"], 64 << 20);
    let simulate = ["simulate", "set.toml", "--on", "gpu.toml", "--json"];
    let output = rtswapctl(folder.path(), &simulate);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(json(&output)["chunk_bytes"], 8 << 20);
}

#[test]
fn a_gpu_that_a_set_cannot_be_planned_for_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("set.toml", EXAMPLE);
    write("wrong.toml", &MEASURED.replace("0.5", "1.5"));
    write("large.toml", &MEASURED.replace("8MiB", "32GiB"));
    for (arguments, said) in [
        (
            ["set.toml", "wrong.toml"],
            "wrong.toml:5:10: duplex: 1.5 is no share",
        ),
        (
            ["set.toml", "large.toml"],
            "large.toml: chunks of 32.00 GiB were measured",
        ),
        (["set.toml", "set.toml"], "set.toml:22:3: task: unknown key"),
        (["-", "-"], "FILE and --on are the same file"),
        (["yolo:33ms", "wrong.toml"], "--on goes with a file"),
    ] {
        let [set, on] = arguments;
        let output = rtswapctl(folder.path(), &["plan", set, "--on", on]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(said), "{said}: {message}");
    }
}
