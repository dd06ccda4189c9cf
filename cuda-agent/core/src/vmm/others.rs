//! What others than the gated work of its own GPU may reach at any time: it comes back and stays.

use super::Result;
use crate::agent::Agent;
use crate::cuda::{Context, Status, Stream};
use crate::enter::Clue;
use crate::ops::{Found, Owner};

impl Agent {
    /// Keeps all of ours in a range where it is, for good: its pages are about to be known to another
    /// device.
    pub fn keep_range(&self, at: u64, bytes: u64) -> Result<()> {
        let end = at.checked_add(bytes).ok_or(Status::INVALID_VALUE)?;
        let mut next = at;
        while next < end
            && let Some(found) = self.look_up(next)
        {
            let found = found?;
            self.keep(&found)?;
            next = found.at + found.bytes.max(1);
        }
        Ok(())
    }

    fn keep(&self, found: &Found) -> Result<()> {
        let device = self.device(found.ordinal).ok_or(Status::UNKNOWN)?;
        // Within work of this GPU all its memory is there.
        let _call = self.enter_on(Stream::LEGACY, &|clue| clue(Clue::Address(found.at)));
        match found.owner {
            Owner::Program => self.hold_mapping(found.at),
            _ => device.memory().hold_range(found.at, found.bytes),
        }
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
