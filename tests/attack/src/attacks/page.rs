//! Control pages full of nonsense.

use std::os::fd::AsFd as _;
use std::sync::atomic::Ordering::Release;
use std::time::Duration;

use anyhow::{Result, ensure};
use rtswap_wire::page::{KeptReport, SwapOutcome, SwapReport, UsageReport};
use rustix::fs::{FallocateFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate};

use crate::attack::{Attack, PLAIN};
use crate::attacker::Attacker;
use crate::attacker::page::{AGENT, AGENT_WORDS, BLOCK, Session, WORDS};
use crate::judge::Scene;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "page-absurd-wants",
        act: |attacker| with_session(attacker, absurd_wants),
        judge: no_budget_was_had,
        ..PLAIN
    },
    Attack {
        name: "page-numbers-backwards",
        act: |attacker| with_session(attacker, numbers_backwards),
        judge: Scene::was_tried,
        ..PLAIN
    },
    Attack {
        name: "page-absurd-usage",
        act: |attacker| with_session(attacker, absurd_usage),
        judge: Scene::capacity_did_not_fall,
        ..PLAIN
    },
    Attack {
        name: "page-absurd-kept",
        act: |attacker| with_session(attacker, absurd_kept),
        judge: Scene::capacity_did_not_fall,
        ..PLAIN
    },
    Attack {
        name: "page-swaps-never-asked-for",
        act: |attacker| with_session(attacker, swaps_never_asked_for),
        judge: Scene::was_tried,
        ..PLAIN
    },
    Attack {
        name: "page-fault-words",
        act: |attacker| with_session(attacker, fault_words),
        judge: Scene::was_tried,
        ..PLAIN
    },
    Attack {
        name: "page-random-words",
        attackers: 2,
        act: |attacker| with_session(attacker, random_words),
        judge: Scene::capacity_did_not_fall,
        ..PLAIN
    },
    Attack {
        name: "page-words-of-the-daemon",
        act: |attacker| with_session(attacker, words_of_the_daemon),
        judge: Scene::capacity_did_not_fall,
        ..PLAIN
    },
    Attack {
        name: "page-truncated",
        act: |attacker| with_session(attacker, truncate),
        judge: Scene::all_refused,
        ..PLAIN
    },
    Attack {
        name: "page-doorbell-flood",
        attackers: 2,
        act: |attacker| with_session(attacker, doorbells),
        judge: Scene::was_tried,
        ..PLAIN
    },
];

/// What is done over and over to a session.
type Do = fn(&mut Session, u64, &mut Attacker) -> Result<()>;

/// Does it until the time is over; comes anew where the daemon ended the session.
fn with_session(attacker: &mut Attacker, act: Do) -> Result<()> {
    let mut session = attacker.session()?;
    // From here on only what is done to the page counts.
    attacker.forget("taken");
    let mut number = 0;
    while attacker.goes_on() {
        number += 1;
        act(&mut session, number, attacker)?;
        attacker.count("tried");
        if number % 1_000 == 0 && session.is_over() {
            session = attacker.session()?;
            attacker.forget("taken");
        }
    }
    Ok(())
}

fn absurd_wants(session: &mut Session, number: u64, attacker: &mut Attacker) -> Result<()> {
    let bytes = [u64::MAX, 1 << 63, 65 << 20, 1 << 40][number as usize % 4];
    if session.take(bytes, Duration::from_millis(5)) {
        attacker.count("taken");
    }
    Ok(())
}

fn no_budget_was_had(scene: &Scene) -> Result<()> {
    scene.was_tried()?;
    ensure!(
        scene.count("taken") == 0,
        "a budget beyond the GPU was granted"
    );
    scene.capacity_did_not_fall()
}

fn numbers_backwards(session: &mut Session, number: u64, _: &mut Attacker) -> Result<()> {
    let number = number as u32;
    session.set(1, number % 4);
    session.set(0, u32::MAX - number);
    session.set(2, number.wrapping_mul(0x9e37_79b9));
    session.ring();
    Ok(())
}

