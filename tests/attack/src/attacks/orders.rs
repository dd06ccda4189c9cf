//! Clients that do not do what the daemon asks for.

use std::time::Duration;

use anyhow::{Result, ensure};
use rtswap_wire::page::{JobKind, SwapOutcome, SwapReport};
use zerocopy::IntoBytes as _;

use crate::attack::{Attack, PLAIN};
use crate::attacker::Attacker;
use crate::attacker::page::Session;
use crate::attacker::privileges::{fork, reap, signal};
use crate::attacker::wire::hello_on;
use crate::judge::Scene;

const MIB: u64 = 1 << 20;

/// What the simulated GPU takes for a context: the least that a program needs.
const CONTEXT: u64 = 2 * MIB;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "revokes-ignored",
        attackers: 4,
        span: Duration::from_millis(2_500),
        act: ignore_revokes,
        painted: 2,
        ..PLAIN
    },
    Attack {
        name: "revokes-ignored-by-one",
        span: Duration::from_secs(2),
        act: |attacker| {
            let _held = hold(attacker, 8 * MIB)?;
            attacker.stay();
            Ok(())
        },
        painted: 2,
        ..PLAIN
    },
    Attack {
        name: "swaps-ignored",
        attackers: 2,
        act: |attacker| ignore_swaps(attacker, u64::MAX),
        painted: 2,
        ..PLAIN
    },
    Attack {
        name: "swaps-ignored-by-many",
        attackers: 12,
        act: |attacker| ignore_swaps(attacker, CONTEXT),
        judge: |scene| {
            let held = scene.count("held");
            ensure!(held >= 4, "{held} processes held memory: {:?}", scene.said);
            Ok(())
        },
        painted: 2,
        ..PLAIN
    },
    Attack {
        name: "sessions-closed-with-budgets",
        span: Duration::from_secs(2),
        act: close_with_budget,
        painted: 2,
        judge: lost_memory_came_back,
        ..PLAIN
    },
    Attack {
        name: "orders-dodged",
        span: Duration::from_secs(2),
        act: dodge,
        judge: |scene| {
            ensure!(scene.count("held") > 0, "no budget: {:?}", scene.said);
            Ok(())
        },
        painted: 2,
        ..PLAIN
    },
    Attack {
        name: "jobs-stormed",
        attackers: 2,
        act: storm_jobs,
        painted: 2,
        judge: Scene::was_tried,
        ..PLAIN
    },
    Attack {
        name: "bells-stormed",
        span: Duration::from_secs(2),
        act: |attacker| storm_bells(attacker, false),
        takes_memory: true,
        painted: 2,
        judge: bells_were_stormed,
        ..PLAIN
    },
    Attack {
        name: "bells-stormed-with-jobs",
        span: Duration::from_secs(2),
        act: |attacker| storm_bells(attacker, true),
        takes_memory: true,
        painted: 2,
        judge: bells_were_stormed,
        ..PLAIN
    },
    Attack {
        name: "killed-in-jobs",
        attackers: 2,
        act: killed_in_jobs,
        painted: 2,
        judge: Scene::was_tried,
        ..PLAIN
    },
    Attack {
        name: "wants-stormed",
        attackers: 2,
        act: storm_wants,
        takes_memory: true,
        painted: 2,
        judge: Scene::was_tried,
        ..PLAIN
    },
    Attack {
        name: "swappable-in-words-only",
        act: swappable_in_words,
        painted: 2,
        ..PLAIN
    },
];

/// A session with a budget and a job that is running, or none if none was granted in time.
fn hold(attacker: &mut Attacker, bytes: u64) -> Result<Option<Session>> {
    let mut session = attacker.session()?;
    let holds = session.take(bytes, Duration::from_millis(300))
        && session.job(1, Duration::from_millis(600));
    if holds {
        attacker.count("held");
    }
    Ok(holds.then_some(session))
}

/// Each process holds a job past its revoke, ends when the daemon has given it up, and another one comes.
fn ignore_revokes(attacker: &mut Attacker) -> Result<()> {
    while attacker.goes_on() {
        let child = fork(|| {
            if let Ok(Some(_held)) = hold(attacker, CONTEXT) {
                std::thread::sleep(Duration::from_millis(380));
            }
        })?;
        reap(child);
        attacker.count("tried");
    }
    Ok(())
}

/// Takes what there is up to `most`, and never gives it back.
fn ignore_swaps(attacker: &mut Attacker, most: u64) -> Result<()> {
    let mut session = attacker.session()?;
    let mut bytes = 0;
    while attacker.goes_on() && bytes < most {
        if session.take(bytes + 2 * MIB, Duration::from_millis(50)) {
            bytes += 2 * MIB;
        }
        attacker.count("tried");
    }
    if bytes >= most {
        attacker.count("held");
        // The daemon may kill it.
        attacker.say()?;
        attacker.stay();
    }
    Ok(())
}

