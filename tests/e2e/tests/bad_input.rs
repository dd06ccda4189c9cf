//! Bad input gets a clear error, leaves nothing behind, and disturbs nobody.
#![allow(missing_docs)]

use std::fs;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Finished, Machine, MachineOptions, Program};
use rtswap_wire::hello::{Hello, Reply, ReplyCode};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use zerocopy::IntoBytes;

const BOUND: Duration = Duration::from_secs(20);

fn run(machine: &Machine, options: &[&str]) -> Result<Finished> {
    let mut command = machine.run(options, "/bin/echo");
    command.arg("started");
    Program::start(command)?.finish(BOUND)
}

/// It must exit with `code`, say `text`, start nothing and leave no task.
fn refused(machine: &Machine, options: &[&str], code: i32, text: &str) -> Result<()> {
    let end = run(machine, options)?;
    ensure!(
        end.stderr.contains(text),
        "{options:?} said: {}{}",
        end.stdout,
        end.stderr
    );
    ensure!(
        end.status.code() == Some(code),
        "{options:?} ended {}: {}",
        end.status,
        end.stderr
    );
    ensure!(
        !end.stdout.contains("started"),
        "{options:?} started the program"
    );
    let status = machine.status()?;
    ensure!(
        status["tasks"].as_array().is_some_and(Vec::is_empty),
        "{options:?} left {status}"
    );
    Ok(())
}

#[test]
fn a_task_that_cannot_be_is_refused_with_its_numbers() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let _daemon = machine.daemon()?;
    let sized = ["--footprint", "40MiB", "--swappable", "38MiB"];
    let with = |timing: &[&'static str]| [&sized[..], timing].concat();
    let impossible = with(&["--period", "10ms", "--wcet", "20ms"]);
    refused(
        &machine,
        &impossible,
        2,
        "wcet ≤ deadline ≤ period must hold",
    )?;
    let late = with(&["--period", "10ms", "--deadline", "11ms", "--wcet", "1ms"]);
    refused(&machine, &late, 2, "wcet ≤ deadline ≤ period must hold")?;
    refused(
        &machine,
        &["--period", "10ms"],
        2,
        "needs --wcet, --footprint, --swappable",
    )?;
    let fat = [
        "--period",
        "1s",
        "--wcet",
        "1ms",
        "--footprint",
        "4GiB",
        "--swappable",
        "4GiB",
    ];
    refused(&machine, &fat, 1, "4.00 GiB")?;
    let odd = [
        "--period",
        "1s",
        "--wcet",
        "1ms",
        "--footprint",
        "4 cows",
        "--swappable",
        "1MiB",
    ];
    refused(&machine, &odd, 2, "\"4 cows\" has no unit that is known")?;
    let gpu = with(&["--period", "1s", "--wcet", "1ms", "--gpu", "7"]);
    refused(&machine, &gpu, 1, "7")?;
    refused(&machine, &["--gpu", "seven"], 1, "seven")?;
    Ok(())
}

#[test]
fn a_second_daemon_is_told_of_the_first() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let mut first = machine.daemon()?;
    let mut second = machine.command(machine.binary("rtswapd"));
    second.arg("--config").arg(machine.path("rtswapd.toml"));
    let end = Program::start(second)?.finish(BOUND)?;
    ensure!(
        !end.status.success() && end.stderr.contains("already"),
        "it said: {}",
        end.stderr
    );
    ensure!(
        first.is_running() && machine.status().is_ok(),
        "the first was disturbed"
    );
    Ok(())
}

#[test]
fn sockets_that_cannot_be_made_are_named() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let file = machine.path("a-file");
    fs::write(&file, "")?;
    let long = machine.path(&"long/".repeat(30));
    for (folder, text) in [(file.join("run"), "a-file/run"), (long, "long/long")] {
        let mut command = machine.command(machine.binary("rtswapd"));
        command.arg("--runtime-dir").arg(&folder);
        let end = Program::start(command)?.finish(BOUND)?;
        ensure!(
            !end.status.success() && end.stderr.contains(text),
            "it said: {}",
            end.stderr
        );
    }
    Ok(())
}

