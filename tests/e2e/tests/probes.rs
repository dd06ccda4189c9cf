//! The third witness: what eBPF probes count of programs without an agent is what the simulated GPU itself
//! counted, to the byte, wherever their driver lies. Needs root and a kernel that takes the probes.
#![allow(missing_docs)]

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{
    Daemon, Machine, MachineOptions, Program, is_initial_pid_namespace, probe, wait_until,
};
use rustix::process::Signal;
use serde_json::Value;

const BOUND: Duration = Duration::from_secs(30);

const GRANULE: u64 = 2 << 20;

fn machine() -> Result<Machine> {
    Machine::new(MachineOptions {
        probes: true,
        memory_mib: 128,
        daemon_toml: "[daemon]\nnvml_period_ms = 100\n".into(),
        ..MachineOptions::default()
    })
}

/// Whether the daemon's probes work; says aloud that a test checks nothing where they do not.
fn has_probes(machine: &Machine) -> Result<bool> {
    let state = machine.probes_state(BOUND)?;
    if state.starts_with("missing") {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test");
        // Past the harness, which hides what passes.
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: probes {state}");
        ensure!(!is_root(), "root has probes here: {state}");
        return Ok(false);
    }
    Ok(true)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A program that holds what it is told to.
struct Holder {
    program: Program,
    /// As it numbers itself.
    own_pid: u32,
    answers: usize,
}

impl Holder {
    fn start(command: Command) -> Result<Self> {
        let mut program = Program::start(command)?;
        program.wait_for_line("pid ", BOUND)?;
        let stdout = program.stdout();
        let own_pid = stdout.lines().find_map(|line| line.strip_prefix("pid "));
        let own_pid = own_pid.context("it says its number")?.parse()?;
        Ok(Self {
            program,
            own_pid,
            answers: 0,
        })
    }

    fn does(&mut self, line: &str) -> Result<()> {
        self.program.say(&format!("{line}\n"))?;
        self.answers += 1;
        wait_until(line, BOUND, || {
            let done = self.program.stdout().matches("done").count() >= self.answers;
            done || !self.program.is_running()
        })?;
        ensure!(self.program.is_running(), "{}", self.program.stderr());
        Ok(())
    }
}

/// What `status` says that the probes count for a process.
fn probed(status: &Value, pid: u32) -> Option<Value> {
    let processes = status["processes"].as_array()?;
    let row = processes.iter().find(|row| row["pid"] == pid)?;
    Some(row["probed"].clone()).filter(|probed| !probed.is_null())
}

/// Waits until the probes count for `pid` what the GPU counted for `own_pid`, which is `granules`.
fn counts(machine: &Machine, pid: u32, own_pid: u32, granules: u64) -> Result<Value> {
    let bytes = machine.allocated_bytes(own_pid, 0).context("no GPU")?;
    ensure!(bytes == granules * GRANULE, "the GPU itself has {bytes}");
    let mut last = Value::Null;
    wait_until("the probes count the same", BOUND, || {
        last = machine.status().unwrap_or_default();
        probed(&last, pid).is_some_and(|probed| probed["bytes"] == bytes)
    })
    .with_context(|| last.to_string())?;
    probed(&last, pid).context("it was there")
}

/// A few calls of each kind, each counted.
fn exercise(machine: &Machine, holder: &mut Holder, pid: u32, before: u64) -> Result<()> {
    let own = holder.own_pid;
    holder.does("alloc 3")?;
    counts(machine, pid, own, before + 3)?;
    holder.does("create 4")?;
    counts(machine, pid, own, before + 7)?;
    holder.does("free")?;
    counts(machine, pid, own, before + 3)?;
    holder.does("free")?;
    holder.does("alloc 5")?;
    counts(machine, pid, own, before + 5)?;
    Ok(())
}

fn holder(machine: &Machine) -> Result<std::path::PathBuf> {
    probe("holder", &machine.path(""), &machine.driver_dir())
}

/// A copy of the machine's driver in a folder of its own.
fn copy(machine: &Machine, name: &str) -> Result<std::path::PathBuf> {
    let folder = machine.path(name);
    fs::create_dir_all(&folder)?;
    let library = machine.driver_dir().join("libcuda.so.1");
    fs::copy(library, folder.join("libcuda.so.1"))?;
    Ok(folder)
}

#[test]
fn programs_without_an_agent_are_counted_to_the_byte() -> Result<()> {
    let machine = machine()?;
    let _daemon = machine.daemon()?;
    if !has_probes(&machine)? {
        return Ok(());
    }
    let program = holder(&machine)?;
    let mut holder = Holder::start(machine.command(&program))?;
    let pid = holder.program.pid();
    exercise(&machine, &mut holder, pid, 0)?;
    let seen = counts(&machine, pid, pid, 5)?;
    ensure!(
        seen["baseline"] == "start" && seen["confidence"] == "exact",
        "{seen}"
    );
    ensure!(seen["first_seen_us"].as_u64() > Some(0), "{seen}");
    // Whoever has gone holds nothing.
    holder.program.kill()?;
    wait_until("it is gone", BOUND, || {
        machine
            .status()
            .is_ok_and(|status| probed(&status, pid).is_none())
    })
}

#[test]
fn a_program_from_before_the_daemon_is_counted_from_then_on() -> Result<()> {
    let machine = machine()?;
    let program = holder(&machine)?;
    let mut holder = Holder::start(machine.command(&program))?;
    holder.does("alloc 6")?;
    let _daemon = machine.daemon()?;
    if !has_probes(&machine)? {
        return Ok(());
    }
    let pid = holder.program.pid();
    holder.does("alloc 2")?;
    let mut last = Value::Null;
    wait_until("what it did since is counted", BOUND, || {
        last = machine.status().unwrap_or_default();
        let row = probed(&last, pid).unwrap_or_default();
        row["bytes"] == 2 * GRANULE && row["baseline"] == "nvml"
    })
    .with_context(|| last.to_string())?;
    let row = probed(&last, pid).context("it is there")?;
    ensure!(row["confidence"] == "estimated", "{row}");
    // What was there before it is freed unseen, and takes nothing from what is counted.
    holder.does("free")?;
    holder.does("free")?;
    wait_until("nothing is left", BOUND, || {
        let status = machine.status().unwrap_or_default();
        probed(&status, pid).is_none_or(|row| row["bytes"] == 0)
    })
}

#[test]
fn a_copied_driver_is_found() -> Result<()> {
    let machine = machine()?;
    let daemon = machine.daemon()?;
    if !has_probes(&machine)? {
        return Ok(());
    }
    let program = holder(&machine)?;
    let mut command = machine.command(&program);
    let copy = copy(&machine, "copy")?;
    command.env("LD_LIBRARY_PATH", &copy);
    let mut holder = Holder::start(command)?;
    says(&daemon, ATTACHED, &copy.join("libcuda.so.1"))?;
    let pid = holder.program.pid();
    exercise(&machine, &mut holder, pid, 0)?;
    holder.program.kill()?;
    // The copy is let go of with its last user; the machine's own driver is not.
    says(&daemon, DETACHED, &copy.join("libcuda.so.1"))?;
    let own = machine.driver_dir().join("libcuda.so.1");
    let log = daemon.stderr();
    ensure!(
        !log.lines().any(|line| is_about(line, DETACHED, &own)),
        "{log}"
    );
    Ok(())
}

/// What may be handed out of the machine's memory.
const ALL: u64 = 120 << 20;

/// Bytes of all processes, those of other tests too, that root's drivers counted.
fn counted_by_root(status: &Value) -> u64 {
    let rows = status["processes"].as_array().into_iter().flatten();
    let counted = rows.filter(|row| row["probed"]["confidence"] != "claimed");
    counted
        .filter_map(|row| row["probed"]["bytes"].as_u64())
        .sum()
}

#[test]
fn what_a_strangers_driver_counts_is_shown_and_lowers_no_capacity() -> Result<()> {
    let machine = machine()?;
    // NVML would show what of it is true.
    fs::remove_file(machine.driver_dir().join("libnvidia-ml.so.1"))?;
    let daemon = machine.daemon()?;
    if !has_probes(&machine)? || !is_root() {
        return Ok(());
    }
    let program = holder(&machine)?;
    let mut command = machine.command(&program);
    let strange = copy(&machine, "strange")?;
    std::os::unix::fs::chown(strange.join("libcuda.so.1"), Some(4711), None)?;
    command.env("LD_LIBRARY_PATH", &strange);
    let mut stranger = Holder::start(command)?;
    says(&daemon, ATTACHED, &strange.join("libcuda.so.1"))?;
    stranger.does("alloc 6")?;
    let pid = stranger.program.pid();
    let row = counts(&machine, pid, pid, 6)?;
    ensure!(row["confidence"] == "claimed", "{row}");
    // Root's own driver counts as ever.
    let mut known = Holder::start(machine.command(&program))?;
    known.does("alloc 4")?;
    let own = known.program.pid();
    counts(&machine, own, own, 4)?;
    let mut last = Value::Null;
    wait_until(
        "the capacity falls by what root's driver counts",
        BOUND,
        || {
            last = machine.status().unwrap_or_default();
            let gpu = &last["gpus"][0];
            let counted = counted_by_root(&last);
            // Programs of other tests may hold more than there is here.
            let left = ALL.saturating_sub(counted.next_multiple_of(GRANULE));
            counted >= 4 * GRANULE
                && gpu["unmanaged_bytes"] == counted
                && gpu["capacity_bytes"] == left
        },
    )
    .with_context(|| last.to_string())?;
    let row = probed(&last, pid).context("it is there")?;
    ensure!(row["bytes"] == 6 * GRANULE, "shown as before: {row}");
    Ok(())
}

/// Waits until the daemon has said that the probes are on a file, or off it again. How many there are is
/// nobody's: the machine may have other drivers in use.
fn says(daemon: &Daemon, what: &str, path: &Path) -> Result<()> {
    wait_until(&format!("{what} {}", path.display()), BOUND, || {
        let log = daemon.stderr();
        log.lines().any(|line| is_about(line, what, path))
    })
    .with_context(|| daemon.stderr())
}

fn is_about(line: &str, what: &str, path: &Path) -> bool {
    line.contains(what) && line.ends_with(&format!("path={}", path.display()))
}

const ATTACHED: &str = "probes attached";
const DETACHED: &str = "probes detached";

#[test]
fn a_driver_that_is_replaced_while_in_use_is_counted_on_both_sides() -> Result<()> {
    let machine = machine()?;
    let daemon = machine.daemon()?;
    if !has_probes(&machine)? {
        return Ok(());
    }
    let program = holder(&machine)?;
    let mut old = Holder::start(machine.command(&program))?;
    let old_pid = old.program.pid();
    old.does("alloc 1")?;
    counts(&machine, old_pid, old_pid, 1)?;
    let path = machine.driver_dir().join("libcuda.so.1");
    fs::rename(copy(&machine, "fresh")?.join("libcuda.so.1"), &path)?;
    let twice = || {
        daemon
            .stderr()
            .lines()
            .filter(|line| is_about(line, ATTACHED, &path))
            .count()
            == 2
    };
    wait_until("the new file is probed", BOUND, twice)?;
    let mut new = Holder::start(machine.command(&program))?;
    let new_pid = new.program.pid();
    exercise(&machine, &mut new, new_pid, 0)?;
    exercise(&machine, &mut old, old_pid, 1)?;
    old.program.kill()?;
    says(&daemon, DETACHED, &path)
}

#[test]
fn another_pid_and_mount_namespace_hides_nothing() -> Result<()> {
    // bpf_get_ns_current_pid_tgid tells the pid in one namespace and not in those below it.
    if !is_initial_pid_namespace() {
        let test = "another_pid_and_mount_namespace_hides_nothing";
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED {test}: this machine is itself in a PID namespace, and programs in others below it are not counted"
        );
        return Ok(());
    }
    let machine = machine()?;
    let daemon = machine.daemon()?;
    if !has_probes(&machine)? {
        return Ok(());
    }
    let program = holder(&machine)?;
    // Of this file only the namespace's own path is known inside: bound over an empty one.
    let outside = copy(&machine, "outside")?;
    let inside = machine.path("inside");
    fs::create_dir(&inside)?;
    fs::write(inside.join("libcuda.so.1"), "")?;
    let script = "mount --bind \"$1/libcuda.so.1\" \"$2/libcuda.so.1\" && \
                  LD_LIBRARY_PATH=\"$2\" exec \"$3\"";
    let mut command = machine.command("unshare");
    command.args(["--mount", "--pid", "--fork", "sh", "-c", script, "sh"]);
    command.args([outside.as_path(), &inside, &program]);
    let mut holder = Holder::start(command)?;
    ensure!(holder.own_pid == 1, "first of its namespace");
    says(&daemon, ATTACHED, &inside.join("libcuda.so.1"))?;
    let pid = child_of(holder.program.pid())?;
    exercise(&machine, &mut holder, pid, 0)
}

