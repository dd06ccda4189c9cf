//! What `rtswapctl --json` and `Manager1.Plan` print, held against docs/schemas.
#![allow(missing_docs)]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::CommandFactory as _;
use jsonschema::{Registry, Validator};
use rtswap_dbus::Manager1Proxy;
use rtswap_e2e::{Machine, MachineOptions, Program, probe, wait_until};
use rtswapctl::cli::Cli;
use serde_json::{Value, json};

const BOUND: Duration = Duration::from_mins(1);

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The schemas that belong to no command.
const NO_COMMAND: [&str; 1] = ["manager-plan"];

/// The schemas of files that are read only, and may leave out keys.
const READ: [&str; 1] = ["graph"];

/// The keys that a command may leave out. All others are there, with null where nothing is known.
const OPTIONAL: [&str; 1] = ["mend"];

const ACCEPTED: &str = include_str!("../../../examples/taskset.toml");
const LARGER: &str = include_str!("../../../examples/larger-than-gpu.toml");
const REFUSED: &str = include_str!("../../../examples/refused.toml");

const TESTS: [&str; 3] = ["theorem1", "demand", "pipelined"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas")
}

fn schema(name: &str) -> Result<Value> {
    let path = folder().join(format!("{name}.json"));
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

/// The schema `name`, ready to judge. Schemas may refer to each other by file name.
fn validator(name: &str) -> Result<Validator> {
    const BASE: &str = "json-schema:///";
    let registry = Registry::new().add(format!("{BASE}plan.json"), schema("plan")?)?;
    let registry = registry.prepare()?;
    let options = jsonschema::draft202012::options().with_registry(&registry);
    Ok(options
        .with_base_uri(format!("{BASE}{name}.json"))
        .build(&schema(name)?)?)
}

/// Holds `output` against the schema `name`. The schema must also refuse each spoilt copy of `output`: one that lets
/// a key be missing, or be of another type, would go on accepting a command that has changed.
fn check(name: &str, output: &Value) -> Result<()> {
    let validator = validator(name)?;
    let faults: Vec<_> = validator
        .iter_errors(output)
        .map(|fault| format!("{}: {fault}", fault.instance_path()))
        .collect();
    ensure!(faults.is_empty(), "{name}: {faults:#?} in {output}");
    for (how, spoilt) in spoilt(output) {
        ensure!(
            !validator.is_valid(&spoilt),
            "{name} accepts {how} in {output}"
        );
    }
    Ok(())
}

/// Copies of `whole`, each with one fault and its description: an unknown key, a missing key, a value of another type.
fn spoilt(whole: &Value) -> Vec<(String, Value)> {
    let mut places = Vec::new();
    add_places(whole, String::new(), &mut places);
    let mut copies = Vec::new();
    for place in places {
        let mut spoil = |how: &str, change: &dyn Fn(&mut Value)| {
            let mut copy = whole.clone();
            change(copy.pointer_mut(&place).expect("a place of the original"));
            copies.push((format!("{how} at {place:?}"), copy));
        };
        match whole.pointer(&place) {
            Some(Value::Bool(_)) => spoil("a text", &|value| *value = json!("true")),
            _ => spoil("a boolean", &|value| *value = json!(true)),
        }
        let Some(Value::Object(fields)) = whole.pointer(&place) else {
            continue;
        };
        spoil("an unknown key", &|value| value["unknown"] = json!(0));
        for key in fields.keys() {
            spoil(&format!("no {key}"), &|value| {
                value.as_object_mut().and_then(|fields| fields.remove(key));
            });
        }
    }
    copies
}

/// Adds the places of `value` and all below it, as JSON pointers.
fn add_places(value: &Value, place: String, places: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                add_places(value, format!("{place}/{key}"), places);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                add_places(value, format!("{place}/{index}"), places);
            }
        }
        _ => {}
    }
    places.push(place);
}

/// What `rtswapctl ARGUMENTS` prints, which is one line, where it ends with one of `codes`.
fn printed(machine: &Machine, arguments: &[&str], codes: &[i32]) -> Result<Value> {
    let mut command = machine.command(machine.binary("rtswapctl"));
    command.args(arguments);
    let finished = Program::start(command)?.finish(BOUND)?;
    let is_expected = finished
        .status
        .code()
        .is_some_and(|code| codes.contains(&code));
    ensure!(is_expected, "{arguments:?}: {finished:?}");
    ensure!(finished.stdout.lines().count() == 1, "{finished:?}");
    Ok(serde_json::from_str(&finished.stdout)?)
}

