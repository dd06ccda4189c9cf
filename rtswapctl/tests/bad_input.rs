//! What `rtswapctl` says, and how it exits, when there is nothing to talk to or nothing sensible
//! to say.
#![allow(missing_docs)]

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn rtswapctl(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let agent = folder.path().join("agent.so");
    library(&agent, "int rtswap_job_begin(void) { return 0; }");
    Command::new(env!("CARGO_BIN_EXE_rtswapctl"))
        .env("RTSWAP_RUNTIME_DIR", folder.path().join("nobody"))
        .env("RTSWAP_AGENT", agent)
        .args(arguments)
        .output()
        .unwrap()
}

/// Builds a shared object of `source`.
fn library(path: &Path, source: &str) {
    let code = path.with_extension("c");
    std::fs::write(&code, source).unwrap();
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-nostdlib", "-o"])
        .args([path, &code]);
    assert!(compiler.status().unwrap().success());
}

fn refuses(arguments: &[&str], code: i32, text: &str) {
    let output = rtswapctl(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert!(said.contains(text), "{arguments:?}: {said}");
    assert!(output.stdout.is_empty(), "{arguments:?} printed something");
}

#[test]
fn a_realtime_run_without_its_numbers_names_them() {
    let said = "a realtime task needs --wcet, --footprint, --swappable";
    refuses(&["run", "--period", "33ms", "--", "/bin/true"], 2, said);
}

#[test]
fn without_a_daemon_everything_says_where_it_looked() {
    for arguments in [
        &["status"][..],
        &["tasks", "--json"],
        &["run", "--", "/bin/true"],
    ] {
        refuses(arguments, 3, "no rtswapd listens on");
    }
}

#[test]
fn nonsense_is_bad_input() {
    refuses(
        &["run", "--period", "33", "--", "/bin/true"],
        2,
        "a time needs a unit",
    );
    refuses(
        &["run", "--name", "a b", "--", "/bin/true"],
        2,
        "cannot name a task",
    );
    refuses(&["run"], 2, "CMD");
    refuses(
        &["run", "--agent", "/nonexistent.so", "--", "/bin/true"],
        2,
        "there is no agent at",
    );
}

#[test]
fn an_empty_variable_is_none() {
    let output = Command::new(env!("CARGO_BIN_EXE_rtswapctl"))
        .env("RTSWAP_RUNTIME_DIR", "")
        .env("RTSWAP_AGENT", "")
        .args(["run", "--name", "a b", "true"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("cannot name a task"), "{said}");
}

#[test]
fn a_program_needs_no_dashes_before_it_and_keeps_its_own() {
    // There is no daemon: all before that was understood.
    let said = "no rtswapd listens on";
    refuses(&["run", "--footprint", "6gib", "python3", "x.py"], 3, said);
    refuses(&["run", "python3", "--period", "x", "--", "-n"], 3, said);
    refuses(
        &["run", "--perod", "33ms", "python3"],
        2,
        "unexpected argument '--perod'",
    );
}

#[test]
fn sizes_and_pauses_are_checked_before_the_daemon_is_asked() {
    for (size, said) in [
        ("6 elephants", "has no unit that is known"),
        ("1.5", "1.5"),
        ("-1G", "-1"),
    ] {
        let footprint = format!("--footprint={size}");
        refuses(&["run", &footprint, "true"], 2, said);
    }
    refuses(&["status", "-w", "-n", "1ms"], 2, "at least 100 ms");
    refuses(&["status", "-n", "2s"], 2, "--watch");
}

#[test]
fn only_an_agent_is_preloaded() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.so");
    library(
        &other,
        "extern int rtswap_job_begin(void); int x(void) { return rtswap_job_begin(); }",
    );
    let foreign = folder.path().join("foreign.so");
    let mut bytes = std::fs::read(&other).unwrap();
    // e_machine: MIPS.
    bytes[18] = 8;
    std::fs::write(&foreign, bytes).unwrap();
    for (agent, why) in [
        (
            "/etc/passwd",
            "/etc/passwd is no agent: it is no 64-bit ELF file; name the librtswap_cuda.so",
        ),
        ("/etc", "it is no regular file"),
        (
            other.to_str().unwrap(),
            "it does not export rtswap_job_begin",
        ),
        (foreign.to_str().unwrap(), "it is not of this machine"),
    ] {
        refuses(&["run", "--agent", agent, "--", "/bin/true"], 2, why);
    }
}

#[test]
fn a_pipe_is_no_task_set() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("set.toml");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let start = Instant::now();
    for command in ["plan", "simulate"] {
        let pipe = pipe.to_str().unwrap();
        refuses(
            &[command, pipe],
            2,
            "set.toml is no regular file; name one, or pipe",
        );
        refuses(&[command, "/dev/zero"], 2, "/dev/zero is no regular file");
        refuses(&[command, "/"], 2, "/ is no regular file");
    }
    assert!(start.elapsed() < Duration::from_secs(20));
}

/// A daemon that ends while it is asked, as at a restart: each connection is closed at once. The folder is there
/// all the time, so it may be back.
#[test]
fn run_waits_for_a_daemon_that_restarts_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let agent = folder.path().join("agent.so");
    library(&agent, "int rtswap_job_begin(void) { return 0; }");
    let listener =
        std::os::unix::net::UnixListener::bind(folder.path().join("control.sock")).unwrap();
    let calls = std::thread::spawn(move || {
        let ended = Instant::now() + Duration::from_secs(30);
        let mut calls = 0;
        while calls < 3 && Instant::now() < ended {
            drop(listener.accept().unwrap());
            calls += 1;
        }
        calls
    });
    let start = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_rtswapctl"))
        .arg("--runtime-dir")
        .arg(folder.path())
        .args(["run", "--agent"])
        .arg(&agent)
        .args(["--", "/bin/true"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(calls.join().unwrap(), 3, "{said}");
    let hint = "; rtswapd may be restarting: trying again for 8 s\n";
    assert_eq!(said.matches(hint).count(), 1, "{said}");
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        start.elapsed() >= Duration::from_secs(8),
        "it gave up early"
    );
}
