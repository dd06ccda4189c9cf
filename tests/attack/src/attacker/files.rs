//! Files of the attacker's own that look like a driver's library, mapped as one.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use rustix::mm::{MapFlags, ProtFlags};

use super::Attacker;
use super::privileges::{fork, reap};

impl Attacker {
    /// A path in its own folder.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.order.room.join(name)
    }

    /// Copies the machine's driver under another name.
    pub(crate) fn copy_driver(&self, name: &str) -> Result<PathBuf> {
        let copy = self.path(name);
        fs::copy(self.order.folder.join("driver/libcuda.so.1"), &copy)?;
        Ok(copy)
    }

    /// Has children that map such files, so many at a time, each for `hold`, until the time is over.
    pub(crate) fn churn(&mut self, at_once: usize, act: impl Fn(u32)) -> Result<()> {
        let mut number = 0;
        while self.goes_on() {
            let mut children = Vec::new();
            for _ in 0..at_once {
                number += 1;
                children.push(fork(|| act(number))?);
            }
            for child in children {
                reap(child);
                self.count("tried");
            }
        }
        Ok(())
    }
}

/// Maps a page of a file executable, as a loader maps a library; the mapping stays.
pub(crate) fn map(path: &Path) -> Result<()> {
    let file = File::open(path)?;
    let protection = ProtFlags::READ | ProtFlags::EXEC;
    let anywhere = std::ptr::null_mut();
    // SAFETY: a new private mapping at a place of the kernel's choice, which nothing is read from.
    let at = unsafe { rustix::mm::mmap(anywhere, 4096, protection, MapFlags::PRIVATE, &file, 0)? };
    ensure!(!at.is_null(), "mapped at 0");
    Ok(())
}
