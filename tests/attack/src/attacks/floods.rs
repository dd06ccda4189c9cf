//! Much of what is allowed once.

use std::os::fd::AsFd as _;
use std::time::Duration;

use anyhow::Result;
use rtswap_wire::page::UsageReport;
use zerocopy::IntoBytes as _;

use crate::attack::{Attack, PLAIN};
use crate::attacker::Attacker;
use crate::attacker::files::map;
use crate::attacker::wire::hello;
use crate::judge::Scene;

use super::socket::others_come_in;

const MIB: u64 = 1 << 20;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "log-flood-by-refusals",
        attackers: 4,
        act: log_refusals,
        judge: others_come_in,
        ..PLAIN
    },
    Attack {
        name: "log-flood-by-violations",
        attackers: 4,
        act: log_violations,
        judge: Scene::was_tried,
        ..PLAIN
    },
    Attack {
        name: "log-escapes-in-names",
        act: log_escapes,
        judge: Scene::was_tried,
        ..PLAIN
    },
    Attack {
        name: "hello-and-bye",
        attackers: 4,
        act: hello_and_bye,
        judge: others_come_in,
        ..PLAIN
    },
    Attack {
        name: "calls-flooded",
        attackers: 4,
        act: calls,
        judge: others_come_in,
        ..PLAIN
    },
    Attack {
        name: "reads-flooded",
        attackers: 4,
        act: reads,
        judge: others_come_in,
        ..PLAIN
    },
    Attack {
        name: "processes-churned",
        attackers: 2,
        act: processes,
        judge: Scene::was_tried,
        ..PLAIN
    },
    Attack {
        name: "signals-queued",
        attackers: 2,
        act: signals,
        judge: Scene::was_tried,
        ..PLAIN
    },
];

fn log_refusals(attacker: &mut Attacker) -> Result<()> {
    let good = hello();
    let mut bad = good;
    let mut number = 0_u32;
    while attacker.goes_on() {
        number += 1;
        bad.version = 2 + (number % 1_000) as u16;
        let packets: [&[u8]; 3] = [
            b"GET / HTTP/1.1\r\n\r\n",
            bad.as_bytes(),
            b"\x1b[31m\x1b]0;x\x07",
        ];
        if let Ok(wire) = attacker.wire() {
            let _ = wire.send(packets[number as usize % 3], &[]);
        }
        attacker.count("tried");
    }
    Ok(())
}

/// Sessions that break a promise each, and go.
fn log_violations(attacker: &mut Attacker) -> Result<()> {
    while attacker.goes_on() {
        let Ok(mut session) = attacker.session() else {
            continue;
        };
        let usage = UsageReport {
            resident_bytes: u64::MAX,
            ..UsageReport::default()
        };
        session.block().agent.restore(usage, u64::MAX, u32::MAX);
        session.block().agent.confirm_volume(77, u64::MAX);
        session.set(0, 5);
        session.set(1, 1);
        session.ring();
        session.job(7, Duration::from_millis(2));
    }
    Ok(())
}

/// The kernel lets a process name itself as it likes.
fn log_escapes(attacker: &mut Attacker) -> Result<()> {
    let name = c"\x1b[31m\x1b]0;\x07\n";
    // SAFETY: the name is a C string that outlives the call.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0) };
    log_violations(attacker)
}

fn hello_and_bye(attacker: &mut Attacker) -> Result<()> {
    while attacker.goes_on() {
        let me = rustix::process::getpid();
        let pidfd = rustix::process::pidfd_open(me, rustix::process::PidfdFlags::empty())?;
        let _ = attacker.knock(hello().as_bytes(), &[pidfd.as_fd()]);
    }
    Ok(())
}

fn calls(attacker: &mut Attacker) -> Result<()> {
    let buses: Vec<_> = (0..16).filter_map(|_| attacker.bus().ok()).collect();
    while attacker.goes_on() {
        for bus in &buses {
            let plan = bus.runtime.block_on(bus.manager().plan());
            attacker.tell(&plan);
        }
    }
    Ok(())
}

fn reads(attacker: &mut Attacker) -> Result<()> {
    while attacker.goes_on() {
        if let Ok(bus) = attacker.bus() {
            drop(bus.everything());
        }
        attacker.count("tried");
    }
    Ok(())
}

/// Processes that map a driver, and are gone before anyone looks.
fn processes(attacker: &mut Attacker) -> Result<()> {
    let driver = attacker.copy_driver("libcuda.so.1")?;
    attacker.churn(8, |number| {
        let _ = map(&driver);
        if number % 2 == 0 {
            let _ = std::process::Command::new("/bin/true").status();
        }
    })
}

/// With a full queue no doorbell can be queued; the page is the truth.
fn signals(attacker: &mut Attacker) -> Result<()> {
    // SAFETY: plain calls on this thread's own mask, with a local of the right type.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigfillset(&raw mut set);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
    let mut session = attacker.session()?;
    let me = rustix::process::getpid().as_raw_nonzero().get();
    while attacker.goes_on() {
        for signal in [libc::SIGUSR1, libc::SIGUSR2, libc::SIGRTMIN()] {
            let value = libc::sigval {
                sival_ptr: std::ptr::null_mut(),
            };
            // SAFETY: a plain call.
            unsafe { libc::sigqueue(me, signal, value) };
        }
        // The daemon answers, and asks for a backing store, by doorbells.
        session.block().agent.want(2 * MIB);
        session.ring();
        session.confirm();
        attacker.count("tried");
    }
    Ok(())
}
