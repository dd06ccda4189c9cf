//! Programs of another kind: other languages, other C libraries, other word sizes.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Finished, Program};

use super::around::{agent, library, program};
use super::run::{Agent, run, run_command, same_end};
use crate::check::{Missing, Outcome};
use crate::stage::{BOUND, Stage};
use crate::table::Probe;

/// A program that uses no GPU.
const HELLO: &str = r#"
#include <stdio.h>
int main(void) { puts("hello"); return 5; }
"#;

fn tool(name: &str) -> Result<()> {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(name).exists()));
    if found {
        return Ok(());
    }
    Err(Missing(format!("{name} is not installed")).into())
}

/// What `command` does, and what it does with the agent preloaded.
fn both(stage: &Stage<'_>, command: impl Fn() -> Command) -> Result<(Finished, Finished)> {
    let bare = Program::start(command())?.finish(BOUND)?;
    let mut ours = command();
    ours.env("LD_PRELOAD", agent(stage));
    Ok((Program::start(ours)?.finish(BOUND)?, bare))
}

/// Python with `signal.signal`, asyncio or NVML.
pub(super) fn python(stage: &Stage<'_>, probe: &Probe) -> Result<Outcome> {
    tool("python3")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("probes/life_python.py");
    let command = || {
        let mut command = stage.machine.command("python3");
        command.arg(&script).arg(probe.argument);
        command
    };
    run_command(stage, command, Agent::Works)
}

/// A JVM that checks what native code does to its signals.
pub(super) fn java(stage: &Stage<'_>, _: &Probe) -> Result<Outcome> {
    tool("java")?;
    tool("javac")?;
    let probes = Path::new(env!("CARGO_MANIFEST_DIR")).join("probes");
    let folder = stage.machine.path("java");
    let compiled = Command::new("javac")
        .arg("-nowarn")
        .arg("-XDignore.symbol.file")
        .arg("-d")
        .args([&folder, &probes.join("LifeJava.java")])
        .output()?;
    ensure!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    let text = format!("#include \"{}\"\n", probes.join("life_java.c").display());
    let native = library(stage, "life_java", &text)?;
    let command = || {
        let mut command = stage.machine.command("java");
        command
            .args(["-Xcheck:jni", "-Xmx64m", "-XX:+UseSerialGC", "-cp"])
            .arg(&folder)
            .arg("LifeJava")
            .arg(&native);
        command
    };
    run_command(stage, command, Agent::Works)
}

/// A static program: no loader, no agent.
pub(super) fn static_program(stage: &Stage<'_>, _: &Probe) -> Result<Outcome> {
    let path = program(stage, &["cc", "-static"], HELLO)
        .map_err(|error| Missing(format!("nothing links statically: {error}")))?;
    let (ours, bare) = both(stage, || stage.machine.command(&path))?;
    same_end(&ours, &bare)?;
    ensure!(
        ours.status.code() == Some(5) && ours.stderr.is_empty(),
        "{ours:?}"
    );
    Ok(Outcome::Inert)
}

/// A 32-bit program: the loader says that the agent is of the wrong class, and goes on.
pub(super) fn of_32_bits(stage: &Stage<'_>, _: &Probe) -> Result<Outcome> {
    let path = program(stage, &["cc", "-m32"], HELLO)
        .map_err(|error| Missing(format!("nothing compiles for 32 bits: {error}")))?;
    let (ours, bare) = both(stage, || stage.machine.command(&path))?;
    same_end(&ours, &bare)?;
    only_the_loader_speaks(&ours)?;
    Ok(Outcome::Inert)
}

/// A path of the agent that does not exist.
pub(super) fn preload_missing(stage: &Stage<'_>, _: &Probe) -> Result<Outcome> {
    let path = program(stage, &["cc"], HELLO)?;
    let command = || stage.machine.command(&path);
    let bare = Program::start(command())?.finish(BOUND)?;
    let mut ours = command();
    ours.env("LD_PRELOAD", "/nowhere/librtswap_cuda.so");
    let ours = Program::start(ours)?.finish(BOUND)?;
    same_end(&ours, &bare)?;
    only_the_loader_speaks(&ours)?;
    Ok(Outcome::Inert)
}

fn only_the_loader_speaks(ours: &Finished) -> Result<()> {
    let lines: Vec<_> = ours.stderr.lines().collect();
    ensure!(
        lines.len() == 1 && lines[0].contains("cannot be preloaded"),
        "{lines:?}"
    );
    Ok(())
}

/// A program of another C library, and the agent by a path with `$LIB`, which glibc's loader alone
/// expands: it finds the agent, musl's finds nothing and says nothing. By a plain path musl's loader
/// ends the program, as with any library of glibc's.
pub(super) fn musl(stage: &Stage<'_>, probe: &Probe) -> Result<Outcome> {
    tool("musl-gcc")?;
    let path = program(stage, &["musl-gcc"], HELLO)?;
    // What $LIB stands for differs by distribution.
    for lib in [
        "lib",
        "lib64",
        "lib/x86_64-linux-gnu",
        "lib/aarch64-linux-gnu",
    ] {
        let folder = stage.machine.path(lib);
        fs::create_dir_all(&folder)?;
        std::os::unix::fs::symlink(agent(stage), folder.join("librtswap_cuda.so"))?;
    }
    let preload = stage.machine.path("$LIB/librtswap_cuda.so");
    let mut of_glibc = stage.bare(probe);
    of_glibc.env("LD_PRELOAD", &preload);
    run(stage, probe, of_glibc, Agent::Works)?;
    let command = || stage.machine.command(&path);
    let bare = Program::start(command())?.finish(BOUND)?;
    let mut ours = command();
    ours.env("LD_PRELOAD", &preload);
    let ours = Program::start(ours)?.finish(BOUND)?;
    same_end(&ours, &bare)?;
    ensure!(ours.stderr.is_empty(), "{}", ours.stderr);
    Ok(Outcome::Inert)
}

/// A program that runs with other rights than its caller's, linked against the agent because the loader
/// preloads nothing there.
pub(super) fn set_group(stage: &Stage<'_>, probe: &Probe) -> Result<Outcome> {
    let other = rustix::process::getgroups()
        .unwrap_or_default()
        .into_iter()
        .find(|&group| group != rustix::process::getegid());
    let group = if rustix::process::geteuid().is_root() {
        rustix::process::Gid::from_raw(65534)
    } else {
        other.ok_or_else(|| Missing("this user is in one group only".into()))?
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("probes/life_plain.c");
    let text = format!("#include \"{}\"\n", source.display());
    let folder = stage.machine.binary("librtswap_cuda.so");
    let folder = folder.parent().context("no folder")?.display();
    let (build, driver) = (format!("{folder}"), stage.machine.driver_dir());
    let driver = driver.display();
    let rpath = format!("-Wl,--no-as-needed,-rpath,{build}:{driver},--allow-shlib-undefined");
    let (build, driver) = (format!("-L{build}"), format!("-L{driver}"));
    let path = program(
        stage,
        &[
            "cc",
            "-pthread",
            &rpath,
            &build,
            &driver,
            "-l:librtswap_cuda.so",
            "-l:libcuda.so.1",
        ],
        &text,
    )?;
    rustix::fs::chown(&path, None, Some(group))?;
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o2755))?;
    let _ = probe;
    run_command(stage, || stage.machine.command(&path), Agent::Silent)
}
