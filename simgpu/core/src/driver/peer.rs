//! A context's access to the memory of another GPU's context.

use super::context::Context;
use super::lock;
use super::space::Access;
use crate::{Error, Result};

impl Context {
    /// cuCtxEnablePeerAccess: this context's GPU reaches what `peer` has
    /// allocated and will allocate.
    pub fn enable_peer(&self, peer: &Self) -> Result<()> {
        self.check()?;
        peer.check()?;
        if self.gpu() == peer.gpu() {
            return Err(Error::InvalidDevice);
        }
        if !lock(&self.peers).insert(peer.id) {
            return Err(Error::PeerAccessAlreadyEnabled);
        }
        let process = &self.executor.process;
        lock(&peer.heap).set_peer(process, self.gpu(), Access::ReadWrite)
    }

    /// cuCtxDisablePeerAccess.
    pub fn disable_peer(&self, peer: &Self) -> Result<()> {
        if !lock(&self.peers).remove(&peer.id) {
            return Err(Error::PeerAccessNotEnabled);
        }
        let process = &self.executor.process;
        lock(&peer.heap).set_peer(process, self.gpu(), Access::None)
    }
}
