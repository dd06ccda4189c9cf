//! The system bus by hand, with busctl.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{MANAGER, OTHER, USER};
use crate::machine::Machine;
use crate::report::Report;

pub(super) fn check(report: &mut Report<'_>) {
    let Some(task) = report.check("busctl registers a task as an ordinary user", register) else {
        return;
    };
    report.check(
        "GetManagedObjects tells it with the declared values",
        |machine| managed(machine, &task),
    );
    report.check("busctl introspects it", |machine| {
        introspect(machine, &task)
    });
    report.check("another user may not end it", |machine| {
        foreign(machine, &task)
    });
    report.check("its user may end it", |machine| end(machine, &task));
    report.check("the daemon starts when somebody calls it", activation);
    report.check("no call starts a daemon that is disabled", disabled);
}

fn call<'a>(method: &'a str, arguments: &[&'a str]) -> Vec<&'a str> {
    [
        &["busctl", "--json=short", "call"],
        &MANAGER[..],
        &[method],
        arguments,
    ]
    .concat()
}

fn register(machine: &Machine) -> Result<String> {
    let declared = [
        "sa{sv}",
        "yolo",
        "2",
        "footprint",
        "s",
        "6.2MiB",
        "swappable",
        "t",
        "4194304",
    ];
    let answer = machine.run_as(USER, &call("Register", &declared))?.json()?;
    let path = answer["data"][0].as_str().context("no path")?;
    ensure!(path.starts_with("/org/rtswap/task/"), "{answer}");
    Ok(path.to_owned())
}

fn managed(machine: &Machine, task: &str) -> Result<()> {
    let objects = [
        "busctl",
        "--json=short",
        "call",
        "org.rtswap",
        "/org/rtswap",
    ];
    let method = ["org.freedesktop.DBus.ObjectManager", "GetManagedObjects"];
    let list = [&objects[..], &method].concat();
    let others = machine.run_as(OTHER, &list)?.json()?;
    let seen = others["data"][0][task]["org.rtswap.Task1"].as_object();
    let seen: Option<Vec<_>> = seen.map(|seen| seen.keys().map(String::as_str).collect());
    ensure!(
        seen.as_deref() == Some(&["Class", "Gpu", "UserId"]),
        "another user sees {seen:?}"
    );
    let answer = machine.run_as(USER, &list)?.json()?;
    let properties = &answer["data"][0][task]["org.rtswap.Task1"];
    let uid: u64 = machine.run(&["id", "-u", USER])?.ok()?.trim().parse()?;
    let footprint = 6.2 * f64::from(1 << 20);
    for (name, wanted) in [
        ("Name", Value::from("yolo")),
        ("Class", Value::from("best-effort")),
        ("UserId", Value::from(uid)),
        ("FootprintBytes", Value::from(footprint as u64)),
        ("SwappableBytes", Value::from(4 << 20)),
        ("Weight", Value::from(100)),
    ] {
        ensure!(
            properties[name]["data"] == wanted,
            "{name} is {}, not {wanted}",
            properties[name]
        );
    }
    ensure!(
        answer["data"][0].as_object().is_some_and(|objects| {
            let gpus = objects
                .keys()
                .filter(|path| path.starts_with("/org/rtswap/gpu/"));
            gpus.count() == 1
        }),
        "not one GPU: {answer}"
    );
    Ok(())
}

fn introspect(machine: &Machine, task: &str) -> Result<()> {
    let text = machine
        .run_as(USER, &["busctl", "introspect", "org.rtswap", task])?
        .ok()?;
    for wanted in [
        "org.rtswap.Task1",
        ".FootprintBytes",
        "\"yolo\"",
        "\"best-effort\"",
    ] {
        ensure!(text.contains(wanted), "{wanted} is not in {text}");
    }
    let manager = machine
        .run_as(USER, &["busctl", "introspect", "org.rtswap", "/org/rtswap"])?
        .ok()?;
    for wanted in [
        ".RegisterWithLease",
        ".Plan",
        ".ListProcesses",
        ".DeadlineMissed",
        ".Violation",
    ] {
        ensure!(manager.contains(wanted), "{wanted} is not in {manager}");
    }
    Ok(())
}

fn foreign(machine: &Machine, task: &str) -> Result<()> {
    let done = machine.run_as(OTHER, &call("Unregister", &["o", task]))?;
    ensure!(done.code != Some(0), "a stranger ended it");
    Ok(())
}

fn end(machine: &Machine, task: &str) -> Result<()> {
    machine
        .run_as(USER, &call("Unregister", &["o", task]))?
        .ok()?;
    let again = machine.run_as(USER, &call("Unregister", &["o", task]))?;
    ensure!(again.code != Some(0), "it was ended twice");
    Ok(())
}

fn activation(machine: &Machine) -> Result<()> {
    machine.run(&["systemctl", "stop", "rtswapd"])?.ok()?;
    machine.run_as(USER, &call("ListProcesses", &[]))?.ok()?;
    machine.run(&["systemctl", "is-active", "rtswapd"])?.ok()?;
    Ok(())
}

fn disabled(machine: &Machine) -> Result<()> {
    let alias = "/etc/systemd/system/dbus-org.rtswap.service";
    machine.run(&["test", "-h", alias])?.ok()?;
    machine
        .run(&["systemctl", "disable", "--now", "rtswapd"])?
        .ok()?;
    let called = machine.run_as(USER, &call("ListProcesses", &[]))?;
    ensure!(called.code != Some(0), "it answered: {}", called.stdout);
    let state = machine.run(&["systemctl", "is-active", "rtswapd"])?;
    ensure!(state.stdout == "inactive\n", "it is {}", state.stdout);
    machine
        .run(&["systemctl", "enable", "--now", "rtswapd"])?
        .ok()?;
    machine.run_as(USER, &call("ListProcesses", &[]))?.ok()?;
    Ok(())
}
