//! Device memory that outlives the process that made it, because others hold
//! it too: what is behind exported descriptors and IPC handles.
//!
//! A share is a small file beside the machine that names its granules. They
//! carry the share's tag instead of a process's. Whoever holds the share holds
//! an open description of the file with a shared lock on it; descriptors that
//! are passed on or inherited are the same description. So the kernel keeps the
//! count, also when holders are killed: when the lock can be had for oneself,
//! nobody holds the share any more and its granules are free.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use rustix::fs::{FlockOperation, flock};

use super::open::open_file;
use super::{Identity, Machine};
use crate::{Error, Result};

const PREFIX: &str = "share-";
const MAGIC: u64 = u64::from_le_bytes(*b"simshare");
/// Low half of a share's tag: no slot is as high.
const SHARED: u64 = u32::MAX as u64;
/// Words before the granules: magic, inode of the machine, tag, the GPU's place, wishes
/// of the creator (two), number of granules.
const WORDS: usize = 7;
/// More granules than any machine has.
const GRANULES_MAX: u64 = 1 << 20;

/// Shared memory, held as long as this exists.
#[derive(Debug)]
pub(crate) struct Share {
    file: File,
    pub(crate) tag: u64,
}

/// What a share's file says.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) share: Share,
    pub(crate) gpu: usize,
    /// Two words that the creator left for those who import.
    pub(crate) wishes: [u64; 2],
    pub(crate) granules: Box<[u32]>,
}

impl Share {
    /// A descriptor to pass on, of the same open description.
    pub(crate) fn descriptor(&self) -> Result<OwnedFd> {
        let copy = self.file.try_clone().map_err(|_| Error::OperatingSystem)?;
        Ok(copy.into())
    }
}

impl Machine {
    /// Makes granules that `who` took into a share.
    pub(crate) fn share(
        &self,
        gpu: usize,
        who: Identity,
        granules: &[u32],
        wishes: [u64; 2],
    ) -> Result<Share> {
        let generation = self.header().next_generation.fetch_add(1, Relaxed) + 1;
        let tag = u64::from(generation) << 32 | SHARED;
        let words = [
            MAGIC,
            self.file.1,
            tag,
            self.place(gpu) as u64,
            wishes[0],
            wishes[1],
            granules.len() as u64,
        ];
        let mut bytes: Vec<_> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend(granules.iter().flat_map(|index| index.to_le_bytes()));
        // Locked before it has the name that others look for.
        let half = self.dir.join(format!("new-{tag:x}"));
        let file = open_file(&half, true).map_err(|_| Error::OperatingSystem)?;
        let made = flock(&file, FlockOperation::LockShared)
            .map_err(Into::into)
            .and_then(|()| (&file).write_all(&bytes))
            .and_then(|()| fs::rename(&half, self.share_path(tag)));
        if made.is_err() {
            let _ = fs::remove_file(&half);
            return Err(Error::OperatingSystem);
        }
        self.header().shares_made.fetch_add(1, Relaxed);
        let (owners, writers) = (self.owners(gpu), self.writers(gpu));
        for index in granules {
            writers[*index as usize].store(tag, Relaxed);
            let changed = owners[*index as usize].compare_exchange(who.tag, tag, AcqRel, Relaxed);
            debug_assert!(changed.is_ok(), "granule {index} was not ours");
        }
        Ok(Share { file, tag })
    }

    /// The share behind a descriptor that somebody passed us.
    pub(crate) fn import(&self, fd: BorrowedFd<'_>) -> Result<Shared> {
        let copy = fd.try_clone_to_owned().map_err(|_| Error::InvalidValue)?;
        self.read_share(File::from(copy))
    }

    /// The share with this tag, as long as anybody holds it.
    pub(crate) fn open_share(&self, tag: u64) -> Result<Shared> {
        let gone = |_| Error::InvalidValue;
        let file = open_file(&self.share_path(tag), false).map_err(|_| Error::InvalidValue)?;
        flock(&file, FlockOperation::NonBlockingLockShared).map_err(gone)?;
        // It may have been reaped between the two.
        let named = file.metadata().is_ok_and(|about| about.nlink() > 0);
        if !named {
            return Err(Error::InvalidValue);
        }
        self.read_share(file)
    }

