//! What `rtswapctl` says, and how it exits, when there is nothing to talk to or nothing sensible
//! to say.
#![allow(missing_docs)]

use std::process::{Command, Output};

fn rtswapctl(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let agent = folder.path().join("agent.so");
    std::fs::write(&agent, "").unwrap();
    Command::new(env!("CARGO_BIN_EXE_rtswapctl"))
        .env("RTSWAP_RUNTIME_DIR", folder.path().join("nobody"))
        .env("RTSWAP_AGENT", agent)
        .args(arguments)
        .output()
        .unwrap()
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
