//! What a program learns of its pointers does not depend on where its memory is.
#![allow(missing_docs)]

use std::time::Duration;

use anyhow::{Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, Puppet, probe};
use rtswap_wire::page::Direction;

const CHUNK: u64 = 2 << 20;
const BOUND: Duration = Duration::from_secs(20);

#[test]
fn a_pointer_stays_what_it_is_while_its_memory_is_out() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let program = probe("pointers", &machine.path(""), &machine.driver_dir())?;
    let uuid = machine.wire_uuid()?;
    let listener = Puppet::listen(&machine.runtime_dir())?;
    let mut program = Program::start(machine.preloaded(program))?;
    let mut puppet = Puppet::accept(&listener, uuid, CHUNK, machine.memory_bytes())?;
    program.wait_for_line("ready", BOUND)?;
    program.say("\n")?;
    program.wait_for_line("{", BOUND)?;
    puppet.set_volume(2 * CHUNK)?;
    puppet.swap(Direction::Out, 2 * CHUNK)?;
    ensure!(puppet.block().agent.usage().swapped_bytes == 2 * CHUNK);
    program.say("\n")?;
    rtswap_e2e::wait_until("a second answer", BOUND, || {
        program.stdout().lines().count() == 3 || !program.is_running()
    })?;
    let answers = program.stdout();
    let mut answers = answers.lines().skip(1);
    let (before, out) = (answers.next(), answers.next());
    ensure!(
        before == out,
        "{before:?} became {out:?}: {}",
        program.stderr()
    );
    let expected = r#"{"type":2,"pointer":1,"ordinal":0,"size":3145728,"batch_type":2,"base":1}"#;
    ensure!(before == Some(expected), "{before:?}");
    program.kill()
}
