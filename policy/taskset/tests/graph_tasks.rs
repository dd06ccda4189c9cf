//! Tasks that are planned from graphs, as a set has them.
#![allow(missing_docs)]

use rtswap_policy::admission::Test;
use rtswap_policy::units::{Bytes, Nanos, Ppm};
use rtswap_taskset::{Format, GraphTask, parse};

const SET: &str = r#"version = 1
[gpu]
memory = "4GiB"
duplex = 0.9
host_memory = "16GiB"
[[task]]
name = "detector"
period_ms = 400
wcet_ms = 30
footprint = "1GiB"
swappable = "1GiB"
[[task]]
name = "trainer"
period_ms = 900
graph = "model.json.gz"
context = "300MiB"
"#;

#[test]
fn a_task_is_measured_or_has_a_graph() {
    let set = parse(SET, Format::Toml).unwrap();
    let graph = GraphTask {
        task: 1,
        file: "model.json.gz".into(),
        context: Bytes(300 << 20),
    };
    assert_eq!(set.graphs, [graph]);
    assert_eq!(set.gpu.host_memory, Some(Bytes(16 << 30)));
    assert_eq!(set.tasks[1].timing.deadline, Nanos(900_000_000));
    assert_eq!(set.tasks[1].timing.wcet, Nanos::ZERO);
}

#[test]
fn beside_jobs_that_copy_a_swap_counts_on_half_an_engine() {
    let chunk = Bytes(4 << 20);
    let with = parse(SET, Format::Toml).unwrap();
    let without = SET[..SET.rfind("[[task]]").unwrap()].replace("host_memory = \"16GiB\"\n", "");
    let without = parse(&without, Format::Toml).unwrap();
    assert_eq!((with.rate(), without.rate()), (Ppm(450_000), Ppm(900_000)));
    let time = |set: &rtswap_taskset::TaskSet, test| {
        let platform = set.platform(test, chunk);
        platform
            .cost
            .out
            .chunk_time(chunk)
            .slowed(platform.duplex)
            .0
    };
    for test in [Test::Theorem1, Test::Demand, Test::Pipelined] {
        let (twice, once) = (time(&with, test), 2 * time(&without, test));
        assert!(twice.abs_diff(once) < 100, "{twice} {once}");
    }
}

#[test]
fn what_does_not_belong_together_is_told_with_its_place() {
    for (from, to, expected) in [
        (
            "context = \"300MiB\"\n",
            "",
            "12:1: task[1].context: missing; write, for example, context = \"500MiB\"",
        ),
        (
            "context =",
            "wcet_ms = 3\ncontext =",
            "16:11: task[1].wcet_ms: the task is planned from its graph, which says that; leave it out, or leave graph and context out",
        ),
        (
            "wcet_ms = 30",
            "wcet_ms = 30\ncontext = 5",
            "10:11: task[0].context: without graph there is no such key: the footprint has the context in it; leave it out",
        ),
        (
            "model.json.gz",
            "",
            "15:9: task[1].graph: missing; write, for example, graph = \"model.json\"",
        ),
        (
            "16GiB",
            "much",
            "5:15: gpu.host_memory: \"much\" is not a size; write whole bytes, or a number and a unit as \"6.2GiB\"",
        ),
        (
            "graph = \"model.json.gz\"\ncontext = \"300MiB\"",
            "wcet_ms = 1\nfootprint = 1\nswappable = 0",
            "5:15: gpu.host_memory: no task has a graph, and swap volumes alone are not limited; leave it out",
        ),
    ] {
        assert!(SET.contains(from), "{from}");
        let error = parse(&SET.replacen(from, to, 1), Format::Toml).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}