/// The only child of a process.
fn child_of(pid: u32) -> Result<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    Ok(children.trim().parse()?)
}

#[test]
fn a_file_that_is_hard_linked_or_bound_is_the_same_file() -> Result<()> {
    let machine = machine()?;
    let daemon = machine.daemon()?;
    if !has_probes(&machine)? {
        return Ok(());
    }
    let program = holder(&machine)?;
    let linked = machine.path("linked");
    fs::create_dir(&linked)?;
    fs::hard_link(
        machine.driver_dir().join("libcuda.so.1"),
        linked.join("libcuda.so.1"),
    )?;
    let mut command = machine.command(&program);
    command.env("LD_LIBRARY_PATH", &linked);
    let mut holder = Holder::start(command)?;
    let pid = holder.program.pid();
    holder.does("alloc 1")?;
    let row = counts(&machine, pid, pid, 1)?;
    ensure!(row["confidence"] == "exact", "from its first byte: {row}");
    exercise(&machine, &mut holder, pid, 1)?;
    let row = counts(&machine, pid, pid, 6)?;
    ensure!(row["confidence"] == "exact", "{row}");
    let log = daemon.stderr();
    ensure!(
        !log.lines()
            .any(|line| is_about(line, ATTACHED, &linked.join("libcuda.so.1"))),
        "{log}"
    );
    Ok(())
}

