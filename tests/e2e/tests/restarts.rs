//! A service that is started again with each restart of the daemon, as by `Restart=always`.
#![allow(missing_docs)]

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, wait_until};

const BOUND: Duration = Duration::from_mins(1);

#[test]
fn a_service_survives_ten_restarts_of_the_daemon() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let service = |jobs: u32| -> Result<Program> {
        let mut command = machine.run(&["--name=unit", "--class=best-effort"], machine.dnn());
        command.args(["--json", "--memory", "20MiB", "--layers", "4"]);
        command.args(["--period", "20ms", "--jobs", &jobs.to_string()]);
        Program::start(command)
    };
    let mut daemon = machine.daemon()?;
    for turn in 0..10 {
        let mut before = service(100_000)?;
        wait_until("it has a session", BOUND, || {
            let task = machine.task("unit").ok().flatten().unwrap_or_default();
            task["jobs"].as_u64() >= Some(1)
        })?;
        // The service ends before its daemon, or after the next one has begun. The daemon is killed, so that
        // it leaves nothing but its journal.
        let after = if turn % 2 == 0 {
            before.kill()?;
            daemon.kill()?;
            // It begins while there is no daemon.
            let after = service(5)?;
            daemon = machine.daemon()?;
            after
        } else {
            daemon.kill()?;
            daemon = machine.daemon()?;
            before.kill()?;
            service(5)?
        };
        after
            .finish_dnn(BOUND, 5)
            .with_context(|| format!("turn {turn}: {}", daemon.stderr()))?;
    }
    ensure!(daemon.is_running(), "{}", daemon.stderr());
    Ok(())
}
