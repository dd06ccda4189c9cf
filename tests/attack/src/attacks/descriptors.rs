//! Everything of which the daemon has a bounded number.

use std::collections::HashMap;
use std::os::fd::AsFd as _;

use anyhow::{Result, ensure};
use rtswap_wire::hello::Hello;
use zerocopy::IntoBytes as _;

use crate::attack::{Attack, LONGER, PLAIN, Setting};
use crate::attacker::Attacker;
use crate::attacker::privileges::fork;
use crate::attacker::wire::hello;
use crate::judge::Scene;

use super::socket::others_come_in;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        span: LONGER,
        name: "descriptors-by-sessions",
        setting: Setting::FewDescriptors,
        attackers: 4,
        act: sessions,
        judge: descriptors_are_shared,
        ..PLAIN
    },
    Attack {
        span: LONGER,
        name: "descriptors-by-tasks",
        setting: Setting::FewDescriptors,
        attackers: 4,
        act: tasks_of_many_processes,
        judge: descriptors_are_shared,
        ..PLAIN
    },
    Attack {
        span: LONGER,
        name: "descriptors-by-connections",
        setting: Setting::FewDescriptors,
        attackers: 4,
        act: connections,
        judge: others_come_in,
        ..PLAIN
    },
];

/// Others still come in, and the refusal of the rest says why.
fn descriptors_are_shared(scene: &Scene) -> Result<()> {
    scene.was_tried()?;
    ensure!(
        scene.count("refused") > 0,
        "nobody was refused: {:?}",
        scene.said
    );
    scene.says(&["descriptor", "session", "process"])?;
    // Attackers have ended by now: what counts is how many descriptors were left, which the daemon's bounds say.
    others_come_in(scene)
}

fn sessions(attacker: &mut Attacker) -> Result<()> {
    let mut kept = Vec::new();
    while attacker.goes_on() {
        let me = rustix::process::getpid();
        let pidfd = rustix::process::pidfd_open(me, rustix::process::PidfdFlags::empty())?;
        kept.extend(attacker.knock(hello().as_bytes(), &[pidfd.as_fd()]));
    }
    Ok(())
}

/// Nine processes in each task.
fn tasks_of_many_processes(attacker: &mut Attacker) -> Result<()> {
    let bus = attacker.bus()?;
    let mut leases = Vec::new();
    let mut number = 0;
    let mut kept = Vec::new();
    while attacker.goes_on() {
        number += 1;
        let name = format!("crowd-{}-{number}", attacker.order.number);
        let lease = bus
            .runtime
            .block_on(bus.manager().register_with_lease(&name, HashMap::new()));
        attacker.tell(&lease);
        leases.extend(lease);
        for _ in 0..9 {
            let named = Hello::new(hello().tid, Some(&name))?;
            kept.extend(attacker.knock(named.as_bytes(), &[]));
        }
        // Others of the same task.
        fork(|| {
            let named = Hello::new(hello().tid, Some(&name));
            let session = named.map(|named| attacker.knock(named.as_bytes(), &[]));
            std::thread::sleep(std::time::Duration::from_secs(4));
            drop(session);
        })?;
    }
    Ok(())
}

fn connections(attacker: &mut Attacker) -> Result<()> {
    let (mut wires, mut streams) = (Vec::new(), Vec::new());
    while attacker.goes_on() {
        wires.extend(attacker.wire());
        streams.extend(attacker.greeted_bus());
        attacker.count("tried");
    }
    Ok(())
}
