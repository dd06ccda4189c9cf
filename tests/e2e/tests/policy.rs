//! The administrator's policy over real processes: caps, classes, deadlines, weights and numbers of tasks.
#![allow(missing_docs)]

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Finished, Machine, MachineOptions, Program, unless_stalled, wait_until};
use serde_json::Value;

const BOUND: Duration = Duration::from_mins(1);
const MIB: u64 = 1 << 20;

/// A task on 64 MiB that keeps its deadlines beside another.
const REALTIME: [&str; 4] = [
    "--period=100ms",
    "--wcet=20ms",
    "--footprint=24MiB",
    "--swappable=16MiB",
];

/// A dnn without end unless it has so many jobs.
fn dnn(
    machine: &Machine,
    name: &str,
    options: &[&str],
    memory: &str,
    jobs: Option<u64>,
) -> Result<Program> {
    let name = format!("--name={name}");
    let options = [&[name.as_str()], options].concat();
    let mut command = machine.run(&options, machine.dnn());
    command.args(["--json", "--layers", "4", "--period", "100ms"]);
    command.args(["--memory", memory]);
    if let Some(jobs) = jobs {
        command.args(["--jobs", &jobs.to_string()]);
    }
    Program::start(command)
}

/// What `rtswapctl policy ARGUMENTS` says, which ends with `code`.
fn policy(machine: &Machine, arguments: &[&str], code: i32) -> Result<Finished> {
    let mut command = machine.command(machine.binary("rtswapctl"));
    command.arg("policy").args(arguments);
    let finished = Program::start(command)?.finish(BOUND)?;
    ensure!(
        finished.status.code() == Some(code),
        "{arguments:?} ended with {finished:?}"
    );
    Ok(finished)
}

fn set(machine: &Machine, arguments: &[&str]) -> Result<String> {
    let arguments = [&["set"], arguments].concat();
    Ok(policy(machine, &arguments, 0)?.stdout)
}

fn field(machine: &Machine, name: &str, field: &str) -> Value {
    let task = machine.task(name).ok().flatten();
    task.map_or(Value::Null, |task| task[field].clone())
}

fn count(machine: &Machine, name: &str, of: &str) -> u64 {
    field(machine, name, of).as_u64().unwrap_or(0)
}

/// Waits until `name` has run `more` jobs from now on.
fn runs(machine: &Machine, name: &str, more: u64) -> Result<()> {
    let before = count(machine, name, "jobs");
    wait_until(&format!("{name} runs"), BOUND, || {
        count(machine, name, "jobs") >= before + more
    })
}

/// It had no memory, and its standard error says that this is by the policy, and by which rule.
fn is_refused(program: Program, why: &str, rule: &str) -> Result<()> {
    let finished = program.finish(BOUND)?;
    let said = &finished.stderr;
    ensure!(finished.status.code() == Some(3), "{finished:?}");
    ensure!(said.contains("CUDA_ERROR_OUT_OF_MEMORY"), "{said}");
    let told = said.lines().find(|line| line.contains(why));
    let told = told.with_context(|| format!("{why:?} is not in {said}"))?;
    ensure!(told.ends_with(&format!("({rule})")), "{told}");
    Ok(())
}

#[test]
fn a_task_beyond_its_cap_is_out_of_memory_and_told_why() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let daemon = machine.daemon()?;
    let text = set(&machine, &["--task", "yolo", "gpu_memory=20MiB"])?;
    ensure!(text.contains("gpu_memory  20 MiB  run-time"), "{text}");
    ensure!(text.contains("is registered: the rules wait"), "{text}");
    let yolo = dnn(&machine, "yolo", &[], "40MiB", Some(3))?;
    let why = "the policy lets task yolo have 20.0 MiB of GPU memory, and this would make it ";
    is_refused(yolo, why, "gpu_memory").with_context(|| daemon.stderr())?;
    // Within it, and of another name.
    dnn(&machine, "yolo", &[], "12MiB", Some(3))?.finish_dnn(BOUND, 3)?;
    dnn(&machine, "other", &[], "40MiB", Some(3))?.finish_dnn(BOUND, 3)?;
    let text = set(&machine, &["--task", "yolo", "gpu_memory="])?;
    ensure!(text.contains("nothing is said of gpu_memory"), "{text}");
    dnn(&machine, "yolo", &[], "40MiB", Some(3))?.finish_dnn(BOUND, 3)?;

    // The same of what may be swapped out.
    set(&machine, &["--task", "yolo", "pinned_memory=20MiB"])?;
    let yolo = dnn(&machine, "yolo", &[], "40MiB", Some(3))?;
    let why = "the policy lets task yolo have 20.0 MiB that may need pinned memory";
    is_refused(yolo, why, "pinned_memory").with_context(|| daemon.stderr())
}

