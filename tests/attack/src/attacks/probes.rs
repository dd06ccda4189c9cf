//! Libraries that call themselves the driver, and what the probes count in them.

use std::ffi::{CString, c_int, c_ulong, c_ulonglong};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Program, wait_until};

use crate::attack::{Attack, LONGER, PLAIN, Setting};
use crate::attacker::Attacker;
use crate::attacker::privileges::{fork, reap};
use crate::judge::Scene;
use crate::stage::FAKE_DRIVER;
use crate::victims::{PAINTER, as_user, installed, on_machine};

/// Within this the probes must be on a driver that an honest user brings: young processes are looked at until they are
/// 6 s old, and a busy host may start one so slowly that only the last look finds the driver.
const SOON: Duration = Duration::from_secs(8);

const ALLOCATE: Attack = Attack {
    name: "fake-driver-allocates",
    span: LONGER,
    act: |attacker| allocate(attacker, 16 << 20, false),
    judge: Scene::capacity_did_not_fall,
    ..PLAIN
};

pub(super) const ATTACKS: &[Attack] = &[
    ALLOCATE,
    Attack {
        name: "fake-driver-without-nvml",
        setting: Setting::WithoutNvml,
        ..ALLOCATE
    },
    Attack {
        name: "fake-driver-absurd-sizes",
        act: |attacker| allocate(attacker, u64::MAX - 4_096, true),
        judge: Scene::capacity_did_not_fall,
        ..PLAIN
    },
    Attack {
        name: "probe-maps-filled",
        attackers: 4,
        span: Duration::from_secs(9),
        act: fill,
        judge: others_are_counted_exactly,
        ..PLAIN
    },
    Attack {
        name: "fake-driver-processes",
        attackers: 2,
        act: processes,
        judge: others_are_counted_exactly,
        ..PLAIN
    },
];

type Allocate = unsafe extern "C" fn(*mut c_ulonglong, c_ulong) -> c_int;
type Free = unsafe extern "C" fn(c_ulonglong) -> c_int;

/// A copy of the fake driver of its own.
struct Fake {
    allocate: Allocate,
    free: Free,
}

impl Fake {
    fn load(attacker: &Attacker) -> Result<Self> {
        let path = attacker.path("libcuda.so.1");
        if !path.exists() {
            fs::copy(attacker.order.folder.join(FAKE_DRIVER), &path)?;
        }
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: the library is ours and does nothing when it is loaded; both functions have these types.
        unsafe {
            let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
            ensure!(!library.is_null(), "the fake driver cannot be loaded");
            let function = |name: &std::ffi::CStr| {
                let function = libc::dlsym(library, name.as_ptr());
                (!function.is_null()).then_some(function)
            };
            let allocate = function(c"cuMemAlloc_v2").context("no cuMemAlloc_v2")?;
            let free = function(c"cuMemFree_v2").context("no cuMemFree_v2")?;
            Ok(Self {
                allocate: std::mem::transmute::<*mut libc::c_void, Allocate>(allocate),
                free: std::mem::transmute::<*mut libc::c_void, Free>(free),
            })
        }
    }

    fn take(&self, bytes: u64) -> u64 {
        let mut address = 0;
        // SAFETY: the function writes one address, to a local.
        unsafe { (self.allocate)(&raw mut address, bytes) };
        address
    }

    /// Takes memory and does not say where its address is to be written, which no probe can follow.
    fn take_unfollowed(&self, bytes: u64) {
        // SAFETY: the function writes no address where it is given none.
        unsafe { (self.allocate)(std::ptr::null_mut(), bytes) };
    }

    fn give(&self, address: u64) {
        // SAFETY: the function looks at its argument only.
        unsafe { (self.free)(address) };
    }
}

fn allocate(attacker: &mut Attacker, bytes: u64, frees: bool) -> Result<()> {
    let fake = Fake::load(attacker)?;
    // The probes come a moment after the library is mapped.
    std::thread::sleep(Duration::from_millis(400));
    while attacker.goes_on() {
        for number in 0..1_000 {
            let address = fake.take(bytes);
            if frees {
                fake.give(address.wrapping_add(number % 3));
            }
        }
        attacker.count("tried");
    }
    Ok(())
}

