//! What these tests share: the machine, and when they are possible.

use std::io::Write as _;
use std::time::Duration;

use rtswap_e2e::{Machine, MachineOptions};
use rtswap_probes_test::prologues::{self, Prologue};

/// For each wait.
pub(crate) const BOUND: Duration = Duration::from_mins(2);

/// A machine whose driver takes no modelled time, and is a file of its own: probes follow the file, and so see
/// no other test's programs.
pub(crate) fn machine() -> Machine {
    let machine = Machine::new(MachineOptions {
        memory_mib: 768,
        simgpu_toml: "create_us = 0\nmap_us = 0\naccess_us = 0\nunmap_us = 0\nrelease_us = 0\n\
                      scrub = false\n"
            .into(),
        ..MachineOptions::default()
    })
    .unwrap();
    let library = machine.driver_dir().join("libcuda.so.1");
    std::fs::remove_file(&library).unwrap();
    std::fs::copy(machine.binary("libsimgpu_cuda.so"), &library).unwrap();
    machine
}

/// The same, where each function of the driver begins so.
pub(crate) fn beginning(prologue: Prologue) -> Machine {
    let machine = machine();
    let (driver, behind) = (machine.driver_dir(), machine.path("behind.so"));
    std::fs::rename(driver.join("libcuda.so.1"), &behind).unwrap();
    prologues::build(prologue, &behind, &driver).unwrap();
    machine
}

/// `false`, said aloud, where the kernel or the user do not allow probes.
pub(crate) fn possible() -> bool {
    let missing = rtswap_probes_test::missing();
    if let Some(missing) = missing {
        skip(missing);
    }
    missing.is_none()
}

/// Says aloud that the test of this thread is skipped.
fn skip(why: &str) {
    let this = std::thread::current();
    let test = this.name().unwrap_or_default();
    // Not by a macro, whose words a test that passes keeps to itself.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
}