#[test]
fn a_user_has_a_cap_over_all_its_tasks_swapped_out_or_not() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let uid = rustix::process::getuid().as_raw();
    let file = machine.path("policy.toml");
    // More than the GPU has: one of the two is swapped out while the other runs.
    let text = format!("version = 1\n[[user]]\nuser = {uid}\ngpu_memory = \"80MiB\"\n");
    fs::write(&file, text)?;
    let daemon = machine.daemon()?;
    let first = dnn(&machine, "first", &[], "40MiB", None)?;
    runs(&machine, "first", 1)?;
    let why =
        format!("the policy lets user {uid} have 80.0 MiB of GPU memory, and this would make it ");
    let second = dnn(&machine, "second", &[], "40MiB", Some(3))?;
    is_refused(second, &why, "gpu_memory").with_context(|| daemon.stderr())?;
    dnn(&machine, "second", &[], "28MiB", Some(3))?.finish_dnn(BOUND, 3)?;
    ensure!(count(&machine, "first", "swap_out_bytes_total") > 0);
    // A larger cap takes a reload of the file.
    let text = format!("version = 1\n[[user]]\nuser = {uid}\ngpu_memory = \"100MiB\"\n");
    fs::write(&file, text)?;
    let mut reload = machine.command(machine.binary("rtswapctl"));
    reload.arg("reload");
    let reloaded = Program::start(reload)?.finish(BOUND)?;
    ensure!(reloaded.status.success(), "{reloaded:?}");
    dnn(&machine, "second", &[], "40MiB", Some(3))?.finish_dnn(BOUND, 3)?;
    runs(&machine, "first", 2)?;
    drop(first);
    Ok(())
}

#[test]
fn a_running_task_is_made_best_effort_and_realtime_again() -> Result<()> {
    unless_stalled("a task changes its class", change_class)
}

fn change_class() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let daemon = machine.daemon()?;
    let camera = dnn(&machine, "camera", &REALTIME, "16MiB", Some(90))?;
    let lanes = dnn(&machine, "lanes", &REALTIME, "16MiB", Some(110))?;
    runs(&machine, "camera", 3)?;
    runs(&machine, "lanes", 3)?;
    ensure!(field(&machine, "camera", "class") == "realtime");
    let missed = |name| count(&machine, name, "deadline_misses");
    set(&machine, &["--task", "camera", "class=best-effort"])?;
    ensure!(field(&machine, "camera", "class") == "best-effort");
    ensure!(
        policy(&machine, &["get", "--task", "camera"], 0)?
            .stdout
            .contains("best-effort  run-time"),
    );
    runs(&machine, "camera", 5)?;
    runs(&machine, "lanes", 5)?;

    set(&machine, &["--task", "camera", "class=declared"])?;
    runs(&machine, "camera", 3)?;
    ensure!(field(&machine, "camera", "class") == "realtime");
    let before = missed("camera");
    runs(&machine, "camera", 20)?;
    ensure!(missed("camera") == before, "{}", daemon.stderr());
    ensure!(missed("lanes") == 0, "{}", daemon.stderr());
    camera.finish_dnn(BOUND, 90)?;
    lanes.finish_dnn(BOUND, 110)?;

    // For everybody: those that declare a deadline are refused.
    set(&machine, &["class=best-effort"])?;
    let refused = dnn(&machine, "camera2", &REALTIME, "16MiB", Some(3))?.finish(BOUND)?;
    ensure!(refused.status.code() == Some(4), "{refused:?}");
    ensure!(
        refused
            .stderr
            .contains("the policy makes camera2 best-effort"),
        "{refused:?}"
    );
    Ok(())
}

#[test]
fn a_deadline_and_a_weight_change_under_running_tasks() -> Result<()> {
    unless_stalled("a task changes its deadline", change_deadline)
}