#[test]
fn a_full_ring_loses_no_byte() -> Result<()> {
    let machine = machine()?;
    let daemon = machine.daemon()?;
    if !has_probes(&machine)? {
        return Ok(());
    }
    let program = holder(&machine)?;
    let mut holder = Holder::start(machine.command(&program))?;
    let pid = holder.program.pid();
    holder.does("alloc 2")?;
    counts(&machine, pid, pid, 2)?;
    // 16 threads, 2 × 5,000 records each: more than the ring has room for.
    daemon.signal(Signal::STOP)?;
    holder.does("churn 5000")?;
    holder.does("alloc 3")?;
    holder.does("create 1")?;
    daemon.signal(Signal::CONT)?;
    let seen = counts(&machine, pid, pid, 6)?;
    ensure!(seen["confidence"] == "exact", "{seen}");
    let status = machine.status()?;
    ensure!(
        status["probes"]["lost_records"].as_u64() > Some(0),
        "{status}"
    );
    daemon.wait_for_complaint("records of the probes found no room", BOUND)?;
    exercise(&machine, &mut holder, pid, 6)
}

/// A daemon without what the probes need.
fn bare(machine: &Machine, arguments: &[&str]) -> Result<(Daemon, Value)> {
    let config = machine.path("rtswapd.toml");
    fs::write(&config, "version = 1\n[daemon]\nprobes = true\n")?;
    let mut command = machine.command(arguments[0]);
    command.args(&arguments[1..]).arg(machine.binary("rtswapd"));
    command.arg("--config").arg(config);
    let mut daemon = Program::start(command)?;
    let mut status = Value::Null;
    wait_until("the daemon serves", BOUND, || {
        status = machine.status().unwrap_or_default();
        status["probes"]["state"]
            .as_str()
            .is_some_and(|state| state != "off")
            || !daemon.is_running()
    })?;
    ensure!(daemon.is_running(), "{}", daemon.stderr());
    Ok((daemon, status))
}

