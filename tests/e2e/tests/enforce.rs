//! Enforcement: who says less than it holds, holds more than it may, or does not swap when asked to.
#![allow(missing_docs)]

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{
    Daemon, Machine, MachineOptions, Program, Verdict, probe, until_judged, wait_until,
};
use rustix::process::Signal;
use serde_json::Value;

const BOUND: Duration = Duration::from_secs(30);

/// Within this a lie is to be seen. A second is what it takes by a clock that no host delays, as the
/// ledger's own tests show.
const SEEN: Duration = Duration::from_secs(5);

const MIB: u64 = 1 << 20;

/// mᴰ of a machine's GPU while nobody else holds anything: 64 MiB less a reserve of 8.
const CAPACITY: u64 = 56 * MIB;

fn machine(daemon_toml: &str) -> Result<Machine> {
    Machine::new(MachineOptions {
        daemon_toml: format!("[daemon]\n{daemon_toml}"),
        ..MachineOptions::default()
    })
}

/// Where a swap takes so long that only who is stopped is overdue, not who waits for a processor.
fn slow(daemon_toml: &str) -> Result<Machine> {
    Machine::new(MachineOptions {
        link_gib_per_s: 0.25,
        daemon_toml: format!("[daemon]\n{daemon_toml}"),
        ..MachineOptions::default()
    })
}

/// The agent that lies, and how often it was told what to do.
struct Liar {
    program: Program,
    told: u32,
}

impl Liar {
    fn start(machine: &Machine, task: Option<&str>) -> Result<Self> {
        let mut command = machine.command(Path::new(env!("CARGO_BIN_EXE_liar")));
        if let Some(task) = task {
            command.env("RTSWAP_TASK", task);
        }
        let mut program = Program::start(command)?;
        program.wait_for_line("0 ready", BOUND)?;
        Ok(Self { program, told: 0 })
    }

    fn tell(&mut self, command: &str, expected: &str) -> Result<()> {
        self.program.say(&format!("{command}\n"))?;
        self.told += 1;
        let number = format!("{} ", self.told);
        self.program.wait_for_line(&number, BOUND)?;
        let answer = format!("{number}{expected}");
        let stdout = self.program.stdout();
        ensure!(stdout.lines().any(|line| line == answer), "{stdout}");
        Ok(())
    }

    fn pid(&self) -> u32 {
        self.program.pid()
    }
}

/// Waits for a program's end by SIGKILL, which the daemon has announced.
fn dies_as_announced(program: Program, daemon: &Daemon) -> Result<()> {
    let said = format!("process {} is killed", program.pid());
    let finished = program.finish(BOUND)?;
    let signal = std::os::unix::process::ExitStatusExt::signal(&finished.status);
    ensure!(signal == Some(9), "{finished:?}");
    says(daemon, &said)
}

/// Waits until the log has that text.
fn says(daemon: &Daemon, text: &str) -> Result<()> {
    daemon.wait_for_complaint(text, BOUND)
}

/// Waits until the log says so, at most [`SEEN`] after `since`.
fn said_soon(daemon: &Daemon, text: &str, since: Instant) -> Result<()> {
    says(daemon, text)?;
    let took = since.elapsed();
    eprintln!("{text:?} after {took:?}");
    ensure!(took < SEEN, "{text:?} after {took:?}");
    Ok(())
}

fn row(status: &Value, pid: u32) -> Option<Value> {
    let processes = status["processes"].as_array()?;
    processes.iter().find(|it| it["pid"] == pid).cloned()
}

fn see(machine: &Machine, what: &str, mut seen: impl FnMut(&Value) -> bool) -> Result<()> {
    let mut last = Value::Null;
    wait_until(what, BOUND, || {
        last = machine.status().unwrap_or_default();
        seen(&last)
    })
    .with_context(|| last.to_string())
}

/// A realtime task of which only the registration runs: it holds the lease.
fn registered(machine: &Machine) -> Result<Program> {
    let mut holder = machine.run(
        &[
            "--name",
            "liar",
            "--period",
            "100ms",
            "--wcet",
            "5ms",
            "--footprint",
            "40MiB",
            "--swappable",
            "0",
        ],
        "sleep",
    );
    holder.arg("600");
    let holder = Program::start(holder)?;
    see(machine, "the task is registered", |status| {
        status["tasks"][0]["class"] == "realtime"
    })?;
    Ok(holder)
}

