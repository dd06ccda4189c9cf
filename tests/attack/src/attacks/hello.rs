//! First words on the agent socket that no agent says.

use std::os::fd::AsFd as _;

use anyhow::{Result, ensure};
use rtswap_wire::hello::{DeviceState, Hello};
use zerocopy::IntoBytes as _;

use crate::attack::{Attack, PLAIN};
use crate::attacker::Attacker;
use crate::attacker::wire::{MOST_FDS, hello, hello_on};
use crate::judge::Scene;
use crate::victims::CAMERA;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "hello-truncated",
        act: truncated,
        judge: Scene::all_refused,
        ..PLAIN
    },
    Attack {
        name: "hello-oversized",
        act: oversized,
        judge: Scene::all_refused,
        ..PLAIN
    },
    Attack {
        name: "hello-other-version",
        act: |attacker| {
            each(attacker, |hello, number| {
                hello.version = number.wrapping_add(2) as u16;
            })
        },
        judge: |scene| {
            scene.all_refused()?;
            scene.says(&["speaks 1 to 1"])
        },
        ..PLAIN
    },
    Attack {
        name: "hello-reserved-bits",
        act: reserved_bits,
        judge: Scene::all_refused,
        ..PLAIN
    },
    Attack {
        name: "hello-odd-names",
        act: odd_names,
        judge: Scene::all_refused,
        ..PLAIN
    },
    Attack {
        name: "hello-name-of-another",
        act: name_of_another,
        judge: Scene::all_refused,
        ..PLAIN
    },
    Attack {
        name: "hello-session-of-another",
        act: session_of_another,
        judge: session_is_not_resumed,
        ..PLAIN
    },
    Attack {
        name: "hello-many-descriptors",
        act: many_descriptors,
        judge: Scene::was_tried,
        ..PLAIN
    },
    Attack {
        name: "hello-pidfd-of-another",
        act: pidfd_of_another,
        judge: Scene::was_tried,
        ..PLAIN
    },
    Attack {
        name: "hello-tid-of-another",
        act: tid_of_another,
        judge: Scene::was_tried,
        ..PLAIN
    },
];

/// Says Hello again and again, each time changed.
fn each(attacker: &mut Attacker, change: impl Fn(&mut Hello, u32)) -> Result<()> {
    let mut number = 0;
    while attacker.goes_on() {
        let mut said = hello();
        change(&mut said, number);
        // What became of it is told.
        let _ = attacker.knock(said.as_bytes(), &[]);
        number += 1;
    }
    Ok(())
}

fn truncated(attacker: &mut Attacker) -> Result<()> {
    let whole = hello();
    let mut length = 1;
    while attacker.goes_on() {
        let _ = attacker.knock(&whole.as_bytes()[..length], &[]);
        length = length % (whole.as_bytes().len() - 1) + 1;
    }
    Ok(())
}

fn oversized(attacker: &mut Attacker) -> Result<()> {
    let mut packet = hello().as_bytes().to_vec();
    while attacker.goes_on() {
        packet.resize((packet.len() * 2).min(64 << 10), 0xff);
        let _ = attacker.knock(&packet, &[]);
    }
    Ok(())
}

fn reserved_bits(attacker: &mut Attacker) -> Result<()> {
    each(attacker, |hello, number| match number % 3 {
        // The first bit is known.
        0 => hello.features = 1 << (1 + number % 63),
        1 => hello.reserved = 1 << (number % 16),
        _ => hello.devices[number as usize % 8].reserved = 1 << (number % 32),
    })
}

fn odd_names(attacker: &mut Attacker) -> Result<()> {
    const NAMES: [&[u8]; 8] = [
        b"../../etc/passwd",
        b"a\nb",
        b"\x1b[2J",
        b"\0\0\0\0",
        b"a b",
        "naïve".as_bytes(),
        b"%n%s%n",
        &[0xff; 64],
    ];
    each(attacker, |hello, number| {
        let name = NAMES[number as usize % NAMES.len()];
        hello.name[..name.len()].copy_from_slice(name);
        hello.name_len = match number % 5 {
            4 => u32::MAX,
            _ => name.len() as u32,
        };
    })
}

fn name_of_another(attacker: &mut Attacker) -> Result<()> {
    let named = Hello::new(hello().tid, Some(CAMERA))?;
    while attacker.goes_on() {
        let _ = attacker.knock(named.as_bytes(), &[]);
    }
    Ok(())
}

fn session_of_another(attacker: &mut Attacker) -> Result<()> {
    each(attacker, |hello, number| {
        // Registrations count from 1. The cookie would have to be guessed.
        hello.registration = u64::from(number / 3 % 16) + 1;
        hello.cookie = match number % 3 {
            0 => 0,
            1 => 1,
            _ => u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
    })
}

fn session_is_not_resumed(scene: &Scene) -> Result<()> {
    scene.was_tried()?;
    for name in [CAMERA, crate::victims::PLANNER, crate::victims::PAINTER] {
        let pids = |status| crate::judge::task(status, name).map(|task| task["pids"].clone());
        ensure!(
            pids(&scene.before) == pids(&scene.after),
            "{name} has other processes"
        );
    }
    Ok(())
}

fn many_descriptors(attacker: &mut Attacker) -> Result<()> {
    let file = std::fs::File::open("/dev/null")?;
    let fds = vec![file.as_fd(); MOST_FDS];
    let said = hello();
    while attacker.goes_on() {
        let wire = attacker.wire();
        // Packets that nobody reads any more keep theirs until the socket is closed.
        if let Ok(wire) = wire {
            for _ in 0..8 {
                let _ = wire.send(said.as_bytes(), &fds);
            }
        }
        attacker.count("tried");
    }
    Ok(())
}

/// Doorbells would ring another user's process.
fn pidfd_of_another(attacker: &mut Attacker) -> Result<()> {
    let pids = std::fs::read_to_string(attacker.order.folder.join("pids"))?;
    let uuid = attacker.uuid()?;
    let mut kept = Vec::new();
    while attacker.goes_on() {
        for pid in pids.split_whitespace() {
            let pid = rustix::process::Pid::from_raw(pid.parse()?);
            let flags = rustix::process::PidfdFlags::empty();
            let Some(Ok(pidfd)) = pid.map(|pid| rustix::process::pidfd_open(pid, flags)) else {
                continue;
            };
            kept.extend(attacker.knock(hello_on(uuid).as_bytes(), &[pidfd.as_fd()]));
        }
        for session in kept.iter_mut().rev().take(3) {
            let _ = session.take(4 << 20, std::time::Duration::from_millis(20));
        }
        kept.truncate(16);
    }
    Ok(())
}

fn tid_of_another(attacker: &mut Attacker) -> Result<()> {
    let pids = std::fs::read_to_string(attacker.order.folder.join("pids"))?;
    let pids: Vec<u32> = pids
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect();
    let uuid = attacker.uuid()?;
    each(attacker, |hello, number| {
        hello.devices[0] = DeviceState {
            uuid,
            memory_bytes: 64 << 20,
            ..DeviceState::default()
        };
        hello.tid = match number % 4 {
            0 => 1,
            1 => u32::MAX,
            _ => pids[number as usize % pids.len()],
        };
    })
}
