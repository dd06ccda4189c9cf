//! What must hold, in the order of an installation's life.

mod attached;
mod bus;
mod clients;
mod containers;
mod doctor;
mod driver;
mod first_hour;
mod hardening;
mod install;
mod llama_swap;
mod podman;
mod realtime;
mod reload;
mod removal;
mod repository;
mod restarts;
mod sessions;
mod stopped;
mod swapping;
mod units;

use std::path::Path;

use anyhow::Result;

use crate::machine::Machine;
use crate::report::Report;

/// What the checks need in the system besides the packages. `driver` is where NVIDIA's libraries are, if they were fetched.
pub(crate) fn prepare(machine: &Machine, root: &Path, driver: &Path) -> Result<()> {
    clients::prepare(machine, root)?;
    doctor::prepare(machine, driver)
}

/// All of them. One that fails says so and the next goes on. `screens` is where the pictures of the first hour are written, if
/// anywhere; `has_old_image` says whether the system sees an image of Debian 11.
pub(crate) fn all(report: &mut Report<'_>, screens: Option<&Path>, has_old_image: bool) {
    repository::check(report);
    install::check(report);
    bus::check(report);
    clients::check(report);
    realtime::check(report);
    swapping::check(report);
    units::check(report);
    attached::check(report);
    sessions::check(report);
    llama_swap::check(report);
    containers::check(report, has_old_image);
    driver::check(report);
    stopped::check(report);
    restarts::check(report);
    reload::check(report);
    doctor::check(report);
    hardening::check(report);
    first_hour::check(report, screens);
    removal::check(report);
}

/// The packages that are installed, by name.
const PACKAGES: [&str; 3] = ["rtswap", "rtswap-simgpu", "librtswap-dev"];

/// An ordinary user, who owns the simulated GPU.
const USER: &str = "tester";
/// Another.
const OTHER: &str = "other";

/// Where the daemon's objects are.
const MANAGER: [&str; 3] = ["org.rtswap", "/org/rtswap", "org.rtswap.Manager1"];

/// `rtswapctl status --json` as the ordinary user.
fn status(machine: &Machine) -> Result<serde_json::Value> {
    machine
        .run_as(USER, &["rtswapctl", "status", "--json"])?
        .json()
}

/// The daemon's process; 0 while there is none.
fn main_pid(machine: &Machine) -> Result<u32> {
    let pid = machine.run(&[
        "systemctl",
        "show",
        "--property=MainPID",
        "--value",
        "rtswapd",
    ])?;
    Ok(pid.ok()?.trim().parse()?)
}

/// Whether the daemon is up and not `than`, an earlier one.
fn is_another(machine: &Machine, than: u32) -> Result<bool> {
    let active = machine.run(&["systemctl", "is-active", "rtswapd"])?;
    let now = main_pid(machine)?;
    Ok(active.stdout == "active\n" && now != 0 && now != than)
}