#[test]
fn a_stale_socket_is_replaced() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    drop(UnixListener::bind(
        machine.runtime_dir().join("control.sock"),
    )?);
    let _daemon = machine.daemon()?;
    Ok(())
}

#[test]
fn a_malformed_configuration_names_file_line_and_key() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let path = machine.path("bad.toml");
    for (text, complaint) in [
        (
            "version = 1\n[daemon]\nclaim_timout_s = 3\n",
            "did you mean `claim_timeout_s`",
        ),
        (
            "version = 1\n[[gpu]]\nuuid = \"GPU-nonsense\"\nmemory = \"1GiB\"\n",
            "GPU-nonsense",
        ),
        ("version = 1\n[[gpu]]\nuuid = 3\n", "bad.toml:3:"),
        ("version = 99\n", "version"),
        ("version = ", "bad.toml:1:"),
    ] {
        fs::write(&path, text)?;
        let mut command = machine.command(machine.binary("rtswapd"));
        command.arg("--config").arg(&path);
        let end = Program::start(command)?.finish(BOUND)?;
        ensure!(!end.status.success(), "accepted {text:?}");
        ensure!(
            end.stderr.contains("bad.toml:") && end.stderr.contains(complaint),
            "{text:?}: {}",
            end.stderr
        );
        ensure!(
            !machine.runtime_dir().join("agent.sock").exists(),
            "{text:?} left a socket"
        );
    }
    Ok(())
}

#[test]
fn an_agent_of_another_wire_version_is_told_which_would_do() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let _daemon = machine.daemon()?;
    let mut hello = Hello::new(1, None)?;
    hello.version = 77;
    let reply = knock(&machine, hello.as_bytes())?;
    ensure!(reply.code() == Some(ReplyCode::Version), "{reply:?}");
    ensure!(
        reply.text().contains("77") && reply.text().contains("speaks 1 to 1"),
        "{}",
        reply.text()
    );
    let reply = knock(&machine, b"GET / HTTP/1.1")?;
    ensure!(reply.code() == Some(ReplyCode::Malformed), "{reply:?}");
    Ok(())
}

#[test]
fn an_unknown_task_name_is_refused_to_the_agent() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let _daemon = machine.daemon()?;
    let reply = knock(&machine, Hello::new(1, Some("nobody"))?.as_bytes())?;
    ensure!(reply.code() == Some(ReplyCode::Claim), "{reply:?}");
    ensure!(reply.text().contains("nobody"), "{}", reply.text());

    // A program that was told a wrong name says so and still runs, unmanaged.
    let mut command = machine.preloaded(machine.dnn());
    command.env("RTSWAP_TASK", "nobody");
    command.args([
        "--json", "--memory", "8MiB", "--period", "50ms", "--jobs", "2",
    ]);
    let end = Program::start(command)?.finish(BOUND)?;
    ensure!(end.stderr.contains("nobody"), "it said: {}", end.stderr);
    ensure!(end.json()?["checksum_errors"] == 0);
    Ok(())
}

/// Says one packet to the agent socket and hears the reply.
fn knock(machine: &Machine, packet: &[u8]) -> Result<Reply> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    let address = SocketAddrUnix::new(machine.runtime_dir().join("agent.sock"))?;
    rustix::net::connect(&socket, &address)?;
    rustix::net::send(&socket, packet, SendFlags::NOSIGNAL)?;
    let mut ready = [rustix::event::PollFd::new(
        &socket,
        rustix::event::PollFlags::IN,
    )];
    let bound = rustix::time::Timespec {
        tv_sec: 20,
        tv_nsec: 0,
    };
    ensure!(
        rustix::event::poll(&mut ready, Some(&bound))? == 1,
        "no reply"
    );
    let mut buffer = vec![0; 4096];
    let (length, _) = rustix::net::recv(&socket, &mut buffer[..], RecvFlags::empty())?;
    Reply::parse(&buffer[..length]).context("the reply cannot be read")
}
