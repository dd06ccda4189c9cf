//! The backing store: pinned host memory in segments, one slot of δ bytes for each chunk of the
//! swap set.

use crate::driver::{Driver, Result};

/// No segment is larger: pinning fails or succeeds by segments, so that what can be had is had.
const SEGMENT_BYTES: u64 = 1 << 30;

/// Pinned segments.
#[derive(Debug, Default)]
pub struct Backing {
    segments: Vec<Segment>,
}

/// Pinned memory for `slots` chunks.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    host: usize,
    slots: usize,
}

impl Backing {
    /// Pins memory for `slots` chunks of `chunk` bytes: as much as can be had. Takes long, holds
    /// no lock. The pages are kept from forked children, where they would be copied on write.
    pub fn pin(driver: &dyn Driver, chunk: u64, slots: usize) -> (Vec<Segment>, Result<()>) {
        let most = (SEGMENT_BYTES / chunk).max(1) as usize;
        let mut segments = Vec::new();
        let mut left = slots;
        while left > 0 {
            let slots = left.min(most);
            let bytes = slots as u64 * chunk;
            match driver.pin(bytes) {
                Ok(host) => {
                    keep_from_children(host, bytes as usize);
                    segments.push(Segment { host, slots });
                }
                Err(status) => return (segments, Err(status)),
            }
            left -= slots;
        }
        (segments, Ok(()))
    }

    /// Takes pinned segments in.
    pub fn add(&mut self, segments: Vec<Segment>) {
        self.segments.extend(segments);
    }

    /// Slots in all.
    pub fn slots(&self) -> usize {
        self.segments.iter().map(|segment| segment.slots).sum()
    }

    /// The host address of a slot that is there.
    pub fn slot(&self, mut slot: usize, chunk: u64) -> usize {
        for segment in &self.segments {
            if slot < segment.slots {
                return segment.host + slot * chunk as usize;
            }
            slot -= segment.slots;
        }
        unreachable!("the swap set has no more slots than the backing store");
    }

    /// Takes the last segments out that leave at least `slots`, to be unpinned by [`Segment::unpin`].
    pub fn shrink(&mut self, slots: usize) -> Vec<Segment> {
        let mut left = self.slots();
        let mut out = Vec::new();
        while let Some(segment) = self.segments.pop_if(|last| left - last.slots >= slots) {
            left -= segment.slots;
            out.push(segment);
        }
        out
    }

    /// Unpins everything.
    pub fn drop_all(&mut self, driver: &dyn Driver) -> Result<()> {
        self.segments
            .drain(..)
            .map(|segment| driver.unpin(segment.host))
            .fold(Ok(()), Result::and)
    }
}

impl Segment {
    /// Gives its memory back. Takes long, holds no lock.
    pub fn unpin(self, driver: &dyn Driver) -> Result<()> {
        driver.unpin(self.host)
    }
}

fn keep_from_children(host: usize, bytes: usize) {
    let page = rustix::param::page_size();
    let start = host.next_multiple_of(page);
    let end = (host + bytes) / page * page;
    if end > start {
        // SAFETY: whole pages of a live allocation; the advice changes nothing in this process.
        // Where the kernel refuses it for this kind of memory, a child merely shares the pages.
        let _ = unsafe {
            rustix::mm::madvise(
                core::ptr::with_exposed_provenance_mut(start),
                end - start,
                rustix::mm::Advice::LinuxDontFork,
            )
        };
    }
}
