//! llama-swap's part, which is not in Debian: the `cmd` of each model in docs/units.md, run and ended as llama-swap does.

use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::swapping::task;
use super::{USER, status};
use crate::machine::Machine;
use crate::report::Report;

pub(super) fn check(report: &mut Report<'_>) {
    let started = report.check(
        "the models of llama-swap's configuration stay loaded though they do not fit together",
        start,
    );
    if let Some(models) = started {
        report.check(
            "llama-swap's signal ends a model, its registration and its memory",
            |machine| end(machine, models),
        );
    }
}

const DOCUMENTED: &str = include_str!("../../../../docs/units.md");
/// Stands in for llama-server, which is not in Debian either, for a minute. Two do not fit into the 768 MiB of the simulated GPU.
const SERVER: &str = "#!/bin/sh
exec rtswap-simgpu rtswap-dnn --memory 440MiB --period 2s --jobs 30 --json
";
const SERVER_PATH: &str = "/usr/local/bin/llama-server";

/// The models of the documented configuration, each with its `cmd`.
fn models() -> Result<Vec<(&'static str, String)>> {
    let mut models = Vec::new();
    let lines = DOCUMENTED.lines().zip(DOCUMENTED.lines().skip(1));
    for (id, command) in lines {
        if let Some(command) = command.strip_prefix("    cmd: ") {
            let id = id.trim().strip_suffix(':').context("a model's ID")?;
            let command = command.replace("${MODEL_ID}", id);
            models.push((id, command.replace("${PORT}", "5800")));
        }
    }
    ensure!(models.len() == 2, "docs/units.md has {models:?}");
    Ok(models)
}

/// Each in a process group of its own, without a shell.
fn start(machine: &Machine) -> Result<Vec<Child>> {
    machine
        .shell(&format!(
            "cat > {SERVER_PATH} <<'END'
{SERVER}END
chmod 755 {SERVER_PATH}"
        ))?
        .ok()?;
    let models = models()?;
    let mut children = Vec::new();
    for (_, command) in &models {
        let mut words = vec!["setsid", "--fork", "--wait"];
        words.extend(command.split(' '));
        let child = machine
            .command_as(USER, &words)
            .stdout(Stdio::null())
            .spawn();
        children.push(child.context("nsenter")?);
    }
    machine.wait("both swapped", Duration::from_secs(30), |machine| {
        let status = status(machine)?;
        let swapped = |(id, _): &(&str, _)| {
            let total = task(&status, id).and_then(|task| task["swap_out_bytes_total"].as_u64());
            total > Some(0)
        };
        Ok(models.iter().all(swapped))
    })?;
    let status = status(machine)?;
    for (id, _) in &models {
        let own = task(&status, id).context("no task")?;
        ensure!(own["pid"] != 0, "{id} ended: {own}");
    }
    Ok(children)
}

fn end(machine: &Machine, children: Vec<Child>) -> Result<()> {
    for (id, _) in models()? {
        let status = status(machine)?;
        let pid = task(&status, id).context("no task")?["pid"].to_string();
        let group = machine.run(&["ps", "-o", "pgid=", &pid])?.ok()?;
        ensure!(group.trim() == pid, "{id}: group {group}");
        machine
            .run(&["kill", "-TERM", "--", &format!("-{pid}")])?
            .ok()?;
    }
    for mut child in children {
        child.wait()?;
    }
    machine.wait("nothing is left", Duration::from_secs(10), |machine| {
        let status = status(machine)?;
        let ended = models()?.iter().all(|(id, _)| task(&status, id).is_none());
        Ok(ended && status["gpus"][0]["used_bytes"] == 0)
    })?;
    machine.run(&["rm", SERVER_PATH])?.ok().map(drop)
}
