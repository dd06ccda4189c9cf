//! GPU work under the loader's lock: whatever the agent does for it must not wait for the loader.
#![allow(missing_docs)]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, Puppet, probe};
use rtswap_wire::page::Direction;
use serde_json::json;

const CHUNK: u64 = 2 << 20;
const BUFFER: u64 = 4 * CHUNK;
const BOUND: Duration = Duration::from_secs(20);

#[test]
fn memory_is_pinned_and_comes_back_for_the_constructor_of_a_library() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let program = probe("loading", &machine.path(""), &machine.driver_dir())?;
    let library = machine.path("libloading.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("probes/loading.c");
    let built = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()))
        .args(["-shared", "-fPIC", "-Wall", "-Werror", "-DLIBRARY", "-o"])
        .args([&library, &source])
        .status()?;
    ensure!(built.success(), "the library does not compile");

    let uuid = machine.wire_uuid()?;
    let listener = Puppet::listen(&machine.runtime_dir())?;
    let mut command = machine.preloaded(program);
    command.arg(&library);
    let mut program = Program::start(command)?;
    let mut puppet = Puppet::accept(&listener, uuid, CHUNK, machine.memory_bytes())?;
    puppet.grant_until(&mut program, "ready")?;
    // Out and in once: the simulated driver starts a stream's thread for its first copy, and those
    // it makes wait for the loader.
    puppet.set_volume(BUFFER / 2)?;
    puppet.swap(Direction::Out, BUFFER / 2)?;
    puppet.swap(Direction::In, 0)?;
    puppet.swap(Direction::Out, BUFFER / 2)?;

    program.say("\n")?;
    program.wait_for_line("loading", BOUND)?;
    puppet.wait_for_job()?;
    // As for a task that is registered by now.
    puppet.set_volume(BUFFER)?;
    puppet.swap(Direction::Out, BUFFER)?;
    puppet.swap(Direction::In, 0)?;
    let report = puppet.grant_to_the_end(program)?.json()?;
    ensure!(report == json!({"wrong_words": 0}), "{report}");
    Ok(())
}
