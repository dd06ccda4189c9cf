//! `graph info`, `plan` and `simulate` from outside: answers, exit codes, and the same bytes each time.
#![allow(missing_docs)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// A graph of 187 operators that needs 2358 MiB at once.
const VGG: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../tests/eval/graphs/vgg-16.json.gz"
);

fn rtswapctl(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rtswapctl"))
        .current_dir(folder)
        .arg("graph")
        .args(arguments)
        .output()
        .unwrap()
}

/// Standard output of a command that must end well.
fn printed(folder: &Path, arguments: &[&str]) -> String {
    let output = rtswapctl(folder, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(folder: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(folder, arguments)).unwrap()
}

/// Standard error of a command that ends with `code` and prints nothing.
fn refused(folder: &Path, arguments: &[&str], code: i32) -> String {
    let output = rtswapctl(folder, arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert!(output.stdout.is_empty(), "{arguments:?} printed something");
    said
}

#[test]
fn a_plan_is_the_same_bytes_on_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let plan = |threads: &str, seed: &str| {
        let search = ["plan", VGG, "--budget", "4GB", "--generations", "8"];
        let options = ["--json", "--threads", threads, "--seed", seed];
        printed(folder.path(), &[&search[..], &options].concat())
    };
    let one = plan("1", "1");
    for threads in ["2", "5", "64"] {
        assert!(plan(threads, "1") == one, "{threads} threads");
    }
    assert!(plan("2", "2") != one, "the seed decides nothing");
}

#[test]
fn a_plan_runs_as_it_predicts() {
    let folder = tempfile::tempdir().unwrap();
    let search = ["plan", VGG, "--budget", "3GiB", "--generations", "5"];
    let drawn = [&search[..], &["--json", "--svg", "plan.svg"]].concat();
    let plan = printed(folder.path(), &drawn);
    fs::write(folder.path().join("plan.json"), &plan).unwrap();
    let predicted = &serde_json::from_str::<Value>(&plan).unwrap()["predicted"];
    let run = ["simulate", VGG, "--plan", "plan.json"];
    let drawn = [&run[..], &["--json", "--svg", "run.svg"]].concat();
    let output = rtswapctl(folder.path(), &drawn);
    assert!(output.stderr.is_empty(), "{output:?}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let advisor = &told["runs"][1];
    assert_eq!(advisor["run"], "advisor");
    assert_eq!(advisor["time_ns"], predicted["time_ns"]);
    assert_eq!(advisor["share"], predicted["share"]);
    assert_eq!(advisor["stalled_ns"], predicted["unhidden_ns"]);
    assert_eq!(advisor["peak_bytes"], predicted["peak_bytes"]);
    assert!(advisor["peak_bytes"].as_u64() <= told["budget_bytes"].as_u64());
    assert_eq!(told["runs"][0]["time_ns"], predicted["ideal_ns"]);
    let [svg, same] =
        ["plan.svg", "run.svg"].map(|name| fs::read_to_string(folder.path().join(name)).unwrap());
    assert!(svg == same, "the pictures differ");
    assert!(svg.starts_with("<svg") && svg.contains("vgg-16 in 3.0 GiB, advisor: "));
    // People are told the same.
    let text = printed(folder.path(), &search);
    let row = |text: &str| {
        text.lines()
            .find(|line| line.starts_with("advisor"))
            .unwrap()
            .to_owned()
    };
    assert_eq!(row(&text), row(&printed(folder.path(), &run)));
}

#[test]
fn a_repeated_operator_takes_its_time_and_is_no_stall() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, value: &Value| {
        fs::write(folder.path().join(name), value.to_string()).unwrap();
    };
    let graph = serde_json::json!({
        "version": 1,
        "name": "two",
        "tensors": [{"kind": "input", "bytes": 1 << 20}, {"kind": "activation", "bytes": 1 << 20}],
        "operators": [
            {"name": "make", "inputs": [0], "outputs": [1], "time_ns": 3_000_000},
            {"name": "read", "inputs": [1], "time_ns": 1_000_000},
        ],
    });
    write("graph.json", &graph);
    let search = [
        "plan",
        "graph.json",
        "--budget",
        "4MiB",
        "--generations",
        "1",
    ];
    let mut plan = json(folder.path(), &[&search[..], &["--json"]].concat());
    let run = ["simulate", "graph.json", "--plan", "plan.json", "--json"];
    write("plan.json", &plan);
    let once = json(folder.path(), &run)["runs"][1].clone();
    let compute = plan["compute"].as_array_mut().unwrap();
    compute.push(compute[0].clone());
    write("plan.json", &plan);
    let told = json(folder.path(), &run);
    assert_eq!(told["runs"][0]["time_ns"], 4_000_000);
    let repeated = &told["runs"][1];
    let time_ns = |run: &Value| run["time_ns"].as_u64().unwrap();
    assert_eq!(time_ns(repeated), time_ns(&once) + 3_000_000);
    assert_eq!(repeated["stalled_ns"], once["stalled_ns"]);
    let share = 4e6 / time_ns(repeated) as f64;
    assert!((repeated["share"].as_f64().unwrap() - share).abs() < 1e-6);
    let mut random = graph.clone();
    random["operators"][0]["random"] = true.into();
    write("graph.json", &random);
    assert_eq!(
        refused(folder.path(), &run, 2),
        "rtswapctl: plan.json: compute[2] runs operator 0, which ran already and draws other random numbers each time; \
         make a plan for this graph anew, by rtswapctl graph plan --json\n"
    );
}

#[test]
fn a_search_that_takes_time_ends_within_it() {
    let folder = tempfile::tempdir().unwrap();
    let begun = std::time::Instant::now();
    let text = printed(
        folder.path(),
        &["plan", VGG, "--budget", "6GiB", "--seconds", "1"],
    );
    assert!((1..20).contains(&begun.elapsed().as_secs()));
    assert!(text.contains("generation"), "{text}");
    printed(
        folder.path(),
        &["plan", VGG, "--budget", "6GiB", "--seconds", "0"],
    );
}

/// Runs `script` in a shell, `rtswapctl graph` being `$g` and the graph `$1`.
fn shell(script: &str) -> Output {
    Command::new("bash")
        .env("g", concat!(env!("CARGO_BIN_EXE_rtswapctl"), " graph"))
        .args(["-c", script, "bash", VGG])
        .output()
        .unwrap()
}

#[test]
fn a_search_that_is_interrupted_has_its_best_plan() {
    let begun = std::time::Instant::now();
    for signal in ["INT", "TERM"] {
        let script = format!(
            "$g plan $1 --budget 4GB --seconds 600 --threads 2 & sleep 1; kill -{signal} $!; wait $!"
        );
        let output = shell(&script);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(
            said.contains("interrupted; this is the best plan of"),
            "{said}"
        );
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("\nadvisor "), "{text}");
    }
    assert!(begun.elapsed().as_secs() < 30);
}