fn manager_plan(machine: &Machine) -> Result<Value> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let text = runtime.block_on(async {
        let connection = rtswap_dbus::connect(&machine.runtime_dir()).await?;
        let manager = Manager1Proxy::new(&connection).await?;
        anyhow::Ok(manager.plan().await?)
    })?;
    Ok(serde_json::from_str(&text)?)
}

/// A program under the agent, with these options of `rtswapctl run`.
fn task(machine: &Machine, options: &[&str], memory: &str) -> Result<Program> {
    let mut command = machine.run(options, machine.dnn());
    command.args(["--memory", memory, "--layers", "4", "--period", "250ms"]);
    Program::start(command)
}

/// Whether `status` shows jobs of so many tasks, swaps, and the process `stranger` as NVML and the probes have it.
fn is_full(status: &Value, tasks: usize, stranger: u32) -> bool {
    let rows = |key: &str| status[key].as_array().cloned().unwrap_or_default();
    let is_positive = |row: &Value, key: &str| row[key].as_u64() > Some(0);
    let swaps = ["swap_out_bytes_total", "swap_in_us_total"];
    let is_counted = |row: &Value| status["probes"]["state"] != "on" || row["probed"].is_object();
    let is_stranger = |row: &Value| row["pid"] == stranger && row["nvml_bytes"].is_u64();
    rows("tasks").len() == tasks
        && rows("tasks").iter().all(|row| is_positive(row, "jobs"))
        && swaps
            .iter()
            .all(|key| rows("tasks").iter().any(|row| is_positive(row, key)))
        && rows("processes")
            .iter()
            .any(|row| is_stranger(row) && is_counted(row))
}

#[test]
fn what_is_printed_beside_a_daemon_fits_its_schema() -> Result<()> {
    let machine = Machine::new(MachineOptions {
        memory_mib: 96,
        probes: true,
        daemon_toml: "[daemon]\nnvml_period_ms = 100\n".into(),
        ..MachineOptions::default()
    })?;
    let folder = machine.runtime_dir();
    let doctor = [
        "doctor",
        "--json",
        "--runtime-dir",
        folder.to_str().context("in UTF-8")?,
    ];
    let alone = printed(&machine, &doctor, &[1])?;
    let findings = alone["findings"].as_array().context("a list")?;
    ensure!(
        findings
            .iter()
            .any(|finding| finding["check"] == "daemon" && finding["mend"].is_string())
    );
    check("doctor", &alone)?;
    let alone = printed(&machine, &["version", "--json"], &[3])?;
    ensure!(alone["rtswapd"].is_null(), "{alone}");
    check("version", &alone)?;

    let _daemon = machine.daemon()?;
    let probes = machine.probes_state(BOUND)?;
    if probes != "on" {
        // Past the harness, which hides the output of tests that pass.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED what the probes count: probes {probes}"
        );
    }
    check("status", &machine.status()?)?;
    let declared = [
        ["--name", "camera"],
        ["--period", "250ms"],
        ["--wcet", "50ms"],
        ["--footprint", "40MiB"],
        ["--swappable", "32MiB"],
    ];
    let mut stranger = machine.command(machine.dnn());
    stranger.args(["--memory", "4MiB", "--layers", "1", "--period", "250ms"]);
    let stranger = Program::start(stranger)?;
    let _tasks = [
        task(&machine, declared.as_flattened(), "32MiB")?,
        task(&machine, &["--name", "train"], "20MiB")?,
        task(&machine, &["--name", "tune"], "20MiB")?,
    ];
    let mut status = Value::Null;
    wait_until("all of them run and swap", BOUND, || {
        status = machine.status().unwrap_or_default();
        is_full(&status, 3, stranger.pid())
    })
    .with_context(|| status.to_string())?;
    check("status", &status)?;
    check(
        "status",
        &printed(&machine, &["status", "--json", "camera"], &[0])?,
    )?;
    check("tasks", &printed(&machine, &["tasks", "--json"], &[0])?)?;
    check("version", &printed(&machine, &["version", "--json"], &[0])?)?;
    let rules = ["gpu_memory=8GiB", "class=declared", "deadline=200ms"];
    let mut set = machine.command(machine.binary("rtswapctl"));
    set.args(["policy", "set", "--task", "camera"]).args(rules);
    let set = Program::start(set)?.finish(BOUND)?;
    ensure!(set.status.success(), "{set:?}");
    let policy = printed(&machine, &["policy", "get", "--json"], &[0])?;
    ensure!(
        policy["rules"].as_array().map(Vec::len) == Some(5),
        "{policy}"
    );
    check("policy", &policy)?;
    check("doctor", &printed(&machine, &doctor, &[0, 1, 6])?)?;
    let plan = manager_plan(&machine)?;
    ensure!(plan["gpus"][0]["tasks"][0]["name"] == "camera", "{plan}");
    check("manager-plan", &plan)
}