/// An honest task: it gets what it needs, and computes what is right.
fn honest_task_runs(machine: &Machine, memory: &str) -> Result<()> {
    let mut command = machine.run(&["--name", "honest"], machine.dnn());
    command.args(["--json", "--memory", memory, "--layers", "4"]);
    command.args(["--jobs", "5", "--period", "100ms"]);
    Program::start(command)?.finish_dnn(BOUND, 5)
}

#[test]
fn who_says_half_is_named_soon_and_gains_nothing() -> Result<()> {
    let machine = machine("")?;
    let daemon = machine.daemon()?;
    let mut liar = Liar::start(&machine, None)?;
    liar.tell("take 38", "granted")?;
    let pid = liar.pid();
    see(&machine, "both witnesses tell", |status| {
        row(status, pid)
            .is_some_and(|row| row["nvml_bytes"] == 40 * MIB && row["agent_bytes"] == 40 * MIB)
    })?;
    let since = Instant::now();
    liar.tell("half", "lying")?;
    said_soon(&daemon, "underreport: the witnesses differ", since)?;
    see(&machine, "what it hides is counted", |status| {
        let row = row(status, pid).unwrap_or_default();
        let gpu = &status["gpus"][0];
        row["disagreement"] == "underreport"
            && row["agent_bytes"] == 20 * MIB
            && gpu["unmanaged_bytes"] == 20 * MIB
            && gpu["capacity_bytes"] == CAPACITY - 20 * MIB
    })?;
    let status = machine.status()?;
    ensure!(status["tasks"][0]["violations"] == 1, "{status}");
    // An honest program that holds 40 of 56 MiB could have 16 more, and no more.
    liar.tell("take 18", "refused")?;
    // Others get what it does not use as before.
    honest_task_runs(&machine, "8MiB")?;
    ensure!(liar.program.is_running(), "it was only warned of");
    ensure!(machine.process_bytes(pid, 0) == Some(40 * MIB), "it gained");
    let violation = format!("process {pid} holds 40.0 MiB by NVML, and its agent says 20.0 MiB");
    says(&daemon, &violation)?;
    liar.tell("honest", "honest")?;
    see(&machine, "it is believed again", |status| {
        let row = row(status, pid).unwrap_or_default();
        row["disagreement"].is_null() && status["gpus"][0]["capacity_bytes"] == CAPACITY
    })
}

#[test]
fn who_lies_from_the_start_is_named_soon() -> Result<()> {
    let machine = machine("")?;
    let daemon = machine.daemon()?;
    let mut liar = Liar::start(&machine, None)?;
    liar.tell("half", "lying")?;
    let since = Instant::now();
    liar.tell("take 38", "granted")?;
    said_soon(&daemon, "underreport: the witnesses differ", since)?;
    // The first look at it may have come while it took its memory.
    see(&machine, "all that it hides is counted", |status| {
        status["gpus"][0]["capacity_bytes"] == CAPACITY - 20 * MIB
    })?;
    liar.tell("take 18", "refused")
}

/// Whether the daemon's probes are on; where they cannot be, that is said aloud.
fn has_probes(machine: &Machine) -> Result<bool> {
    let state = machine.probes_state(BOUND)?;
    let missing = state.starts_with("missing");
    if missing {
        // Past the harness, which hides what passes.
        let _ = writeln!(std::io::stderr(), "SKIPPED: probes {state}");
        ensure!(
            !rustix::process::geteuid().is_root(),
            "root has probes: {state}"
        );
    }
    Ok(!missing)
}

