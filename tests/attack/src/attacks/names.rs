//! What one user may learn of another's tasks.

use std::time::Duration;

use anyhow::{Result, ensure};
use rtswap_wire::hello::Hello;
use zerocopy::IntoBytes as _;

use crate::attack::{Attack, PLAIN};
use crate::attacker::Attacker;
use crate::attacker::wire::hello;
use crate::judge::Scene;
use crate::victims::{CAMERA, PAINTER, PLANNER};

const MIB: u64 = 1 << 20;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "read-objects-and-plan",
        act: read_all,
        judge: names_nobody,
        ..PLAIN
    },
    Attack {
        name: "read-status",
        act: read_status,
        judge: names_nobody,
        ..PLAIN
    },
    Attack {
        name: "read-signals",
        act: read_signals,
        judge: names_nobody,
        ..PLAIN
    },
    Attack {
        name: "read-refusals",
        act: read_refusals,
        judge: names_nobody,
        ..PLAIN
    },
];

/// Nothing that an attacker saw has the name of another user's task.
fn names_nobody(scene: &Scene) -> Result<()> {
    scene.was_tried()?;
    let texts = scene.texts();
    ensure!(!texts.is_empty(), "nothing was read");
    for name in [CAMERA, PLANNER, PAINTER] {
        let found = texts.iter().find(|text| text.contains(name));
        if let Some(text) = found {
            let at = text.find(name).unwrap_or_default();
            let around: String = text
                .get(at.saturating_sub(40)..)
                .unwrap_or(text)
                .chars()
                .take(160)
                .collect();
            anyhow::bail!("the attacker reads {name} in {around:?}");
        }
    }
    Ok(())
}

fn read_all(attacker: &mut Attacker) -> Result<()> {
    let bus = attacker.bus()?;
    while attacker.goes_on() {
        for text in bus.everything() {
            attacker.keep(text);
        }
        attacker.count("tried");
        std::thread::sleep(Duration::from_millis(500));
    }
    Ok(())
}

fn read_status(attacker: &mut Attacker) -> Result<()> {
    while attacker.goes_on() {
        let ctl = attacker.order.folder.join("bin/rtswapctl");
        let output = std::process::Command::new(ctl)
            .args(["status", "--json"])
            .output()?;
        attacker.keep(String::from_utf8_lossy(&output.stdout));
        attacker.keep(String::from_utf8_lossy(&output.stderr));
        attacker.count("tried");
        std::thread::sleep(Duration::from_millis(400));
    }
    Ok(())
}

/// All that is sent to a client that asked for objects once.
fn read_signals(attacker: &mut Attacker) -> Result<()> {
    let bus = attacker.bus()?;
    let mut heard = zbus::MessageStream::from(&bus.connection);
    // Objects are announced to those that asked once.
    drop(bus.everything());
    attacker.keep("signals follow");
    attacker.count("tried");
    while attacker.goes_on() {
        let next = bus.runtime.block_on(async {
            let soon = tokio::time::timeout(Duration::from_millis(100), next_of(&mut heard));
            soon.await.ok().flatten()
        });
        if let Some(message) = next
            && message.message_type() == zbus::message::Type::Signal
        {
            attacker.keep(String::from_utf8_lossy(message.body().data()));
        }
    }
    Ok(())
}

async fn next_of(stream: &mut zbus::MessageStream) -> Option<zbus::Message> {
    use zbus::export::ordered_stream::OrderedStreamExt as _;
    stream.next().await?.ok()
}

/// Asks for more than there is, by every door that says no.
fn read_refusals(attacker: &mut Attacker) -> Result<()> {
    let bus = attacker.bus()?;
    let named = Hello::new(hello().tid, Some(PAINTER))?;
    let mut session = attacker.session()?;
    while attacker.goes_on() {
        let _ = attacker.knock(hello().as_bytes(), &[]);
        if let Err(refusal) = attacker.try_knock(named.as_bytes(), &[]) {
            // It repeats what the attacker said.
            let text = refusal.to_string().replace(PAINTER, "");
            attacker.keep(text);
        }
        session.take(52 * MIB, Duration::from_millis(60));
        // `Waits` and what is refused say who holds what.
        for text in bus.everything().into_iter().skip(4) {
            attacker.keep(text);
        }
        attacker.count("tried");
    }
    Ok(())
}
