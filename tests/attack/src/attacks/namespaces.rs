//! User and PID namespaces, in which anybody is root, or many users.

use std::collections::HashMap;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use zbus::Variant;

use crate::attack::{Attack, PLAIN};
use crate::attacker::Attacker;
use crate::attacker::bus::{Bus, options};
use crate::attacker::files::map;
use crate::attacker::privileges::{fork, reap};
use crate::crew::USERS;
use crate::judge::Scene;

const MIB: u64 = 1 << 20;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "namespace-root-registers",
        act: root_registers,
        judge: Scene::all_refused,
        ..PLAIN
    },
    Attack {
        name: "namespace-root-reloads",
        act: root_reloads,
        judge: Scene::all_refused,
        ..PLAIN
    },
    Attack {
        name: "namespace-of-pids",
        act: pids,
        judge: Scene::was_tried,
        ..PLAIN
    },
    Attack {
        name: "namespace-of-mounts",
        act: mounts,
        judge: Scene::was_tried,
        ..PLAIN
    },
    Attack {
        name: "subordinate-users",
        span: Duration::from_secs(2),
        users: USERS,
        prepare: lend_users,
        act: subordinate_users,
        painted: 2,
        judge: Scene::was_tried,
        ..PLAIN
    },
];

/// Makes a user namespace with these others.
fn unshare(flags: UnshareFlags) -> Result<()> {
    // SAFETY: this process has one thread, whose descriptors stay shared with nobody.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER | flags) }.context("unshare")
}

/// Becomes root of a namespace of its own.
fn become_root(attacker: &Attacker, flags: UnshareFlags) -> Result<()> {
    let user = attacker.order.user;
    unshare(flags)?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("0 {user} 1"))?;
    ensure!(rustix::process::geteuid().is_root(), "still nobody");
    Ok(())
}

/// A connection of that root, if it gets one: it is not the user that it says it is.
fn root_comes_in(attacker: &mut Attacker) -> Option<Bus> {
    let bus = attacker.bus();
    if bus.is_err() {
        attacker.tell(&bus);
    }
    bus.ok()
}

fn root_registers(attacker: &mut Attacker) -> Result<()> {
    become_root(attacker, UnshareFlags::empty())?;
    let Some(bus) = root_comes_in(attacker) else {
        return Ok(());
    };
    while attacker.goes_on() {
        let options = options([
            ("period_us", Variant::from(1_000_000_u64)),
            ("wcet_us", Variant::from(1_000_u64)),
            ("footprint", Variant::from("4MiB")),
            ("swappable", Variant::from(0_u64)),
        ]);
        let _ = attacker.register(&bus, "root-of-nothing", options);
        std::thread::sleep(Duration::from_millis(30));
    }
    Ok(())
}

fn root_reloads(attacker: &mut Attacker) -> Result<()> {
    become_root(attacker, UnshareFlags::empty())?;
    let Some(bus) = root_comes_in(attacker) else {
        return Ok(());
    };
    while attacker.goes_on() {
        let reloaded = bus.runtime.block_on(bus.manager().reload());
        attacker.tell(&reloaded);
        let unregistered = bus
            .runtime
            .block_on(bus.manager().unregister(&rtswap_dbus::task_path(1)));
        attacker.tell(&unregistered);
        std::thread::sleep(Duration::from_millis(30));
    }
    Ok(())
}

/// Each session's process is the first of its namespace.
fn pids(attacker: &mut Attacker) -> Result<()> {
    become_root(attacker, UnshareFlags::NEWPID)?;
    while attacker.goes_on() {
        // Only the first child can be made: with it the namespace ends.
        let Ok(child) = fork(|| {
            if let Ok(mut session) = attacker.session() {
                session.take(2 * MIB, Duration::from_millis(50));
                session.job(1, Duration::from_millis(50));
            }
        }) else {
            attacker.stay();
            break;
        };
        reap(child);
        attacker.count("tried");
    }
    Ok(())
}

/// A driver at a path that leads elsewhere in the daemon's own namespace.
fn mounts(attacker: &mut Attacker) -> Result<()> {
    let driver = attacker.copy_driver("libcuda.so.1")?;
    become_root(attacker, UnshareFlags::NEWNS)?;
    let room = attacker.order.room.clone();
    let bound = bind(&room, "/etc");
    attacker.tell(&bound);
    let path = if bound.is_ok() {
        "/etc/libcuda.so.1".into()
    } else {
        driver
    };
    attacker.churn(2, |_| {
        let _ = map(&path);
        std::thread::sleep(Duration::from_millis(150));
    })
}

fn bind(from: &std::path::Path, to: &str) -> Result<()> {
    let c = |text: &str| std::ffi::CString::new(text);
    let (from, to) = (c(&from.to_string_lossy())?, c(to)?);
    let none = std::ptr::null();
    // SAFETY: both paths are C strings that outlive the call, and the kernel needs no other.
    let result =
        unsafe { libc::mount(from.as_ptr(), to.as_ptr(), none, libc::MS_BIND, none.cast()) };
    ensure!(result == 0, "mount: {}", std::io::Error::last_os_error());
    Ok(())
}

/// Does what newuidmap(1) would for a user with subordinate ids: the helper stays root, waits for a child of the
/// attacker, and gives it a range of users.
fn lend_users(attacker: &mut Attacker) -> Result<()> {
    let user = attacker.order.user;
    let (asked, ask) = rustix::pipe::pipe()?;
    fork(|| {
        let mut pid = [0; 4];
        if std::fs::File::from(asked).read_exact(&mut pid).is_ok() {
            let pid = i32::from_ne_bytes(pid);
            let more = USERS - 1;
            let map = format!("0 {user} 1\n1 {} {more}", user + 1);
            let _ = std::fs::write(format!("/proc/{pid}/uid_map"), &map);
            let _ = std::fs::write(format!("/proc/{pid}/gid_map"), &map);
        }
    })?;
    attacker.lend(ask);
    Ok(())
}

/// Ignores revokes as one user after the other.
fn subordinate_users(attacker: &mut Attacker) -> Result<()> {
    let ask: OwnedFd = attacker.lent().context("no helper")?;
    unshare(UnshareFlags::empty())?;
    rustix::io::write(&ask, &std::process::id().to_ne_bytes())?;
    while std::fs::read_to_string("/proc/self/uid_map")?
        .trim()
        .is_empty()
    {
        ensure!(attacker.goes_on(), "nobody maps users");
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut number = 0;
    while attacker.goes_on() {
        number = (number + 1) % USERS;
        let child = fork(|| {
            // SAFETY: a plain call that changes this child's own credentials.
            unsafe { libc::setresuid(number, number, number) };
            let Ok(mut session) = attacker.session() else {
                return;
            };
            let holds = session.take(2 * MIB, Duration::from_millis(200))
                && session.job(1, Duration::from_millis(400));
            if holds {
                std::thread::sleep(Duration::from_millis(380));
            }
            let bus = attacker.bus();
            if let Ok(bus) = bus {
                let _ = attacker.register(&bus, "subordinate", HashMap::new());
            }
        })?;
        reap(child);
        attacker.count("tried");
    }
    Ok(())
}