#[test]
fn large_modules_are_no_lie_to_the_probes() -> Result<()> {
    let machine = Machine::new(MachineOptions {
        memory_mib: 512,
        probes: true,
        daemon_toml: "[daemon]\non_violation = \"kill\"\n".into(),
        ..MachineOptions::default()
    })?;
    let daemon = machine.daemon()?;
    if !has_probes(&machine)? {
        return Ok(());
    }
    let program = probe("modules", &machine.path(""), &machine.driver_dir())?;
    let mut program = Program::start(machine.preloaded(program))?;
    program.wait_for_line("loaded", BOUND)?;
    let pid = program.pid();
    see(
        &machine,
        "what it loaded takes from the capacity",
        |status| {
            let shown = row(status, pid).unwrap_or_default();
            let others = status["gpus"][0]["unmanaged_bytes"].as_u64();
            shown["nvml_bytes"].as_u64() >= Some(200 * MIB) && others >= Some(190 * MIB)
        },
    )?;
    // Several times as long as a lie has to last.
    std::thread::sleep(Duration::from_secs(2));
    ensure!(program.is_running(), "{}", daemon.stderr());
    let status = machine.status()?;
    let shown = row(&status, pid).unwrap_or_default();
    ensure!(shown["disagreement"] == "unaccounted", "{shown}");
    ensure!(status["tasks"][0]["violations"] == 0, "{status}");
    program.say("\n")?;
    let finished = program.finish(BOUND)?;
    ensure!(finished.status.success(), "{finished:?}");
    Ok(())
}

#[test]
fn the_probes_name_a_liar_where_there_is_no_nvml() -> Result<()> {
    let machine = Machine::new(MachineOptions {
        probes: true,
        ..MachineOptions::default()
    })?;
    std::fs::remove_file(machine.driver_dir().join("libnvidia-ml.so.1"))?;
    let daemon = machine.daemon()?;
    if !has_probes(&machine)? {
        return Ok(());
    }
    let mut liar = Liar::start(&machine, None)?;
    liar.tell("take 38", "granted")
        .with_context(|| daemon.stderr())?;
    let pid = liar.pid();
    see(&machine, "the probes tell", |status| {
        row(status, pid).is_some_and(|row| row["probed"]["bytes"] == 38 * MIB)
    })?;
    let since = Instant::now();
    liar.tell("half", "lying")?;
    said_soon(&daemon, "violation: process", since)?;
    says(&daemon, "by the probes, and its agent says 20.0 MiB")
}

#[test]
fn a_realtime_task_that_lies_is_demoted_where_that_is_configured() -> Result<()> {
    let machine = machine("on_violation = \"demote\"\n")?;
    let daemon = machine.daemon()?;
    let _holder = registered(&machine)?;
    let mut liar = Liar::start(&machine, Some("liar"))?;
    liar.tell("take 30", "granted")?;
    ensure!(machine.status()?["tasks"][0]["class"] == "realtime");
    let since = Instant::now();
    liar.tell("half", "lying")?;
    said_soon(&daemon, "its task is best-effort from now on", since)?;
    see(&machine, "it is best-effort", |status| {
        status["tasks"][0]["class"] == "best-effort"
    })?;
    ensure!(liar.program.is_running());
    // Its place in the plan is free.
    let mut other = machine.run(
        &[
            "--name",
            "other",
            "--period",
            "200ms",
            "--wcet",
            "20ms",
            "--footprint",
            "30MiB",
            "--swappable",
            "0",
        ],
        machine.dnn(),
    );
    other.args(["--json", "--memory", "8MiB", "--jobs", "2"]);
    let report = Program::start(other)?.finish(BOUND)?.json()?;
    ensure!(report["checksum_errors"] == 0, "{report}");
    // Nor does a new daemon forget it.
    daemon.signal(Signal::KILL)?;
    drop(daemon);
    let _daemon = machine.daemon()?;
    see(&machine, "it is best-effort still", |status| {
        let task = &status["tasks"][0];
        task["name"] == "liar" && task["class"] == "best-effort"
    })
}

#[test]
fn who_lies_is_killed_where_that_is_configured() -> Result<()> {
    let machine = machine("on_violation = \"kill\"\n")?;
    let daemon = machine.daemon()?;
    let mut liar = Liar::start(&machine, None)?;
    liar.tell("take 38", "granted")?;
    liar.tell("half", "lying")?;
    dies_as_announced(liar.program, &daemon)?;
    see(&machine, "its memory returns", |status| {
        status["gpus"][0]["capacity_bytes"] == CAPACITY && status["gpus"][0]["used_bytes"] == 0
    })?;
    honest_task_runs(&machine, "40MiB")
}

