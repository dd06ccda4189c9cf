//! The control page: 4 KiB that the daemon makes for one session and shares with its agent.
//!
//! Atomics only, one writer per field, the two writers on separate cache lines. A message of
//! several fields is written relaxed and published by its sequence number with Release; a reader
//! loads the number, the fields, and the number again, and acts on each number once: a writer
//! touches the fields of the next message only after the last was answered, so what a reader may
//! see torn is a message that it has dealt with. Sequence numbers start at 1 and wrap past 0, which
//! means none. Everything that blocks waits on a 32-bit futex word of this page.

mod agent;
mod daemon;

pub use agent::{
    AgentDevice, AgentReport, JobKind, JobReport, KeptReport, OutOfBudget, SwapOutcome, SwapReport,
    UsageReport,
};
pub use daemon::{DaemonDevice, Direction, SwapRequest};

use crate::sync::{AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::{MAX_DEVICES, VERSION};

/// The size of the page and of its memfd.
pub const PAGE_BYTES: usize = 4096;

/// The number after `seq`, leaving out 0.
pub const fn next_seq(seq: u32) -> u32 {
    match seq.wrapping_add(1) {
        0 => 1,
        next => next,
    }
}

/// The whole page. Valid for any bytes, so that a shell may map it from a stranger.
#[repr(C, align(4096))]
#[derive(Debug, Default)]
pub struct ControlPage {
    header: Header,
    devices: [DeviceBlock; MAX_DEVICES],
}

#[repr(C, align(512))]
#[derive(Debug, Default)]
struct Header {
    magic: AtomicU32,
    version: AtomicU32,
    features: AtomicU64,
    daemon_epoch: AtomicU64,
}

/// One GPU's part of the page: three cache lines of the daemon's, four of the agent's.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct DeviceBlock {
    /// Written by the daemon alone.
    pub daemon: DaemonDevice,
    /// Written by the agent alone.
    pub agent: AgentDevice,
}

const MAGIC: u32 = u32::from_ne_bytes(crate::hello::MAGIC);

impl ControlPage {
    /// Daemon: marks a zeroed page as one of this version. `epoch` tells one run of the daemon from
    /// the next.
    pub fn init(&self, epoch: u64) {
        self.header.version.store(u32::from(VERSION), Relaxed);
        self.header.daemon_epoch.store(epoch, Relaxed);
        self.header.magic.store(MAGIC, Relaxed);
    }

    /// Agent: whether this is a page of this version.
    pub fn is_known(&self) -> bool {
        self.header.magic.load(Relaxed) == MAGIC
            && self.header.version.load(Relaxed) == u32::from(VERSION)
    }

    /// Which run of the daemon made the page.
    pub fn epoch(&self) -> u64 {
        self.header.daemon_epoch.load(Relaxed)
    }

    /// The blocks, one per GPU that the daemon manages; the rest have a zero UUID.
    pub fn devices(&self) -> &[DeviceBlock; MAX_DEVICES] {
        &self.devices
    }
}

#[cfg(not(loom))]
const _: () = {
    use core::mem::{align_of, offset_of, size_of};
    assert!(size_of::<ControlPage>() == PAGE_BYTES && align_of::<ControlPage>() == PAGE_BYTES);
    assert!(offset_of!(ControlPage, devices) == 512);
    assert!(size_of::<DeviceBlock>() == 448);
    assert!(offset_of!(DeviceBlock, daemon) == 0);
    assert!(offset_of!(DeviceBlock, agent) == 192);
    assert!(offset_of!(Header, magic) == 0);
    assert!(offset_of!(Header, version) == 4);
    assert!(offset_of!(Header, features) == 8);
    assert!(offset_of!(Header, daemon_epoch) == 16);
};

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_leave_out_zero() {
        assert_eq!(next_seq(0), 1);
        assert_eq!(next_seq(u32::MAX), 1);
    }

    #[test]
    fn a_page_is_known_once_it_is_made() {
        let page = ControlPage::default();
        assert!(!page.is_known());
        page.init(7);
        assert!(page.is_known());
        assert_eq!(page.epoch(), 7);
    }
}