/// A share of all the places that the probes have for allocations, so that four fill them.
fn fill(attacker: &mut Attacker) -> Result<()> {
    const SHARE: u32 = 280_000;
    let fake = Fake::load(attacker)?;
    std::thread::sleep(Duration::from_millis(400));
    for _ in 0..SHARE {
        if !attacker.goes_on() {
            break;
        }
        fake.take(512);
    }
    attacker.count("tried");
    // While they are full, the victims swap.
    std::thread::sleep(Duration::from_millis(700));
    Ok(())
}

/// More processes than there are places for them, each with some allocations and one that cannot be followed, of which
/// the programs tell at its end.
fn processes(attacker: &mut Attacker) -> Result<()> {
    let fake = Fake::load(attacker)?;
    std::thread::sleep(Duration::from_millis(400));
    while attacker.goes_on() {
        let child = fork(|| {
            for _ in 0..8 {
                fake.take(4_096);
            }
            fake.take_unfollowed(4_096);
        })?;
        reap(child);
        attacker.count("tried");
    }
    Ok(())
}

/// A driver that an honest user brings is probed as soon as ever.
pub(super) fn probes_go_on(scene: &Scene) -> Result<()> {
    scene.was_tried()?;
    if scene.before["probes"]["state"] != "on" {
        // There are none on this machine, which the run has said.
        return Ok(());
    }
    let machine = &scene.stage.machine;
    let libraries = || machine.status().ok()?["probes"]["libraries"].as_u64();
    let before = scene.stage.libraries;
    wait_until("the attackers' drivers are given up", SOON, || {
        libraries() <= before
    })?;
    let folder = machine.path(&format!("honest-{}", scene.user));
    fs::create_dir(&folder)?;
    fs::copy(
        machine.driver_dir().join("libcuda.so.1"),
        folder.join("libcuda.so.1"),
    )?;
    let _program = honest(scene, Some(folder))?;
    wait_until("another user's driver is probed", SOON, || {
        libraries() > before
    })
}

/// What honest users hold is known to the byte.
fn others_are_counted_exactly(scene: &Scene) -> Result<()> {
    scene.was_tried()?;
    if scene.before["probes"]["state"] != "on" {
        return Ok(());
    }
    let exact = |status: &serde_json::Value| {
        let rows = status["processes"].as_array().cloned().unwrap_or_default();
        let row = rows.into_iter().find(|row| row["task"] == PAINTER);
        row.map(|row| row["probed"]["confidence"].clone())
    };
    let (before, after) = (exact(&scene.before), exact(&scene.after));
    ensure!(
        before == after,
        "the best-effort task was counted {before:?}, and is {after:?}"
    );
    let program = honest(scene, None)?;
    let machine = &scene.stage.machine;
    let mut row = None;
    let counted = wait_until("another user's program is counted exactly", SOON, || {
        let status = machine.status().unwrap_or_default();
        let rows = status["processes"].as_array().cloned().unwrap_or_default();
        row = rows.into_iter().find(|row| row["pid"] == program.pid());
        row.as_ref().is_some_and(|row| {
            let probed = &row["probed"];
            probed["confidence"] == "exact" && probed["bytes"].as_u64() > Some(0)
        })
    });
    counted.with_context(|| format!("it is seen as {row:?} and says {:?}", program.stderr()))
}

/// A program of another user that takes a little memory, with the driver in `folder`, else with the machine's.
fn honest(scene: &Scene, folder: Option<PathBuf>) -> Result<Program> {
    let machine = &scene.stage.machine;
    let program = as_user(scene.stage.bystander, installed(machine, "dnn"));
    let mut command: Command = on_machine(machine, program);
    command.args(["--memory", "512KiB", "--layers", "1", "--period", "200ms"]);
    if let Some(folder) = folder {
        command.env("LD_LIBRARY_PATH", folder);
    }
    Program::start(command)
}
