//! Ordinary programs in odd surroundings: environment, sockets, other libraries, other loaders.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use rtswap_e2e::Program;

use super::run::{Agent, run, run_against, same_end};
use crate::check::{Missing, Outcome};
use crate::stage::{BOUND, Stage};
use crate::table::Probe;

/// A change to the command that starts a probe.
pub(super) type Change = fn(&Stage<'_>, &mut Command) -> Result<()>;

/// Runs the probe with `change`.
pub(super) fn with(
    stage: &Stage<'_>,
    probe: &Probe,
    agent: Agent,
    change: Change,
) -> Result<Outcome> {
    let mut command = stage.preloaded(probe);
    change(stage, &mut command)?;
    run(stage, probe, command, agent)
}

/// The agent's path.
pub(super) fn agent(stage: &Stage<'_>) -> String {
    let path = stage.machine.binary("librtswap_cuda.so");
    path.to_string_lossy().into_owned()
}

/// A folder of the stage that nobody may read, in place of the daemon's. Root reads everything: then
/// a file is in the way.
pub(super) fn unreadable_folder(stage: &Stage<'_>, command: &mut Command) -> Result<()> {
    let folder = stage.machine.path("locked");
    if rustix::process::geteuid().is_root() {
        fs::write(&folder, "")?;
    } else {
        fs::create_dir(&folder)?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o0))?;
    }
    command.env("RTSWAP_RUNTIME_DIR", folder);
    Ok(())
}

/// Makes a shared library of C text in the stage's folder.
pub(super) fn library(stage: &Stage<'_>, name: &str, text: &str) -> Result<PathBuf> {
    let source = stage.machine.path(&format!("{name}.c"));
    let library = stage.machine.path(&format!("lib{name}.so"));
    fs::write(&source, text)?;
    let output = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()))
        .args([
            "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-pthread", "-o",
        ])
        .args([&library, &source])
        .arg("-ldl")
        .output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(library)
}

/// A malloc that looks the real one up at its first call, in each of the ways to ask.
pub(super) const MALLOC: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
void *malloc(size_t bytes) {
    static void *(*next)(size_t);
    if (!next) {
        dlsym(RTLD_DEFAULT, "free");
        dlvsym(RTLD_NEXT, "free", "GLIBC_2.2.5");
        next = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    }
    return next(bytes);
}
"#;

/// An auditing library that sees every binding.
pub(super) const AUDIT: &str = r"
#define _GNU_SOURCE
#include <link.h>
unsigned la_version(unsigned version) { return version; }
unsigned la_objopen(struct link_map *map, Lmid_t id, uintptr_t *cookie) {
    (void)map, (void)id, (void)cookie;
    return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}
uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to,
                       unsigned *flags, const char *name) {
    (void)index, (void)from, (void)to, (void)flags, (void)name;
    return symbol->st_value;
}
";

/// A library that initialises the driver while it is loaded.
pub(super) const INIT: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
__attribute__((constructor)) static void loaded(void) {
    int (*init)(unsigned) =
        (int (*)(unsigned))dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuInit");
    if (!init || init(0) != 0) abort();
}
"#;

/// A library that is loaded once a thread has done its work.
pub(super) const WAITS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void loaded(void) {
    void *body;
    pthread_t thread;
    if (sscanf(getenv("LIFE_BODY"), "%p", &body) != 1) abort();
    if (pthread_create(&thread, NULL, (void *(*)(void *))body, NULL) != 0) abort();
    pthread_join(thread, NULL);
}
"#;

/// A program that loads one of our libraries ends well, as it does without an agent.
pub(super) fn loads(stage: &Stage<'_>, probe: &Probe, name: &str, source: &str) -> Result<Outcome> {
    library(stage, name, source)?;
    let folder = stage.machine.path("");
    let mut command = stage.preloaded(probe);
    command.env("LIFE_FOLDER", &folder);
    let mut bare = stage.bare(probe);
    bare.env("LIFE_FOLDER", &folder);
    run_against(stage, command, Agent::Works, bare)
}

/// A socket that takes the agent's Hello and never answers: the program goes on after a bound.
pub(super) fn silent_daemon(stage: &Stage<'_>, probe: &Probe) -> Result<Outcome> {
    let _listener = stage.listen()?;
    let mut program = Program::start(stage.preloaded(probe))?;
    program.say(&"go\n".repeat(64))?;
    let ours = program.finish(BOUND)?;
    same_end(&ours, &stage.run_bare(probe)?)?;
    let lines = ours.stderr.lines().count();
    ensure!(
        lines == 1 && ours.stderr.contains("did not answer"),
        "it says {:?}",
        ours.stderr
    );
    Ok(Outcome::Inert)
}

/// jemalloc's path.
pub(super) fn jemalloc() -> Result<&'static str> {
    [
        "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
        "/usr/lib/aarch64-linux-gnu/libjemalloc.so.2",
        "/usr/lib64/libjemalloc.so.2",
    ]
    .into_iter()
    .find(|path| Path::new(path).exists())
    .ok_or_else(|| Missing("jemalloc is not installed".into()).into())
}

/// Compiles C text to a program of the stage by `compiler`.
pub(super) fn program(stage: &Stage<'_>, compiler: &[&str], text: &str) -> Result<PathBuf> {
    let source = stage.machine.path("foreign.c");
    let program = stage.machine.path("foreign");
    fs::write(&source, text)?;
    let [name, arguments @ ..] = compiler else {
        bail!("no compiler");
    };
    let output = Command::new(name)
        .arg(&source)
        .args(arguments)
        .arg("-o")
        .arg(&program)
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(program)
}