#[test]
fn who_takes_more_than_it_may_is_killed_where_that_is_configured() -> Result<()> {
    let machine = machine("on_violation = \"kill\"\n")?;
    let daemon = machine.daemon()?;
    let mut liar = Liar::start(&machine, None)?;
    liar.tell("take 20", "granted")?;
    liar.tell("steal 20", "stolen")?;
    dies_as_announced(liar.program, &daemon)?;
    says(&daemon, "over-budget")
}

/// What makes `memory` of a task realtime, once in 2 s or less.
const REALTIME: [&str; 8] = [
    "--period",
    "2s",
    "--wcet",
    "200ms",
    "--footprint",
    "44MiB",
    "--swappable",
    "36MiB",
];

fn task(machine: &Machine, name: &str, realtime: bool, period: &str) -> Result<Program> {
    let mut options = vec!["--name", name];
    if realtime {
        options.extend(REALTIME);
    }
    let mut command = machine.run(&options, machine.dnn());
    command.args(["--memory", "36MiB", "--layers", "4", "--progress"]);
    command.args(["--period", period]);
    Program::start(command)
}

/// A task that has run and is idle, stopped: it cannot swap when asked to. Another one asks.
fn two_of_which_one_is_stopped(
    machine: &Machine,
    daemon: &Daemon,
    realtime: bool,
) -> Result<[Program; 2]> {
    let mut stopped = task(machine, "stopped", realtime, "3s")?;
    let mut other = task(machine, "other", realtime, "2s")?;
    for task in [&mut stopped, &mut other] {
        // A host may make it late before it is stopped: then it pays for that.
        wait_until("its first job", BOUND, || {
            task.stderr().contains("job 1") || !task.is_running()
        })
        .with_context(|| daemon.stderr())?;
    }
    // It has to be stopped while it is in and its job is over: then the other one asks for its memory.
    let mut is_so = false;
    wait_until("it is stopped in time", BOUND, || {
        let phase = |machine: &Machine| {
            let task = machine.task("stopped").ok().flatten().unwrap_or_default();
            (task["phase"] == "idle", task["swapped_bytes"] == 0)
        };
        if !stopped.is_running() || !other.is_running() {
            is_so = true;
        } else if phase(machine) == (true, true) && stopped.signal(Signal::STOP).is_ok() {
            is_so = phase(machine) == (true, true);
            if !is_so {
                // Its end tells if that fails.
                let _ = stopped.signal(Signal::CONT);
            }
        }
        is_so
    })?;
    Ok([stopped, other])
}

#[test]
fn who_does_not_swap_in_time_is_killed_where_that_is_configured() -> Result<()> {
    until_judged("a stopped task is killed", || {
        let machine = slow("on_violation = \"kill\"\n")?;
        let daemon = machine.daemon()?;
        let [mut stopped, mut other] = two_of_which_one_is_stopped(&machine, &daemon, false)?;
        wait_until("one is killed", BOUND, || {
            !stopped.is_running() || !other.is_running()
        })
        .with_context(|| daemon.stderr())?;
        if !other.is_running() {
            // Of a host that delays it the daemon knows nothing: it is killed rightly.
            says(&daemon, &format!("process {} is killed", other.pid()))?;
            let reason = "the task that was not stopped was killed as overdue first";
            return Ok(Verdict::Unjudged(reason.into()));
        }
        says(&daemon, "swap-overdue")?;
        dies_as_announced(stopped, &daemon)?;
        Ok(Verdict::Judged)
    })
}

#[test]
fn who_does_not_swap_in_time_is_demoted_where_that_is_configured() -> Result<()> {
    let machine = slow("on_violation = \"demote\"\n")?;
    let daemon = machine.daemon()?;
    let [mut stopped, _other] = two_of_which_one_is_stopped(&machine, &daemon, true)?;
    see(&machine, "it is best-effort", |status| {
        let tasks = status["tasks"].as_array().cloned().unwrap_or_default();
        let task = tasks.iter().find(|task| task["name"] == "stopped");
        task.is_some_and(|task| task["class"] == "best-effort")
    })
    .with_context(|| daemon.stderr())?;
    says(&daemon, "kind=\"swap-overdue\"")?;
    ensure!(stopped.is_running());
    Ok(())
}