#[test]
fn output_that_cannot_be_written_is_said_and_exits_5() {
    for command in [
        "info $1",
        "plan $1 --budget 4GB --generations 1",
        "plan $1 --budget 4GB --generations 1 --json",
        "simulate $1 --budget 4GB",
    ] {
        let output = shell(&format!("$g {command} > /dev/full"));
        assert_eq!(output.status.code(), Some(5), "{command}: {output:?}");
        let gone = shell(&format!(
            "(sleep 0.2; $g {command}) | :; exit ${{PIPESTATUS[0]}}"
        ));
        assert_eq!(gone.status.code(), Some(0), "{command}: {gone:?}");
        assert!(gone.stderr.is_empty(), "{gone:?}");
    }
}

#[test]
fn the_least_budget_is_enough_and_less_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let least =
        json(folder.path(), &["info", VGG, "--json"])["largest_operator"]["least_budget_bytes"]
            .as_u64()
            .unwrap();
    let (enough, less) = (least.to_string(), (least - 1).to_string());
    for command in [&["plan", "--generations", "1"][..], &["simulate"]] {
        let with = |budget| [command, &[VGG, "--budget", budget]].concat();
        printed(folder.path(), &with(&enough));
        let said = refused(folder.path(), &with(&less), 1);
        assert!(said.contains("give at least --budget 2358MiB"), "{said}");
        assert!(
            said.contains("operator 88 (convolution_backward)"),
            "{said}"
        );
    }
}

