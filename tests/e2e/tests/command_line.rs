//! `rtswapctl` as its users type it, beside a daemon.
#![allow(missing_docs)]

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Finished, Machine, MachineOptions, Program, wait_until};

const BOUND: Duration = Duration::from_secs(30);

fn typed(machine: &Machine, arguments: &[&str]) -> Result<Program> {
    let mut command = machine.command(machine.binary("rtswapctl"));
    command.args(arguments);
    Program::start(command)
}

/// The answer to a command that ends with `code`.
fn answer(machine: &Machine, arguments: &[&str], code: i32) -> Result<Finished> {
    let finished = typed(machine, arguments)?.finish(BOUND)?;
    ensure!(
        finished.status.code() == Some(code),
        "{arguments:?} ended with {:?}: {}{}",
        finished.status,
        finished.stdout,
        finished.stderr
    );
    Ok(finished)
}

/// A task without end, started without `--`.
fn task(machine: &Machine, name: &str) -> Result<Program> {
    let dnn = machine.dnn();
    let dnn = dnn.to_str().context("a path in UTF-8")?;
    let workload = ["--memory", "20MiB", "--period", "20ms", "--json"];
    let started = [&["run", "--name", name, dnn][..], &workload].concat();
    let program = typed(machine, &started)?;
    wait_until("its first job", BOUND, || {
        let task = machine.task(name).ok().flatten().unwrap_or_default();
        task["jobs"].as_u64() >= Some(1)
    })?;
    Ok(program)
}

#[test]
fn a_task_is_looked_at_by_name_and_its_registration_ends_by_name() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let daemon = machine.daemon()?;
    let (mut a, mut b) = (task(&machine, "a")?, task(&machine, "b")?);

    let text = answer(&machine, &["status", "a"], 0)?.stdout;
    ensure!(text.starts_with("  task        a: best-effort, "), "{text}");
    ensure!(
        text.contains("\n  processes   ") && !text.contains(" b: "),
        "{text}"
    );
    let overview = answer(&machine, &["status", "--sort", "task"], 0)?.stdout;
    ensure!(overview.contains("\npinned host memory: "), "{overview}");
    let json = machine.rtswapctl(&["status", "--json", "--gpu", "0", "b"])?;
    ensure!(
        json["tasks"][0]["name"] == "b" && json["tasks"][1].is_null(),
        "{json}"
    );
    ensure!(
        json["users"][0]["backing_bytes"].as_u64() > Some(0),
        "{json}"
    );
    for (arguments, said) in [
        (&["status", "c"][..], "no task of yours is called c"),
        (&["status", "--gpu", "7"], "no GPU is 7"),
        (&["unregister", "c"], "no task of yours is called c"),
        (
            &["unregister", "a", "--gpu", "7"],
            "no task of yours is called a",
        ),
    ] {
        let refused = answer(&machine, arguments, 1)?.stderr;
        ensure!(refused.contains(said), "{refused}");
    }

    answer(&machine, &["reload"], 0)?;
    let versions = machine.rtswapctl(&["version", "--json"])?;
    ensure!(versions["rtswapd"] == versions["rtswapctl"], "{versions}");
    ensure!(
        versions["rtswapd_started_us"].as_u64() > Some(1_700_000_000_000_000),
        "{versions}"
    );

    answer(&machine, &["unregister", "a"], 0)?;
    // The process goes on, as a best-effort task of its own.
    let own = answer(&machine, &["unregister", "a"], 2)?.stderr;
    ensure!(own.contains("is a process's own and ends with it"), "{own}");
    ensure!(
        a.is_running() && b.is_running(),
        "{}{}",
        a.stderr(),
        b.stderr()
    );
    drop(daemon);
    let alone = answer(&machine, &["version"], 3)?;
    ensure!(
        alone.stdout.ends_with("rtswapd does not answer\n"),
        "{}",
        alone.stdout
    );
    Ok(())
}

#[test]
fn a_watch_goes_on_when_the_daemon_is_back() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let mut daemon = machine.daemon()?;
    let watch = typed(&machine, &["status", "-w", "--json", "-n", "100ms"])?;
    let text = typed(&machine, &["status", "-w", "-n", "100ms"])?;
    let lines = || watch.stdout().lines().count();
    wait_until("it is shown", BOUND, || lines() > 2)?;
    daemon.kill()?;
    wait_until("the restart is said", BOUND, || {
        text.stdout().contains("\nwaiting for it\n")
    })?;
    let before = lines();
    let _daemon = machine.daemon()?;
    wait_until("it is shown again", BOUND, || lines() > before + 2)?;
    for mut shown in [watch, text] {
        ensure!(shown.is_running(), "{}", shown.stderr());
        shown.kill()?;
    }
    Ok(())
}