#[test]
fn what_is_measured_fits_its_schema() -> Result<()> {
    let machine = Machine::new(MachineOptions {
        described: false,
        ..MachineOptions::default()
    })?;
    let _daemon = machine.daemon()?;
    wait_until("a GPU by NVML", BOUND, || {
        machine
            .status()
            .is_ok_and(|status| status["gpus"][0].is_object())
    })?;
    let told = printed(&machine, &["calibrate", "--json"], &[0])?;
    check("calibrate", &told)?;
    ensure!(told["used"] == true, "{told}");
    let gpu = &machine.status()?["gpus"][0];
    ensure!(gpu["swap_cost_source"] == "calibrated", "{gpu}");
    ensure!(gpu["chunk_bytes"] == told["chunk_bytes"], "{gpu}");
    let file = machine.path("own.toml");
    let file = file.to_str().context("in UTF-8")?;
    let elsewhere = machine.path("nobody");
    let elsewhere = elsewhere.to_str().context("in UTF-8")?;
    let export = [
        "calibrate",
        "--json",
        "--export",
        file,
        "--runtime-dir",
        elsewhere,
    ];
    let told = printed(&machine, &export, &[0])?;
    ensure!(told["used"].is_null(), "{told}");
    ensure!(fs::read_to_string(file)?.contains("[swap_cost.out]"));
    Ok(())
}

#[test]
fn what_is_measured_of_a_program_fits_its_schema() -> Result<()> {
    let machine = Machine::new(MachineOptions {
        memory_mib: 256,
        ..MachineOptions::default()
    })?;
    let program = probe("named", &machine.path(""), &machine.driver_dir())?;
    let profile = |name: &str| {
        let mut command = machine.command(machine.binary("rtswapctl"));
        command
            .env("XDG_DATA_HOME", machine.path("data"))
            .args(["profile", "--json", "--jobs", "50", "--name", name, "--"])
            .arg(&program)
            .args(["0", "2"]);
        let finished = Program::start(command)?.finish(BOUND)?;
        ensure!(finished.stdout.lines().count() == 1, "{finished:?}");
        finished.json()
    };
    let told = profile("named")?;
    check("profile", &told)?;
    ensure!(told["named"][1]["name"] == "named.rear", "{told}");
    let file = told["named"][1]["file"].as_str().context("a file")?;
    let text = fs::read_to_string(file)?;
    ensure!(text.contains("process = \"named\"\n"), "{text}");
    // Of a task by itself; and names that no task can have.
    fs::write(file, text.replace("process = \"named\"\n", ""))?;
    let told = profile("named")?;
    check("profile", &told)?;
    ensure!(told["named"][1]["file"].is_null(), "{told}");
    let long = "x".repeat(60);
    let told = profile(&long)?;
    check("profile", &told)?;
    ensure!(
        told["long"] == json!([long.clone() + ".front", long + ".rear"]),
        "{told}"
    );
    Ok(())
}