fn change_deadline() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let daemon = machine.daemon()?;
    let camera = dnn(&machine, "camera", &REALTIME, "16MiB", Some(60))?;
    let train = dnn(&machine, "train", &[], "8MiB", Some(60))?;
    runs(&machine, "camera", 3)?;
    runs(&machine, "train", 3)?;
    let deadline = || field(&machine, "camera", "deadline_us");
    ensure!(deadline() == 100_000);
    let text = set(&machine, &["--task", "camera", "deadline=80ms"])?;
    ensure!(text.contains("deadline  80 ms  run-time"), "{text}");
    ensure!(deadline() == 80_000, "{}", deadline());
    runs(&machine, "camera", 3)?;
    let before = count(&machine, "camera", "deadline_misses");
    runs(&machine, "camera", 10)?;
    ensure!(
        count(&machine, "camera", "deadline_misses") == before,
        "{}",
        daemon.stderr()
    );
    ensure!(field(&machine, "camera", "class") == "realtime");
    // One that no analysis accepts changes nothing.
    let refused = policy(&machine, &["set", "--task=camera", "deadline=20ms"], 1)?;
    ensure!(
        refused.stderr.contains("nothing has changed"),
        "{refused:?}"
    );
    ensure!(deadline() == 80_000, "{}", deadline());
    ensure!(
        policy(&machine, &["get", "--task=camera"], 0)?
            .stdout
            .contains("80 ms")
    );

    let weight = || field(&machine, "train", "weight");
    ensure!(weight() == 100);
    set(&machine, &["--task", "train", "weight=300"])?;
    ensure!(weight() == 300, "{}", weight());
    let task = machine.rtswapctl(&["status", "--json", "train"])?;
    ensure!(task["tasks"][0]["weight"] == 300, "{task}");
    set(&machine, &["--task", "train", "weight="])?;
    ensure!(weight() == 100, "{}", weight());
    camera.finish_dnn(BOUND, 60)?;
    train.finish_dnn(BOUND, 60)
}

#[test]
fn a_user_has_so_many_tasks_and_no_more() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let _daemon = machine.daemon()?;
    set(&machine, &["max_tasks=1"])?;
    let first = dnn(&machine, "first", &[], "4MiB", None)?;
    runs(&machine, "first", 1)?;
    let second = dnn(&machine, "second", &[], "4MiB", Some(3))?.finish(BOUND)?;
    ensure!(second.status.code() == Some(1), "{second:?}");
    ensure!(second.stderr.contains("and may have 1"), "{second:?}");
    let uid = rustix::process::getuid().to_string();
    set(&machine, &["--user", &uid, "max_tasks=2"])?;
    dnn(&machine, "second", &[], "4MiB", Some(3))?.finish_dnn(BOUND, 3)?;
    drop(first);
    Ok(())
}

/// What is set is shown, in the place of what the file says, until the next reload.
#[test]
fn get_shows_which_rule_holds() -> Result<()> {
    let machine = Machine::new(MachineOptions {
        daemon_toml: "[daemon]\nmax_tasks_per_user = 77\n".into(),
        ..MachineOptions::default()
    })?;
    fs::write(
        machine.path("policy.toml"),
        "version = 1\n[everybody]\nmax_tasks = 9\n[[user]]\nuser = \"root\"\ngpu_memory = \"8GiB\"\n",
    )?;
    let _daemon = machine.daemon()?;
    set(
        &machine,
        &["--user", "root", "gpu_memory=6GiB", "pinned_memory=100M"],
    )?;
    let text = policy(&machine, &["get"], 0)?.stdout;
    for line in [
        "everybody  max_tasks      9        policy.toml",
        "everybody  max_tasks      77       rtswapd.toml (policy.toml holds)",
        "everybody  on_violation   warn     built-in",
        "user root  gpu_memory     6.0 GiB  run-time",
        "user root  gpu_memory     8.0 GiB  policy.toml (run-time holds)",
        "user root  pinned_memory  100 MiB  run-time",
    ] {
        ensure!(text.lines().any(|shown| shown == line), "{line}: {text}");
    }
    ensure!(text.lines().all(|line| line.chars().count() <= 80));
    let json = machine.rtswapctl(&["policy", "get", "--json", "--user", "root"])?;
    let rules = json["rules"].as_array().context("a list")?;
    let holding = rules
        .iter()
        .find(|rule| rule["key"] == "gpu_memory" && rule["holds"] == true);
    ensure!(
        holding.is_some_and(|rule| rule["value"] == 6144 * MIB),
        "{json}"
    );
    Ok(())
}
