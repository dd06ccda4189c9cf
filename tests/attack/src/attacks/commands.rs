//! The command line, with arguments that make it hang or hide.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Program, wait_until};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::attack::{Attack, PLAIN};
use crate::judge::Scene;
use crate::victims::{as_user, installed, on_machine};

// These attack by the arguments of commands, in their judgements.
pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "command-plan-of-a-fifo",
        judge: plan_of_a_fifo,
        ..PLAIN
    },
    Attack {
        name: "command-agent-of-no-agent",
        judge: agent_of_no_agent,
        ..PLAIN
    },
    Attack {
        name: "command-meets-a-restart",
        judge: meets_a_restart,
        ..PLAIN
    },
    Attack {
        name: "command-out-of-memory",
        judge: out_of_memory,
        ..PLAIN
    },
];

/// Longer than a command needs to say what is wrong.
const SOON: Duration = Duration::from_secs(5);

fn ctl(scene: &Scene) -> Command {
    let machine = &scene.stage.machine;
    on_machine(
        machine,
        as_user(scene.stage.bystander, installed(machine, "rtswapctl")),
    )
}

fn plan_of_a_fifo(scene: &Scene) -> Result<()> {
    let fifo = scene.stage.machine.path(&format!("fifo-{}", scene.user));
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from(0o644), 0)?;
    let mut command = ctl(scene);
    command.arg("plan").arg(&fifo);
    let end = Program::start(command)?.finish(SOON)?;
    ensure!(
        end.status.code() == Some(2),
        "ended with {}: {}",
        end.status,
        end.stderr
    );
    Ok(())
}

/// A program that should be managed does not run unmanaged without a word.
fn agent_of_no_agent(scene: &Scene) -> Result<()> {
    let mut command = ctl(scene);
    command.args([
        "run",
        "--name",
        "unmanaged",
        "--agent",
        "/etc/passwd",
        "--",
        "true",
    ]);
    let end = Program::start(command)?.finish(SOON)?;
    ensure!(
        !end.status.success(),
        "an agent that is none was preloaded, and nobody said so: {}",
        end.stderr
    );
    Ok(())
}

/// The socket's owner is restarting: the connection is taken, and is reset before an answer.
fn meets_a_restart(scene: &Scene) -> Result<()> {
    let machine = &scene.stage.machine;
    let folder = machine.path(&format!("restarting-{}", scene.user));
    std::fs::create_dir(&folder)?;
    let socket = std::os::unix::net::UnixListener::bind(folder.join("control.sock"))?;
    rustix::fs::chmod(folder.join("control.sock"), Mode::from(0o666))?;
    let mut command = ctl(scene);
    command.env("RTSWAP_RUNTIME_DIR", &folder);
    command.args(["run", "--name", "patient", "--", "true"]);
    let program = Program::start(command)?;
    // The old daemon ends, and the new one serves.
    let (taken, _) = socket.accept()?;
    drop((taken, socket));
    std::fs::remove_file(folder.join("control.sock"))?;
    std::thread::sleep(Duration::from_millis(200));
    for name in ["control.sock", "agent.sock"] {
        std::os::unix::fs::symlink(machine.runtime_dir().join(name), folder.join(name))?;
    }
    let end = program.finish(SOON)?;
    ensure!(
        end.status.success(),
        "`rtswapctl run` ended with {}: {}",
        end.status,
        end.stderr
    );
    Ok(())
}

/// A program that gets no memory, or waits for the GPU because the plan leaves too little of it, is told why.
fn out_of_memory(scene: &Scene) -> Result<()> {
    let machine = &scene.stage.machine;
    let mut command = ctl(scene);
    command
        .args(["run", "--name", "large", "--"])
        .arg(installed(machine, "dnn"));
    command.args([
        "--memory", "40MiB", "--layers", "2", "--jobs", "1", "--period", "100ms",
    ]);
    let mut program = Program::start(command)?;
    let is_told = |stderr: &str| {
        let mut lines = stderr.lines().filter(|line| line.contains("rtswap"));
        lines.any(|line| line.contains("stay with realtime tasks") || line.contains("the plan of"))
    };
    wait_until("the program ends, or is told why not", SOON, || {
        !program.is_running() || is_told(&program.stderr())
    })
    .with_context(|| program.stderr())?;
    if is_told(&program.stderr()) {
        return Ok(());
    }
    // A process can be seen dead before its last lines are.
    let end = program.finish(SOON)?;
    ensure!(
        end.status.success() || is_told(&end.stderr),
        "a program without memory was told no reason: {}",
        end.stderr
    );
    Ok(())
}