fn absurd_usage(session: &mut Session, number: u64, _: &mut Attacker) -> Result<()> {
    let huge = u64::MAX - number;
    let usage = UsageReport {
        resident_bytes: if number.is_multiple_of(2) {
            huge
        } else {
            60 << 20
        },
        swapped_bytes: huge,
        arena_bytes: if number.is_multiple_of(3) { 0 } else { huge },
        peak_bytes: huge,
    };
    session.block().agent.restore(usage, huge, number as u32);
    session.ring();
    Ok(())
}

fn absurd_kept(session: &mut Session, number: u64, _: &mut Attacker) -> Result<()> {
    let kept = KeptReport {
        processes_bytes: u64::MAX - number,
        devices_bytes: u64::MAX,
    };
    session.block().agent.set_kept(kept);
    session.ring();
    Ok(())
}

fn swaps_never_asked_for(session: &mut Session, number: u64, _: &mut Attacker) -> Result<()> {
    const OUTCOMES: [SwapOutcome; 5] = [
        SwapOutcome::Done,
        SwapOutcome::Aborted,
        SwapOutcome::OutOfMemory,
        SwapOutcome::Undrainable,
        SwapOutcome::Failed,
    ];
    let report = SwapReport {
        seq: number as u32,
        outcome: OUTCOMES[number as usize % OUTCOMES.len()],
        ns: u64::MAX,
        moved_bytes: u64::MAX,
    };
    session.block().agent.end_swap(report);
    session
        .block()
        .agent
        .confirm_volume(number as u32, u64::MAX);
    session.ring();
    Ok(())
}

fn fault_words(session: &mut Session, number: u64, _: &mut Attacker) -> Result<()> {
    session.block().agent.set_fault(u32::MAX - number as u32);
    session.set(17, number as u32);
    session.set(16, number as u32);
    session.ring();
    Ok(())
}

fn random_words(session: &mut Session, number: u64, _: &mut Attacker) -> Result<()> {
    let mut word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for at in 0..AGENT_WORDS {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        session.set(at, word as u32);
    }
    session.ring();
    Ok(())
}

/// The page is shared both ways: what the daemon wrote there is no witness for it.
fn words_of_the_daemon(session: &mut Session, number: u64, _: &mut Attacker) -> Result<()> {
    let words = session.words();
    for word in words.iter().take(AGENT).skip(BLOCK).chain(&words[..4]) {
        word.store(u32::MAX - number as u32, Release);
    }
    for word in &words[WORDS - 64..] {
        word.store(number as u32, Release);
    }
    // As much as the page says that it may.
    session.set(32, u32::MAX);
    session.ring();
    Ok(())
}

/// Without its bytes the daemon's own reads would end it.
fn truncate(session: &mut Session, _: u64, attacker: &mut Attacker) -> Result<()> {
    let tried = [
        ftruncate(&session.memfd, 0),
        ftruncate(&session.memfd, 1 << 40),
        fcntl_add_seals(&session.memfd, SealFlags::WRITE),
    ];
    for tried in &tried {
        attacker.tell(tried);
    }
    // A hole is full of zeros, which are words like others.
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let _ = fallocate(session.memfd.as_fd(), flags, 0, 4096);
    session.ring();
    Ok(())
}

fn doorbells(session: &mut Session, number: u64, _: &mut Attacker) -> Result<()> {
    let most = (u64::MAX - 1).to_ne_bytes();
    for _ in 0..16 {
        let _ = match number % 2 {
            0 => rustix::io::write(&session.bell, &most),
            _ => rustix::io::write(&session.bell, &1_u64.to_ne_bytes()),
        };
    }
    // Someone has to empty it, or it rings once only.
    let _ = rustix::io::read(&session.bell, &mut [0; 8]);
    Ok(())
}
