//! A session and its control page, every word of which the attacker writes as it likes.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering::Release};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rtswap_wire::page::{ControlPage, DeviceBlock, JobKind, PAGE_BYTES, UsageReport};
use rustix::mm::{MapFlags, ProtFlags};

use super::wire::Wire;

/// 32-bit words of a page.
pub(crate) const WORDS: usize = PAGE_BYTES / 4;
/// The first word of the first GPU's block, and of the agent's part in it.
pub(crate) const BLOCK: usize = 512 / 4;
pub(crate) const AGENT: usize = BLOCK + 192 / 4;
/// Words of the agent's part.
pub(crate) const AGENT_WORDS: usize = 256 / 4;

/// A session with the daemon.
pub(crate) struct Session {
    /// The socket, open as long as the session lives.
    pub wire: Wire,
    /// The page's memfd.
    pub memfd: OwnedFd,
    /// The eventfd by which the daemon is rung.
    pub bell: OwnedFd,
    /// What the Hello that resumes it says: its registration, and its cookie.
    pub ticket: (u64, u64),
    page: *const ControlPage,
    confirmed: u32,
}

impl Session {
    pub(super) fn new(wire: Wire, ticket: (u64, u64), fds: Vec<OwnedFd>) -> Result<Self> {
        let [memfd, bell] = <[OwnedFd; 2]>::try_from(fds).ok().context("no page")?;
        let anywhere = std::ptr::null_mut();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let shared = MapFlags::SHARED;
        // SAFETY: a new mapping of a sealed memfd of that size, never unmapped.
        let page =
            unsafe { rustix::mm::mmap(anywhere, PAGE_BYTES, protection, shared, &memfd, 0)? };
        Ok(Self {
            wire,
            memfd,
            bell,
            ticket,
            page: page.cast(),
            confirmed: 0,
        })
    }

    /// The block of the first GPU.
    pub(crate) fn block(&self) -> &DeviceBlock {
        // SAFETY: mapped for ever, made of atomics.
        &unsafe { &*self.page }.devices()[0]
    }

    /// The page as nothing but words.
    pub(crate) fn words(&self) -> &[AtomicU32] {
        // SAFETY: mapped for ever with this size, and atomic words have no wrong value.
        unsafe { std::slice::from_raw_parts(self.page.cast::<AtomicU32>(), WORDS) }
    }

    /// Writes a word of the agent's part.
    pub(crate) fn set(&self, word: usize, value: u32) {
        self.words()[AGENT + word].store(value, Release);
    }

    /// Whether the daemon has ended it.
    pub(crate) fn is_over(&self) -> bool {
        let flags = rustix::net::RecvFlags::DONTWAIT | rustix::net::RecvFlags::PEEK;
        matches!(
            rustix::net::recv(&self.wire.0, &mut [0_u8; 1][..], flags),
            Ok((0, _))
        )
    }

    /// Rings the daemon.
    pub(crate) fn ring(&self) {
        // A counter that is full has rung already.
        let _ = rustix::io::write(self.bell.as_fd(), &1_u64.to_ne_bytes());
    }

    /// Does as an honest agent would with what the daemon asks for beside jobs: pins, in words.
    pub(crate) fn confirm(&mut self) {
        let block = self.block();
        if let Some((seq, bytes)) = block.daemon.volume()
            && seq != self.confirmed
        {
            block.agent.confirm_volume(seq, bytes);
            self.confirmed = seq;
            self.ring();
        }
    }

    /// Asks for so many bytes in all; whether they were granted in this time.
    pub(crate) fn take(&mut self, bytes: u64, bound: Duration) -> bool {
        let want = self.block().agent.want(bytes);
        self.ring();
        let until = Instant::now() + bound;
        while self.block().daemon.answered_want() != want {
            if Instant::now() > until {
                return false;
            }
            self.confirm();
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.block().daemon.budget_bytes() < bytes {
            return false;
        }
        let usage = UsageReport {
            resident_bytes: bytes,
            arena_bytes: bytes,
            ..UsageReport::default()
        };
        self.block().agent.restore(usage, 0, 0);
        self.ring();
        true
    }

    /// Asks for a job; whether it was granted in this time.
    pub(crate) fn job(&mut self, seq: u32, bound: Duration) -> bool {
        self.block().agent.request_job(seq, JobKind::Declared);
        self.ring();
        let until = Instant::now() + bound;
        while self.block().daemon.granted() != seq {
            if Instant::now() > until {
                return false;
            }
            self.confirm();
            std::thread::sleep(Duration::from_micros(200));
        }
        true
    }
}