#[test]
fn without_the_capability_the_daemon_runs_and_says_what_is_missing() -> Result<()> {
    let machine = machine()?;
    if !is_root() || !Path::new("/usr/bin/setpriv").exists() {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED without_the_capability_the_daemon_runs_and_says_what_is_missing: needs root and setpriv"
        );
        return Ok(());
    }
    let all = "-bpf,-perfmon,-sys_admin";
    let (daemon, status) = bare(
        &machine,
        &[
            "/usr/bin/setpriv",
            "--bounding-set",
            all,
            "--inh-caps",
            all,
            "--",
        ],
    )?;
    let state = status["probes"]["state"].as_str().context("no state")?;
    ensure!(
        state.starts_with("missing: eBPF programs may not be loaded") && state.contains("CAP_BPF"),
        "{state}"
    );
    daemon.complains_once("without eBPF probes", BOUND)?;
    let text = machine
        .command(machine.binary("rtswapctl"))
        .arg("status")
        .output()?;
    let text = String::from_utf8(text.stdout)?;
    ensure!(text.contains("probes: missing: "), "{text}");
    Ok(())
}

/// `unshare` options and a shell under which `hidden` are empty folders for the program that follows.
fn hiding(hidden: &[&str]) -> Vec<String> {
    let mounts = hidden
        .iter()
        .map(|folder| format!("mount -t tmpfs none {folder} && "));
    let script = mounts.collect::<String>() + "exec \"$@\"";
    ["unshare", "--mount", "sh", "-c", &script, "sh"]
        .map(str::to_owned)
        .into()
}