#[test]
fn what_is_printed_of_a_task_set_fits_its_schema() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    // Too little for what may not be swapped: no plan has any figures.
    let starved = REFUSED.replace("memory = \"9GiB\"", "memory = \"2GiB\"");
    let mut kinds = BTreeSet::new();
    fs::copy(
        folder().join("../../examples/bert-base.json.gz"),
        machine.path("bert-base.json.gz"),
    )?;
    for (text, test) in [ACCEPTED, LARGER, REFUSED, &starved]
        .into_iter()
        .flat_map(|text| TESTS.map(|test| (text, test)))
    {
        let path = machine.path("set.toml");
        fs::write(&path, text)?;
        let set = [path.to_str().context("in UTF-8")?, "--json", "--test", test];
        let plan = printed(&machine, &[&["plan"], &set[..]].concat(), &[0, 1])?;
        check("plan", &plan)?;
        let is_schedulable = plan["schedulable"] == true;
        kinds.insert((is_schedulable, plan["utilization"].is_null()));
        for seed in [&[][..], &["--seed", "7"]] {
            let simulate = [&["simulate", "--duration", "20s"], &set[..], seed].concat();
            let simulated = printed(&machine, &simulate, &[0, 1])?;
            check("simulate", &simulated)?;
            let is_simulated = simulated["tasks"][0]["jobs"].as_u64() > Some(0);
            ensure!(is_simulated == is_schedulable, "{simulated}");
        }
    }
    let expected = BTreeSet::from([(true, false), (false, false), (false, true)]);
    ensure!(kinds == expected, "{kinds:?}");
    Ok(())
}

/// Two parameters that are changed, the first one from an input: seven tensors of 8 MiB, of which three are in use at once.
const GRAPH: &str = r#"{"version": 1, "name": "small", "tensors": [{"kind": "parameter", "bytes": 8388608, "name": "weight"},
    {"kind": "input", "bytes": 8388608}, {"kind": "activation", "bytes": 8388608}, {"kind": "scratch", "bytes": 8388608},
    {"kind": "optimizer_state", "bytes": 8388608}, {"kind": "gradient", "bytes": 8388608}, {"kind": "gradient", "bytes": 8388608}],
    "operators": [{"name": "make", "inputs": [0, 1], "outputs": [2], "flops": 1, "bytes": 2, "arithmetic": "dense", "random": false},
    {"name": "change", "inputs": [2], "updates": [0], "outputs": [3], "time_ns": 5},
    {"name": "change", "updates": [4], "outputs": [5, 6]}]}"#;

#[test]
fn what_is_printed_of_a_graph_fits_its_schema() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let [graph, plan] = ["graph.json", "plan.json"].map(|name| machine.path(name));
    fs::write(&graph, GRAPH)?;
    let graph = graph.to_str().context("in UTF-8")?;
    let given = serde_json::from_str(GRAPH)?;
    ensure!(
        validator("graph")?.is_valid(&given),
        "graph refuses {GRAPH}"
    );
    let info = printed(&machine, &["graph", "info", graph, "--json"], &[0])?;
    ensure!(
        info["largest_operator"]["least_budget_bytes"] == 24 << 20,
        "{info}"
    );
    check("graph-info", &info)?;
    let mut full: BTreeSet<&str> = BTreeSet::new();
    // Parameters are swapped in the smaller budget, and stay in the larger one.
    for budget in ["24MiB", "32MiB"] {
        let options = ["--budget", budget, "--json"];
        let simulate = [&["graph", "simulate", graph], &options[..]].concat();
        check("graph-simulate", &printed(&machine, &simulate, &[0])?)?;
        let mut command = machine.command(machine.binary("rtswapctl"));
        command
            .args(["graph", "plan", graph, "--generations", "2"])
            .args(options);
        let finished = Program::start(command)?.finish(BOUND)?;
        ensure!(finished.status.success(), "{finished:?}");
        let written: Value = serde_json::from_str(&finished.stdout)?;
        check("graph-plan", &written)?;
        let lists = ["residents", "compute", "swap_in", "swap_out"];
        full.extend(lists.iter().filter(|key| written[key][0].is_object()));
        fs::write(&plan, finished.stdout)?;
        let plan = plan.to_str().context("in UTF-8")?;
        let simulate = ["graph", "simulate", graph, "--plan", plan, "--json"];
        check("graph-simulate", &printed(&machine, &simulate, &[0])?)?;
    }
    ensure!(full.len() == 4, "only {full:?} were seen");
    Ok(())
}

