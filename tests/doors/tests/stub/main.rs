//! Every hook runs, on a driver that notes how it is called. Without an agent, and without a daemon, each argument arrives as
//! it was passed, in every register and every place on the stack, and the driver's result comes back; under an agent work
//! waits at the gate besides.
#![allow(missing_docs)]

mod apart;
mod held;
mod planted;

use anyhow::{Result, ensure};
use rtswap_doors::names;
use rtswap_doors::stub::{Stub, calls};
use rtswap_e2e::{Machine, MachineOptions};

/// Each hook hands its call on as it is, and gives back what the driver answers.
fn hands_on(task: Option<&str>) -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let hooked = names::hooked(&machine.binary("librtswap_cuda.so"))?;
    let stub = Stub::compile(&hooked)?;
    for answer in ["fail", "succeed"] {
        let mut command = stub.command(&machine, answer);
        command.envs(task.map(|task| ("RTSWAP_TASK", task)));
        let made = calls(command)?;
        let called: Vec<_> = made.iter().map(|made| &made.passed.name).collect();
        ensure!(called.iter().copied().eq(&hooked), "{called:?}");
        let mut wrong = Vec::new();
        for made in &made {
            let result = match answer {
                "fail" => stub.failure(&made.passed.name)?,
                _ => 0,
            };
            wrong.extend(made.difference(result));
        }
        ensure!(wrong.is_empty(), "{answer}: {wrong:#?}");
    }
    Ok(())
}

#[test]
fn every_hook_hands_its_call_on_where_no_daemon_is_wanted() -> Result<()> {
    hands_on(None)
}

#[test]
fn every_hook_hands_its_call_on_without_a_daemon() -> Result<()> {
    hands_on(Some("task"))
}