/// What the daemon says of its probes where `hidden` cannot be seen; none where nobody may hide it.
fn state_without(machine: &Machine, hidden: &[&str]) -> Result<Option<(Daemon, String)>> {
    if !is_root() {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test");
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: needs root");
        return Ok(None);
    }
    let arguments = hiding(hidden);
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let (daemon, status) = bare(machine, &arguments)?;
    let state = status["probes"]["state"].as_str().context("no state")?;
    Ok(Some((daemon, state.to_owned())))
}

#[test]
fn a_kernel_without_btf_does() -> Result<()> {
    let machine = machine()?;
    let without = state_without(&machine, &["/sys/kernel/btf"])?;
    let Some((_daemon, state)) = without else {
        return Ok(());
    };
    ensure!(state == "on", "{state}");
    let mut holder = Holder::start(machine.command(holder(&machine)?))?;
    let pid = holder.program.pid();
    exercise(&machine, &mut holder, pid, 0)
}

#[test]
fn on_a_kernel_without_uprobes_the_daemon_runs_and_says_so() -> Result<()> {
    let machine = machine()?;
    let without = state_without(&machine, &["/sys/bus/event_source/devices"])?;
    let Some((daemon, state)) = without else {
        return Ok(());
    };
    ensure!(
        state.starts_with("missing: this kernel has no uprobes")
            && state.contains("CONFIG_UPROBE_EVENTS"),
        "{state}"
    );
    daemon.complains_once("without eBPF probes", BOUND)?;
    // A task comes, runs and goes all the same.
    let mut command = machine.run(&["--name", "blind"], machine.dnn());
    command.args(["--json", "--memory", "8MiB"]);
    command.args(["--jobs", "3", "--period", "20ms"]);
    let report = Program::start(command)?.finish(BOUND)?.json()?;
    ensure!(report["jobs"] == 3, "{report}");
    Ok(())
}

#[test]
fn where_tracefs_is_not_mounted_the_daemon_runs_and_says_what_to_do() -> Result<()> {
    let machine = machine()?;
    let hidden = ["/sys/kernel/debug", "/sys/kernel/tracing"];
    let Some((_daemon, state)) = state_without(&machine, &hidden)? else {
        return Ok(());
    };
    ensure!(
        state.starts_with("missing: tracefs") && state.contains("mount -t tracefs"),
        "{state}"
    );
    Ok(())
}

#[test]
fn an_agent_that_says_less_than_there_is_is_named_soon() -> Result<()> {
    let machine = Machine::new(MachineOptions {
        probes: true,
        // NVML is too slow to have told.
        daemon_toml: "[daemon]\nnvml_period_ms = 10000\n".into(),
        ..MachineOptions::default()
    })?;
    let _daemon = machine.daemon()?;
    if !has_probes(&machine)? {
        return Ok(());
    }
    let hidden = probe("hidden", &machine.path(""), &machine.driver_dir())?;
    let mut program = Program::start(machine.preloaded(hidden))?;
    program.wait_for_line("held", BOUND)?;
    let since = Instant::now();
    let pid = program.pid();
    let mut last = Value::Null;
    wait_until("it is named", BOUND, || {
        last = machine.status().unwrap_or_default();
        let rows = last["processes"].as_array().into_iter().flatten();
        let mut own = rows.filter(|row| row["pid"] == pid);
        own.any(|row| row["disagreement"] == "underreport")
    })
    .with_context(|| last.to_string())?;
    // Long before NVML tells; how soon by a clock that no host delays, the ledger's own tests show.
    ensure!(
        since.elapsed() < Duration::from_secs(5),
        "after {:?}",
        since.elapsed()
    );
    // What it hides is taken from the capacity, not given to anybody.
    let gpu = &last["gpus"][0];
    ensure!(
        gpu["capacity_bytes"].as_u64() <= Some((56 - 16) << 20),
        "{gpu}"
    );
    Ok(())
}
