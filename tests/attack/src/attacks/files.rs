//! Files that a process maps as a driver, and that are none, or change while they are read.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::attack::{Attack, PLAIN};
use crate::attacker::Attacker;
use crate::attacker::files::map;
use crate::attacker::privileges::{fork, reap};
use crate::judge::Scene;
use crate::stage::FAKE_DRIVER;

use super::probes::probes_go_on;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "library-is-a-fifo",
        act: |attacker| {
            replaced(attacker, |path| {
                Ok(mknodat(CWD, path, FileType::Fifo, Mode::from(0o644), 0)?)
            })
        },
        judge: probes_go_on,
        ..PLAIN
    },
    Attack {
        name: "library-is-a-device",
        act: |attacker| replaced(attacker, |path| Ok(symlink("/dev/zero", path)?)),
        judge: probes_go_on,
        ..PLAIN
    },
    Attack {
        name: "library-behind-links",
        act: |attacker| replaced(attacker, behind_links),
        judge: probes_go_on,
        ..PLAIN
    },
    Attack {
        name: "library-of-a-tebibyte",
        act: sparse,
        judge: probes_go_on,
        ..PLAIN
    },
    Attack {
        name: "library-truncated-while-read",
        act: truncated_while_read,
        judge: probes_go_on,
        ..PLAIN
    },
    Attack {
        name: "library-with-escapes",
        act: with_escapes,
        judge: Scene::was_tried,
        ..PLAIN
    },
];

/// Maps a fresh library, and puts something else at its path.
fn replaced(attacker: &mut Attacker, put: impl Fn(&Path) -> Result<()>) -> Result<()> {
    let mut number = 0;
    while attacker.goes_on() {
        number += 1;
        let path = attacker.copy_driver(&format!("libcuda.so.{number}"))?;
        let child = fork(|| {
            let _ = map(&path);
            let _ = fs::remove_file(&path);
            let _ = put(&path);
            std::thread::sleep(Duration::from_millis(400));
        })?;
        reap(child);
        let _ = fs::remove_file(&path);
        attacker.count("tried");
    }
    Ok(())
}

/// Longer than a path may be followed, and a circle at its end.
fn behind_links(path: &Path) -> Result<()> {
    let mut to: PathBuf = path.to_owned();
    for depth in 0..45 {
        let link = path.with_extension(format!("link-{depth}-{}", std::process::id()));
        symlink(&to, &link)?;
        to = link;
    }
    Ok(symlink(to, path)?)
}

fn sparse(attacker: &mut Attacker) -> Result<()> {
    let mut number = 0;
    while attacker.goes_on() {
        number += 1;
        let path = attacker.copy_driver(&format!("libcuda.so.{number}"))?;
        // The rest of it is a hole; the headers promise that there is something.
        File::options().write(true).open(&path)?.set_len(1 << 40)?;
        let child = fork(|| {
            let _ = map(&path);
            std::thread::sleep(Duration::from_millis(300));
        })?;
        reap(child);
        fs::remove_file(&path)?;
        attacker.count("tried");
    }
    Ok(())
}

fn truncated_while_read(attacker: &mut Attacker) -> Result<()> {
    let whole = fs::read(attacker.order.folder.join("driver/libcuda.so.1"))?;
    let mut number = 0;
    while attacker.goes_on() {
        number += 1;
        let path = attacker.path(format!("libcuda.so.{number}"));
        fs::write(&path, &whole)?;
        let child = fork(|| {
            let _ = map(&path);
            std::thread::sleep(Duration::from_millis(300));
        })?;
        let file = File::options().write(true).open(&path)?;
        for _ in 0..200 {
            for length in [whole.len(), 4_096, 64, 0] {
                file.set_len(length as u64)?;
            }
            rustix::io::pwrite(&file, &whole[..4_096], 0)?;
        }
        reap(child);
        fs::remove_file(&path)?;
        attacker.count("tried");
    }
    Ok(())
}

fn with_escapes(attacker: &mut Attacker) -> Result<()> {
    let mut number = 0;
    while attacker.goes_on() {
        number += 1;
        let name = format!("\x1b[31m\x1b]0;owned\x07\u{202e}libcuda.so.{number}");
        let library = attacker.path(OsStr::from_bytes(name.as_bytes()));
        fs::copy(attacker.order.folder.join(FAKE_DRIVER), &library)?;
        let child = fork(|| {
            let _ = map(&library);
            std::thread::sleep(Duration::from_millis(200));
        })?;
        reap(child);
        attacker.count("tried");
    }
    Ok(())
}
