//! Hellos that claim what nobody has.

use std::time::Duration;

use anyhow::{Result, ensure};
use rtswap_wire::hello::DeviceState;
use rtswap_wire::page::{SwapOutcome, SwapReport, UsageReport};
use zerocopy::IntoBytes as _;

use crate::attack::{Attack, PLAIN, Setting};
use crate::attacker::Attacker;
use crate::attacker::wire::{hello, hello_on};
use crate::judge::Scene;

const MIB: u64 = 1 << 20;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "claim-resident",
        act: resident,
        judge: claims_are_charged_to_nobody,
        ..PLAIN
    },
    Attack {
        name: "claim-resident-reconnecting",
        act: reconnecting,
        judge: claims_are_charged_to_nobody,
        ..PLAIN
    },
    Attack {
        name: "claim-and-leave-in-words",
        attackers: WORDS_OF_LEAVING.len() as u32,
        span: Duration::from_millis(2_500),
        act: leave_in_words,
        judge: |scene| {
            for kind in WORDS_OF_LEAVING {
                let ordered = scene.count(kind);
                ensure!(
                    ordered > 0,
                    "{kind} was never told to leave: {:?}",
                    scene.said
                );
            }
            claims_are_charged_to_nobody(scene)
        },
        ..PLAIN
    },
    Attack {
        name: "claim-absurd",
        act: absurd,
        judge: claims_are_charged_to_nobody,
        ..PLAIN
    },
    Attack {
        name: "claim-gpus",
        act: gpus,
        judge: no_gpu_is_learned,
        ..PLAIN
    },
    Attack {
        name: "claim-gpus-without-nvml",
        setting: Setting::WithoutNvml,
        act: gpus,
        judge: no_gpu_is_learned,
        ..PLAIN
    },
];

/// Says Hello with a claim again and again, and keeps the sessions.
fn claim(
    attacker: &mut Attacker,
    change: impl Fn(&mut DeviceState, u64),
    resumed: bool,
) -> Result<()> {
    let uuid = attacker.uuid()?;
    let mut sessions = Vec::new();
    let mut number = 0;
    while attacker.goes_on() {
        let mut said = hello_on(uuid);
        change(&mut said.devices[0], number);
        if resumed {
            said.registration = number % 9 + 1;
            said.cookie = number + 1;
        }
        sessions.extend(attacker.knock(said.as_bytes(), &[]));
        sessions.truncate(32);
        number += 1;
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// 700 MiB of 768, as on a GPU of this size.
fn resident(attacker: &mut Attacker) -> Result<()> {
    claim(
        attacker,
        |device, _| device.resident_bytes = 58 * MIB,
        false,
    )
}

fn reconnecting(attacker: &mut Attacker) -> Result<()> {
    let change = |device: &mut DeviceState, number: u64| {
        device.resident_bytes = 40 * MIB;
        device.arena_bytes = 38 * MIB;
        device.chunk_bytes = 2 * MIB;
        device.requested = number as u32 + 1;
        device.granted = device.requested;
    };
    claim(attacker, change, true)
}

/// Answers to an order to leave, one for each attacker by its number.
const WORDS_OF_LEAVING: [&str; 3] = ["all-has-left", "nothing-has-left", "silence"];

/// Brings what no witness shows and there is no room for, and follows the order to leave only in words: says
/// that all has left, that nothing has, or nothing.
fn leave_in_words(attacker: &mut Attacker) -> Result<()> {
    let mut said = hello_on(attacker.uuid()?);
    let arena = 56 * MIB;
    let resident = arena + 2 * MIB;
    let device = &mut said.devices[0];
    (device.resident_bytes, device.arena_bytes) = (resident, arena);
    (device.backing_bytes, device.chunk_bytes) = (arena, 2 * MIB);
    let answer = WORDS_OF_LEAVING[attacker.order.number as usize];
    while attacker.goes_on() {
        let session = attacker.knock(said.as_bytes(), &[])?;
        let publish = |swapped_bytes| {
            let usage = UsageReport {
                resident_bytes: resident - swapped_bytes,
                swapped_bytes,
                arena_bytes: arena,
                ..UsageReport::default()
            };
            session.block().agent.restore(usage, arena, 0);
        };
        publish(0);
        session.ring();
        let mut followed = 0;
        while attacker.goes_on() && !session.is_over() {
            std::thread::sleep(Duration::from_millis(1));
            let Some(request) = session.block().daemon.swap_request() else {
                continue;
            };
            if request.seq == followed {
                continue;
            }
            followed = request.seq;
            attacker.count(answer);
            attacker.say()?;
            let moved_bytes = match answer {
                "all-has-left" => request.target_bytes,
                "nothing-has-left" => 0,
                _ => continue,
            };
            publish(moved_bytes);
            session.block().agent.end_swap(SwapReport {
                seq: request.seq,
                outcome: SwapOutcome::Done,
                ns: 1,
                moved_bytes,
            });
            session.ring();
        }
    }
    Ok(())
}

fn absurd(attacker: &mut Attacker) -> Result<()> {
    let change = |device: &mut DeviceState, number: u64| match number % 4 {
        0 => device.resident_bytes = u64::MAX,
        1 => (device.swapped_bytes, device.arena_bytes) = (u64::MAX, u64::MAX),
        2 => (device.backing_bytes, device.chunk_bytes) = (u64::MAX, 3),
        _ => (device.requested, device.granted, device.completed) = (1, u32::MAX, 77),
    };
    claim(attacker, change, false)
}

fn claims_are_charged_to_nobody(scene: &Scene) -> Result<()> {
    scene.was_tried()?;
    scene.capacity_did_not_fall()?;
    let used =
        |status: &serde_json::Value| status["gpus"][0]["used_bytes"].as_u64().unwrap_or_default();
    // The victims' own swaps move it by less.
    let most = used(&scene.before) + 24 * MIB;
    for status in &scene.during {
        let now = used(status);
        ensure!(
            now <= most,
            "{} MiB are charged, and {} before",
            now / MIB,
            used(&scene.before) / MIB
        );
    }
    Ok(())
}

/// Eight GPUs of 8 EiB, and never the same.
fn gpus(attacker: &mut Attacker) -> Result<()> {
    let mut number = 0_u8;
    let mut sessions = Vec::new();
    while attacker.goes_on() {
        let mut said = hello();
        for device in &mut said.devices {
            number = number.wrapping_add(1);
            device.uuid = [number, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
            device.memory_bytes = 8 << 60;
        }
        sessions.extend(attacker.knock(said.as_bytes(), &[]));
        sessions.truncate(8);
    }
    Ok(())
}

fn no_gpu_is_learned(scene: &Scene) -> Result<()> {
    scene.was_tried()?;
    let gpus = |status: &serde_json::Value| status["gpus"].as_array().map_or(0, Vec::len);
    let (before, after) = (gpus(&scene.before), gpus(&scene.after));
    ensure!(
        before == after,
        "{after} GPUs are known, and {before} before"
    );
    Ok(())
}
