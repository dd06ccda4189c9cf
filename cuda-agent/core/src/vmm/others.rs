//! What others than the gated work of its own GPU may reach at any time: it comes back and stays.

use std::sync::Arc;

use super::{Book, Result, What};
use crate::agent::Agent;
use crate::cuda::{Context, Status, Stream};
use crate::enter::Clue;
use crate::memory::KeptFor;
use crate::ops::{Found, Owner};

/// A part of memory of ours that the driver knows by a handle of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The driver's handle.
    pub handle: u64,
    /// Where the part begins within the handle, in bytes.
    pub offset: u64,
    /// Where it begins within what was asked for.
    pub at: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

impl Agent {
    /// cuMulticastBindMem of `bytes` from `offset` on of a handle of ours, by `bind` for each part of
    /// it: it comes back and stays, for the other GPUs. `unbind` takes the first bytes back where not
    /// all can be bound. Nothing for a handle of the driver's.
    pub fn bind_physical(
        &self,
        handle: u64,
        offset: u64,
        bytes: u64,
        mut bind: impl FnMut(Part) -> Result<()>,
        unbind: impl FnOnce(u64),
    ) -> Option<Result<()>> {
        Book::is_ours(handle).then(|| {
            let parts = self.parts(handle, offset, bytes)?;
            // Released by another thread, it would be no one's, and the driver's handles soon others'.
            // Without the lock: the driver waits until all GPUs of the object have joined, by threads
            // that may need the book before.
            self.book().hold(handle)?;
            let mut bound = 0;
            let result = parts.into_iter().try_for_each(|part| {
                bind(part)?;
                bound += part.bytes;
                Ok(())
            });
            if result.is_err() && bound > 0 {
                unbind(bound);
            }
            // What is bound the driver keeps. What cannot be freed stays counted, and whoever released
            // it meanwhile was told that it is gone.
            let _ = self.release_physical(handle, || Ok(()));
            result
        })
    }

    /// The parts of memory of ours, which stays on the GPU for good from now on: one where it was
    /// created to be shared.
    fn parts(&self, handle: u64, offset: u64, bytes: u64) -> Result<Vec<Part>> {
        let end = offset.checked_add(bytes).ok_or(Status::INVALID_VALUE)?;
        let (all, bundle) = match self.book().held(handle)? {
            What::Pieces(bundle) => (bundle.bytes, Some(Arc::clone(bundle))),
            What::Whole(whole) => (whole.bytes, None),
            What::Alone { .. } => return Err(Status::INVALID_VALUE),
        };
        if bytes == 0 || end > all {
            return Err(Status::INVALID_VALUE);
        }
        let Some(bundle) = bundle.filter(|bundle| bundle.prop.is_private()) else {
            return Ok(vec![Part {
                handle: self.whole(handle, KeptFor::Devices)?.handle.0,
                offset,
                at: 0,
                bytes,
            }]);
        };
        let device = self.owner(&bundle)?;
        let own = Clue::Gate(device.bit);
        // Within work of this GPU all its memory is there.
        let _call = self.enter_on(Stream::LEGACY, &|clue| clue(own));
        let book = self.book();
        // It may have been released meanwhile.
        book.held(handle)?;
        let mut memory = device.memory();
        memory.hold(&bundle.pieces, KeptFor::Devices)?;
        let mut start = 0;
        let mut parts = Vec::new();
        for &piece in &bundle.pieces {
            let (first, last) = (start.max(offset), (start + piece.bytes()).min(end));
            if first < last {
                parts.push(Part {
                    handle: memory.handle_of(piece).ok_or(Status::UNKNOWN)?.0,
                    offset: first - start,
                    at: first - offset,
                    bytes: last - first,
                });
            }
            start += piece.bytes();
        }
        Ok(parts)
    }

    /// Keeps all of ours in a range where it is, for good: its pages are about to be known to another
    /// device.
    pub fn keep_range(&self, at: u64, bytes: u64) -> Result<()> {
        let end = at.checked_add(bytes).ok_or(Status::INVALID_VALUE)?;
        let mut next = at;
        while next < end {
            if let Some(found) = self.look_up(next) {
                let found = found?;
                self.keep(&found)?;
                next = found.at + found.bytes.max(1);
            } else if let Some(behind) = self.book().mapped_behind(next) {
                // One allocation already, or the driver's own.
                next = behind;
            } else {
                break;
            }
        }
        Ok(())
    }

    fn keep(&self, found: &Found) -> Result<()> {
        let device = self.device(found.ordinal).ok_or(Status::UNKNOWN)?;
        if found.owner == Owner::Program && self.share_mapping(found.at)? {
            return Ok(());
        }
        // Within work of this GPU all its memory is there.
        let _call = self.enter_on(Stream::LEGACY, &|clue| clue(Clue::Address(found.at)));
        match found.owner {
            Owner::Program => self.hold_mapping(found.at),
            _ => device
                .memory()
                .hold_range(found.at, found.bytes, KeptFor::Devices),
        }
    }

    /// Puts what is mapped around an address into one allocation if it was created to be shared.
    /// False for other memory of ours.
    pub(crate) fn share_mapping(&self, address: u64) -> Result<bool> {
        let book = self.book();
        let bundle = match book.bundle_at(address) {
            Some((_, _, bundle)) if bundle.prop.is_private() => return Ok(false),
            Some((_, _, bundle)) => Arc::clone(bundle),
            // One allocation already.
            None if book.is_ours_at(address) => return Ok(true),
            None => return Err(Status::INVALID_VALUE),
        };
        drop(book);
        self.make_whole(&bundle, KeptFor::Devices).map(|()| true)
    }

    /// cuCtxEnablePeerAccess, done by the driver: from now on the current GPU reaches whatever is or
    /// will be in the arena of the peer's.
    pub fn peer_enabled(&self, peer: Context) -> Result<()> {
        let ordinal = self.work.device_of(peer);
        let Some(device) = ordinal.and_then(|ordinal| self.device(ordinal)) else {
            return Ok(());
        };
        let current = self.driver.current_device()?;
        let _call = self.enter_on(Stream::LEGACY, &|clue| clue(Clue::Context(peer)));
        device.memory().share(current)
    }
}