    /// Believes nothing that it cannot check: descriptors come from strangers.
    fn read_share(&self, file: File) -> Result<Shared> {
        let about = file.metadata().map_err(|_| Error::InvalidValue)?;
        if !about.is_file() || about.len() < (WORDS * 8) as u64 {
            return Err(Error::InvalidValue);
        }
        let mut bytes = [0; WORDS * 8];
        file.read_exact_at(&mut bytes, 0)
            .map_err(|_| Error::InvalidValue)?;
        let word = |at: usize| {
            let bytes = bytes[at * 8..].first_chunk();
            bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let [magic, machine, tag, place, first, second, count] = std::array::from_fn(word);
        let known = magic == MAGIC && machine == self.file.1 && tag & SHARED == SHARED;
        let here = |gpu: &usize| self.place(*gpu) as u64 == place;
        let gpu = (0..self.config.gpus.len()).find(here);
        let gpu = gpu.filter(|_| known && count <= GRANULES_MAX);
        let gpu = gpu.ok_or(Error::InvalidValue)?;
        let mut bytes = vec![0; count as usize * 4];
        file.read_exact_at(&mut bytes, (WORDS * 8) as u64)
            .map_err(|_| Error::InvalidValue)?;
        let (words, _) = bytes.as_chunks();
        let granules: Box<[u32]> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let owners = self.owners(gpu);
        let is_its = |index: &u32| {
            let owner = owners.get(*index as usize);
            owner.is_some_and(|owner| owner.load(Relaxed) == tag)
        };
        if !granules.iter().all(is_its) {
            return Err(Error::InvalidValue);
        }
        Ok(Shared {
            share: Share { file, tag },
            gpu,
            wishes: [first, second],
            granules,
        })
    }

    /// Frees what nobody holds any more. Anybody may do so at any time.
    pub(crate) fn reap_shares(&self) {
        if self.header().shares_made.load(Relaxed) == 0 {
            return;
        }
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let tag = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
            let Some(Ok(tag)) = tag.map(|tag| u64::from_str_radix(tag, 16)) else {
                continue;
            };
            let Ok(file) = open_file(&entry.path(), false) else {
                continue;
            };
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                for gpu in 0..self.config.gpus.len() {
                    self.free_all(gpu, tag);
                }
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn share_path(&self, tag: u64) -> PathBuf {
        self.dir.join(format!("{PREFIX}{tag:x}"))
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::super::open::tests::small;
    use super::*;

    #[test]
    fn a_share_lives_as_long_as_any_descriptor_of_it() {
        let (_dir, machine) = small(8);
        let me = machine.attach().unwrap();
        let granules = machine.take(0, me, 2).unwrap();
        let share = machine.share(0, me, &granules, [5, 6]).unwrap();
        let passed = share.descriptor().unwrap();
        let tag = share.tag;
        drop(share);
        machine.reap_shares();
        assert_eq!(machine.free_granules(0), 2);
        let imported = machine.import(passed.as_fd()).unwrap();
        assert_eq!((&imported.granules, imported.wishes), (&granules, [5, 6]));
        let opened = machine.open_share(tag).unwrap();
        drop((passed, imported));
        machine.reap_shares();
        assert_eq!(machine.free_granules(0), 2);
        drop(opened);
        machine.reap();
        assert_eq!(machine.free_granules(0), 4);
        assert_eq!(machine.open_share(tag).unwrap_err(), Error::InvalidValue);
    }

    #[test]
    fn what_is_no_share_of_this_machine_is_refused() {
        let (_dir, machine) = small(8);
        let (_other_dir, other) = small(8);
        let me = other.attach().unwrap();
        let granules = other.take(0, me, 2).unwrap();
        let foreign = other.share(0, me, &granules, [0, 0]).unwrap();
        let foreign = foreign.descriptor().unwrap();
        assert_eq!(
            machine.import(foreign.as_fd()).unwrap_err(),
            Error::InvalidValue
        );
        let null = File::open("/dev/null").unwrap();
        assert_eq!(
            machine.import(null.as_fd()).unwrap_err(),
            Error::InvalidValue
        );
        // A forger names granules that are not the share's.
        let mine = machine.attach().unwrap();
        let granules = machine.take(0, mine, 1).unwrap();
        let share = machine.share(0, mine, &granules, [0, 0]).unwrap();
        share
            .file
            .write_all_at(&3_u32.to_le_bytes(), (WORDS * 8) as u64)
            .unwrap();
        assert_eq!(
            machine.open_share(share.tag).unwrap_err(),
            Error::InvalidValue
        );
    }
}