/// Closes its session each time that it is told to swap out, and resumes it at once: the order is gone.
fn dodge(attacker: &mut Attacker) -> Result<()> {
    const HELD: u64 = 20 * MIB;
    let mut session = attacker.session()?;
    if !session.take(HELD, Duration::from_millis(500)) {
        return Ok(());
    }
    attacker.count("held");
    // The daemon may kill it.
    attacker.say()?;
    let mut said = hello_on(attacker.uuid()?);
    (said.registration, said.cookie) = session.ticket;
    let device = &mut said.devices[0];
    (device.resident_bytes, device.arena_bytes) = (HELD, HELD);
    (device.backing_bytes, device.chunk_bytes) = (HELD, 2 * MIB);
    while attacker.goes_on() {
        if session.block().daemon.swap_request().is_some() {
            drop(session);
            session = attacker.knock(said.as_bytes(), &[])?;
            (said.registration, said.cookie) = session.ticket;
            attacker.count("dodged");
        }
        session.confirm();
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}

/// Gets budgets for all that there is, closes its sessions and lives on.
fn close_with_budget(attacker: &mut Attacker) -> Result<()> {
    let mut bytes = CONTEXT;
    while attacker.goes_on() && bytes > 0 {
        let mut session = attacker.session()?;
        bytes = [20 * MIB, 8 * MIB, CONTEXT, 0]
            .into_iter()
            .find(|bytes| *bytes == 0 || session.take(*bytes, Duration::from_millis(150)))
            .unwrap_or_default();
        if bytes > 0 {
            attacker.count("held");
        }
    }
    // The daemon may kill it.
    attacker.say()?;
    attacker.stay();
    Ok(())
}

/// Realtime lacked that memory for a moment at most.
fn lost_memory_came_back(scene: &Scene) -> Result<()> {
    ensure!(scene.count("held") > 0, "no budget: {:?}", scene.said);
    let last = scene.during.last().unwrap_or(&scene.after);
    let tasks = last["tasks"].as_array();
    let lost = tasks
        .into_iter()
        .flatten()
        .filter(|task| task["phase"] == "lost");
    let held: u64 = lost.filter_map(|task| task["budget_bytes"].as_u64()).sum();
    ensure!(held == 0, "closed sessions still hold {} MiB", held / MIB);
    Ok(())
}

fn storm_jobs(attacker: &mut Attacker) -> Result<()> {
    let mut session = attacker.session()?;
    session.take(CONTEXT, Duration::from_millis(300));
    let mut seq = 0;
    while attacker.goes_on() {
        seq += 1;
        session.job(seq, Duration::from_millis(100));
        session.block().agent.complete_job(seq);
        session.ring();
        attacker.count("tried");
    }
    Ok(())
}

/// Changes what all sessions of one process want as fast as it can, and rings for each. With jobs it also asks for a
/// next one before the daemon has seen the last, which makes no sense.
fn storm_bells(attacker: &mut Attacker, with_jobs: bool) -> Result<()> {
    const SESSIONS: usize = 100;
    let mut sessions = Vec::new();
    while attacker.goes_on() && sessions.len() < SESSIONS {
        let Ok(session) = attacker.session() else {
            break;
        };
        attacker.count("sessions");
        sessions.push(session);
    }
    let mut number = 0;
    while attacker.goes_on() {
        number += 1;
        for session in &mut sessions {
            let agent = &session.block().agent;
            agent.want(CONTEXT + u64::from(number) % 24 * MIB);
            if with_jobs {
                agent.complete_job(number - 1);
                agent.request_job(number, JobKind::Declared);
            }
            session.ring();
            session.confirm();
        }
        attacker.count("rounds");
        if number == 1 {
            // The daemon may kill it.
            attacker.say()?;
        }
    }
    Ok(())
}

fn bells_were_stormed(scene: &Scene) -> Result<()> {
    let sessions = scene.count("sessions");
    ensure!(sessions >= 10, "{sessions} sessions: {:?}", scene.said);
    ensure!(scene.count("rounds") > 0, "none was rung: {:?}", scene.said);
    Ok(())
}

fn killed_in_jobs(attacker: &mut Attacker) -> Result<()> {
    while attacker.goes_on() {
        let child = fork(|| {
            let _held = hold(attacker, CONTEXT);
            std::thread::sleep(Duration::from_secs(5));
        })?;
        std::thread::sleep(Duration::from_millis(60));
        signal(child, libc::SIGKILL);
        reap(child);
        attacker.count("tried");
    }
    Ok(())
}

fn storm_wants(attacker: &mut Attacker) -> Result<()> {
    let mut session = attacker.session()?;
    let mut number = 0;
    while attacker.goes_on() {
        number += 1;
        session.block().agent.want(CONTEXT + number % 24 * MIB);
        session.ring();
        session.confirm();
        attacker.count("tried");
    }
    Ok(())
}

/// Says that all of it may leave, and acknowledges each order without having moved a byte.
fn swappable_in_words(attacker: &mut Attacker) -> Result<()> {
    let mut session = attacker.session()?;
    session.take(12 * MIB, Duration::from_millis(300));
    let mut seq = 0;
    while attacker.goes_on() {
        if let Some(order) = session.block().daemon.swap_request()
            && order.seq != seq
        {
            seq = order.seq;
            session.block().agent.end_swap(SwapReport {
                seq,
                outcome: SwapOutcome::Done,
                ns: 1,
                moved_bytes: order.target_bytes,
            });
            session.ring();
            attacker.count("tried");
        }
        session.confirm();
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