/// The commands below `command` that have a flag `--json`, such as `policy get`.
fn with_json(command: &clap::Command) -> Vec<String> {
    let below = command.get_subcommands().flat_map(|below| {
        let name = below.get_name();
        let has_json = below
            .get_arguments()
            .any(|it| it.get_long() == Some("json"));
        let own = has_json.then(|| name.to_owned());
        let further = with_json(below).into_iter();
        own.into_iter()
            .chain(further.map(move |further| format!("{name} {further}")))
    });
    below.collect()
}

/// The name of the schema of such a command: its first word, and of one for graphs both.
fn schema_of(command: &str) -> String {
    let first = command.split(' ').next().unwrap_or(command);
    match first {
        "graph" => command.replace(' ', "-"),
        _ => first.to_owned(),
    }
}

#[test]
fn each_command_with_json_has_one_schema() -> Result<()> {
    let commands = with_json(&Cli::command());
    let expected = commands.iter().map(|command| schema_of(command));
    let others = NO_COMMAND.into_iter().chain(READ).map(str::to_owned);
    let expected: BTreeSet<_> = expected.chain(others).collect();
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder())? {
        let name = entry?
            .file_name()
            .into_string()
            .ok()
            .context("a name in UTF-8")?;
        let name = name
            .strip_suffix(".json")
            .with_context(|| format!("{name} is no schema"))?;
        found.insert(name.to_owned());
    }
    ensure!(found == expected, "{found:?}, and not {expected:?}");
    Ok(())
}

/// Adds the schemas of objects in `schema`, with their places.
fn add_objects<'a>(schema: &'a Value, place: &str, objects: &mut Vec<(String, &'a Value)>) {
    if schema["properties"].is_object() {
        objects.push((place.to_owned(), schema));
    }
    for group in ["properties", "$defs"] {
        for (name, part) in schema[group].as_object().into_iter().flatten() {
            add_objects(part, &format!("{place}/{name}"), objects);
        }
    }
    if schema["items"].is_object() {
        add_objects(&schema["items"], &format!("{place}/items"), objects);
    }
}

#[test]
fn each_schema_describes_every_key_with_its_unit() -> Result<()> {
    for command in with_json(&Cli::command())
        .iter()
        .map(String::as_str)
        .chain(NO_COMMAND)
        .chain(READ)
    {
        let name = schema_of(command);
        let name = name.as_str();
        let schema = schema(name)?;
        ensure!(
            schema["$schema"] == DRAFT && schema["description"].is_string(),
            "{name}"
        );
        let is_of_command = schema["title"] == format!("rtswapctl {command} --json");
        ensure!(
            is_of_command || NO_COMMAND.contains(&name) || READ.contains(&name),
            "{name}: {}",
            schema["title"]
        );
        jsonschema::meta::validate(&schema).map_err(|fault| anyhow::anyhow!("{name}: {fault}"))?;
        let mut objects = Vec::new();
        add_objects(&schema, name, &mut objects);
        for (place, object) in objects {
            ensure!(
                object["additionalProperties"] == false,
                "{place} allows unknown keys"
            );
            let required = object["required"]
                .as_array()
                .with_context(|| place.clone())?;
            for (key, property) in object["properties"].as_object().into_iter().flatten() {
                let description = property["description"].as_str().unwrap_or_default();
                ensure!(
                    description.ends_with('.'),
                    "{place}: {key} is not described"
                );
                ensure!(
                    description.contains(unit(key)),
                    "{place}: {key} has no unit: {description}"
                );
                let is_required = required.iter().any(|name| name == key);
                ensure!(
                    is_required != OPTIONAL.contains(&key.as_str()) || READ.contains(&name),
                    "{place}: {key}"
                );
            }
            let version = &object["properties"]["version"];
            ensure!(
                version.is_null() || version["const"] == 1,
                "{place}: {version}"
            );
        }
    }
    Ok(())
}

/// The word for the unit that a key's name ends in; empty where it names none.
fn unit(key: &str) -> &'static str {
    match key.trim_end_matches("_total").rsplit('_').next() {
        Some("us") => "microseconds",
        Some("ns") => "nanoseconds",
        Some("bytes") => "bytes",
        Some("percent") => "percent",
        _ => "",
    }
}
