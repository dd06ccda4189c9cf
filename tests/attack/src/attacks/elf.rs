//! Libraries that take long to read.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::attack::{Attack, LONGER, PLAIN};
use crate::attacker::Attacker;
use crate::attacker::elf::{Made, library};
use crate::attacker::files::map;
use crate::attacker::privileges::{fork, reap};
use crate::stage::FAKE_DRIVER;

use super::probes::probes_go_on;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "elf-symbols-times-headers",
        span: LONGER,
        act: |attacker| {
            let made = Made {
                headers: 290_000,
                symbols: 65_536,
                ..Made::default()
            };
            fresh_libraries(attacker, 1, |_| made.clone())
        },
        judge: probes_go_on,
        ..PLAIN
    },
    Attack {
        name: "elf-large-functions",
        act: |attacker| {
            let made = Made {
                symbols: 65_536,
                function_bytes: 64 << 10,
                ..Made::default()
            };
            fresh_libraries(attacker, 8, |_| made.clone())
        },
        judge: probes_go_on,
        ..PLAIN
    },
    Attack {
        name: "elf-offsets-overflow",
        act: |attacker| fresh_libraries(attacker, 8, overflowing),
        judge: probes_go_on,
        ..PLAIN
    },
    Attack {
        name: "elf-random-bytes",
        act: random_bytes,
        judge: probes_go_on,
        ..PLAIN
    },
    Attack {
        name: "elf-many-mappings",
        attackers: 2,
        span: Duration::from_secs(2),
        act: many_mappings,
        judge: probes_go_on,
        ..PLAIN
    },
    Attack {
        name: "elf-many-drivers",
        attackers: 2,
        act: many_drivers,
        judge: probes_go_on,
        ..PLAIN
    },
];

/// A process that maps hostile files lives so long.
const LIFE: Duration = Duration::from_millis(400);

/// Starts processes one after the other, each of which maps `at_once` fresh files for `life`; `write` makes each file.
fn fresh(
    attacker: &mut Attacker,
    at_once: u64,
    life: Duration,
    mut write: impl FnMut(u64, &Path) -> Result<()>,
) -> Result<()> {
    let mut number = 0;
    while attacker.goes_on() {
        let mut paths = Vec::new();
        for _ in 0..at_once {
            number += 1;
            let path = attacker.path(format!("libcuda.so.{number}"));
            write(number, &path)?;
            paths.push(path);
        }
        let child = fork(|| {
            for path in &paths {
                let _ = map(path);
            }
            std::thread::sleep(life);
        })?;
        reap(child);
        for path in paths {
            fs::remove_file(path)?;
        }
        attacker.count("tried");
    }
    Ok(())
}

/// As [`fresh`], of libraries.
fn fresh_libraries(
    attacker: &mut Attacker,
    at_once: u64,
    make: impl Fn(u64) -> Made,
) -> Result<()> {
    fresh(attacker, at_once, LIFE, |number, path| {
        Ok(fs::write(path, library(&make(number)))?)
    })
}

fn overflowing(number: u64) -> Made {
    const ODD: [u64; 6] = [u64::MAX, u64::MAX - 63, 1 << 63, 1 << 40, 1, 0];
    let odd = ODD[number as usize % ODD.len()];
    match number % 3 {
        0 => Made {
            sections_at: Some(odd),
            ..Made::default()
        },
        1 => Made {
            strings: Some(odd),
            ..Made::default()
        },
        _ => Made {
            function_bytes: odd,
            symbols: 100,
            ..Made::default()
        },
    }
}

fn random_bytes(attacker: &mut Attacker) -> Result<()> {
    let mut word = 0x9e37_79b9_7f4a_7c15_u64;
    fresh(attacker, 1, Duration::from_millis(50), |_, path| {
        let mut bytes = library(&Made {
            symbols: 64,
            ..Made::default()
        });
        // What makes it a library stays: what follows is read.
        for at in (64..bytes.len()).step_by(7) {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            if word.is_multiple_of(8) {
                bytes[at] = word as u8;
            }
        }
        Ok(fs::write(path, &bytes)?)
    })
}

/// Thousands of files, each of which may be a driver by its name.
fn many_mappings(attacker: &mut Attacker) -> Result<()> {
    let mut children = Vec::new();
    let mut paths = Vec::new();
    for number in 0..6_000 {
        let path = attacker.path(format!("cuda-{number}"));
        fs::write(&path, b"\x7fELF")?;
        paths.push(path);
        if !attacker.goes_on() {
            break;
        }
    }
    while attacker.goes_on() {
        let child = fork(|| {
            for path in &paths {
                let _ = map(path);
            }
            std::thread::sleep(Duration::from_secs(5));
        })?;
        children.push(child);
        attacker.count("tried");
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Copies of a driver, each of which is probed on its own.
fn many_drivers(attacker: &mut Attacker) -> Result<()> {
    let driver = attacker.order.folder.join(FAKE_DRIVER);
    fresh(attacker, 40, Duration::from_millis(500), |_, path| {
        fs::copy(&driver, path)?;
        Ok(())
    })
}
