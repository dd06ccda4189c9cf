//! Processes that stand still.

use std::time::Duration;

use anyhow::Result;

use crate::attack::{Attack, PLAIN};
use crate::attacker::Attacker;
use crate::attacker::privileges::{fork, signal};
use crate::judge::Scene;

const MIB: u64 = 1 << 20;

/// What fits beside a stopped program goes on within 2 s: one job in 120 ms, but for that time. It is half of the time of
/// such an attack and more.
const BESIDE_STOPPED: usize = 6;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "stopped-in-a-job",
        span: Duration::from_secs(4),
        act: |attacker| stopped(attacker, true),
        painted: BESIDE_STOPPED,
        judge: Scene::was_tried,
        ..PLAIN
    },
    Attack {
        name: "stopped-beside-jobs",
        span: Duration::from_millis(2_500),
        act: |attacker| stopped(attacker, false),
        painted: BESIDE_STOPPED,
        judge: Scene::was_tried,
        ..PLAIN
    },
    Attack {
        name: "stopped-and-continued",
        span: Duration::from_millis(1_500),
        act: stopped_and_continued,
        painted: 3,
        ..PLAIN
    },
];

/// A best-effort program that is stopped, as by Ctrl-Z.
fn stopped(attacker: &mut Attacker, in_a_job: bool) -> Result<()> {
    let child = fork(|| {
        // The process of the session is the one that stops.
        let Ok(mut session) = attacker.session() else {
            return;
        };
        if session.take(4 * MIB, Duration::from_millis(500)) && in_a_job {
            session.job(1, Duration::from_millis(800));
        }
        signal(
            rustix::process::getpid().as_raw_nonzero().get(),
            libc::SIGSTOP,
        );
    })?;
    attacker.count("tried");
    attacker.stay();
    signal(child, libc::SIGKILL);
    Ok(())
}

fn stopped_and_continued(attacker: &mut Attacker) -> Result<()> {
    let child = fork(|| {
        let Ok(mut session) = attacker.session() else {
            return;
        };
        session.take(4 * MIB, Duration::from_millis(300));
        let mut seq = 0;
        loop {
            seq += 1;
            session.job(seq, Duration::from_millis(50));
            session.block().agent.complete_job(seq);
            session.ring();
        }
    })?;
    while attacker.goes_on() {
        for which in [libc::SIGSTOP, libc::SIGCONT] {
            signal(child, which);
            std::thread::sleep(Duration::from_millis(35));
        }
        attacker.count("tried");
    }
    signal(child, libc::SIGKILL);
    Ok(())
}