#[test]
fn baselines_come_with_the_best_plan_before_any_search() {
    let folder = tempfile::tempdir().unwrap();
    let simulate = ["simulate", VGG, "--json", "--budget"];
    let runs = |budget| json(folder.path(), &[&simulate[..], &[budget]].concat())["runs"].clone();
    let small = runs("4GB");
    let times: Vec<_> = small
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["time_ns"].as_u64())
        .collect();
    let [ideal, on_demand, prefetch, advisor] = times[..] else {
        panic!("{small}");
    };
    assert!(
        ideal < advisor && advisor < prefetch && prefetch < on_demand,
        "{small}"
    );
    // With memory for all of it only the inputs come from the host.
    let ample = runs("100GB");
    for run in &ample.as_array().unwrap()[1..] {
        assert_eq!(run["swap_out_bytes"], 0, "{ample}");
        assert!(run["swap_in_bytes"].as_u64() < Some(64 << 20), "{ample}");
    }
}

#[test]
fn a_graph_is_read_as_it_is_or_compressed_or_from_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let info = printed(folder.path(), &["info", VGG]);
    fs::copy(VGG, folder.path().join("graph")).unwrap();
    let script =
        "$g info - < graph && zcat < graph | $g info - && zcat < graph > text && $g info text";
    let output = shell(&format!("cd {} && {script}", folder.path().display()));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), info.repeat(3));
}

#[test]
fn the_documented_graph_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let manual = include_str!("../../docs/graphs.md");
    let from = manual.find("```json\n").unwrap() + "```json\n".len();
    let text = &manual[from..][..manual[from..].find("```").unwrap()];
    fs::write(folder.path().join("graph.json"), text).unwrap();
    let told = json(folder.path(), &["info", "graph.json", "--json"]);
    assert_eq!(told["total_bytes"], 12 << 20);
}

#[test]
fn nothing_is_written_over_what_is_read() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(VGG, folder.path().join("graph")).unwrap();
    let budget = ["--budget", "4GB"];
    for command in ["plan", "simulate"] {
        let over = [&[command, "graph", "--svg", "./graph"][..], &budget].concat();
        let said = refused(folder.path(), &over, 2);
        assert!(said.contains("GRAPH and --svg are the same file"), "{said}");
    }
    let said = refused(folder.path(), &["simulate", "-", "--plan", "-"], 2);
    assert!(
        said.contains("GRAPH and --plan are the same file"),
        "{said}"
    );
    let nowhere = [
        &["simulate", "graph", "--svg", "nowhere/x.svg"][..],
        &budget,
    ]
    .concat();
    let said = rtswapctl(folder.path(), &nowhere);
    assert_eq!(said.status.code(), Some(2), "{said:?}");
    assert_eq!(
        fs::read(folder.path().join("graph")).unwrap(),
        fs::read(VGG).unwrap()
    );
}

#[test]
fn a_plan_that_was_changed_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let search = [
        "plan",
        VGG,
        "--budget",
        "3GiB",
        "--generations",
        "1",
        "--json",
    ];
    let plan = json(folder.path(), &search);
    let with = |change: &dyn Fn(&mut Value)| {
        let mut plan = plan.clone();
        change(&mut plan);
        fs::write(folder.path().join("plan.json"), plan.to_string()).unwrap();
        rtswapctl(folder.path(), &["simulate", VGG, "--plan", "plan.json"])
    };
    let said = |output: Output| {
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let steps = plan["compute"].as_array().unwrap();
    let late = |step: &Value| step["waits"][1].as_u64() > Some(0);
    let at = steps.iter().position(late).unwrap();
    let early = said(with(&|plan| {
        plan["compute"][at]["waits"] = serde_json::json!([0, 0, 0]);
    }));
    let place = format!("rtswapctl: plan.json: compute[{at}] uses tensor ");
    assert!(early.starts_with(&place), "{early}");
    let beyond = said(with(&|plan| plan["compute"][3]["operator"] = 187.into()));
    assert!(beyond.contains(": compute[3].operator: "), "{beyond}");
    // Not what it promises: told, and run all the same.
    let boast = with(&|plan| {
        let ideal = plan["predicted"]["ideal_ns"].clone();
        plan["predicted"]["time_ns"] = ideal;
        plan["predicted"]["share"] = 1.into();
    });
    assert_eq!(boast.status.code(), Some(0), "{boast:?}");
    let note = String::from_utf8(boast.stderr).unwrap();
    assert!(note.contains("plan.json predicts 374967261 ns"), "{note}");
}
