//! Green contexts: views of a GPU's primary context with streams of their own. What they allocate is
//! the primary one's, and so is what breaks them. That one has only some of the multiprocessors is
//! remembered, but engines do not look at it.

use std::sync::Arc;

use super::context::Context;
use super::table::handle_of;
use super::{Driver, lock};
use crate::{Error, Result};

/// CU_GREEN_CTX_DEFAULT_STREAM, without which none is made.
const DEFAULT_STREAM: u32 = 1;

/// Multiprocessors for a green context: what a CUdevResourceDesc names.
#[derive(Debug)]
pub struct Partition {
    /// How many.
    pub multiprocessors: u32,
}

/// A green context, until it is destroyed.
pub struct Green {
    /// What it has.
    pub partition: Arc<Partition>,
    /// The same as a context that can be made current.
    pub context: Arc<Context>,
}

impl Driver {
    /// cuDevResourceGenerateDesc: its handle.
    pub fn make_partition(&self, multiprocessors: u32) -> Result<usize> {
        if multiprocessors == 0 {
            return Err(Error::InvalidValue);
        }
        Ok(self
            .partitions
            .insert(&Arc::new(Partition { multiprocessors })))
    }

    /// cuGreenCtxCreate: its handle. It retains the primary context.
    pub fn create_green(&self, partition: usize, ordinal: i32, flags: u32) -> Result<usize> {
        let partition = self.partitions.get(partition);
        let partition = partition.ok_or(Error::InvalidValue)?;
        if flags != DEFAULT_STREAM {
            return Err(Error::InvalidValue);
        }
        let primary = self.retain_primary(ordinal)?;
        let green = Arc::new(Green {
            partition,
            context: primary.new_green(),
        });
        Ok(self.greens.insert(&green))
    }

    /// The green context with this handle.
    pub fn green(&self, handle: usize) -> Result<Arc<Green>> {
        self.greens.get(handle).ok_or(Error::InvalidContext)
    }

    /// cuCtxFromGreenCtx: a context that can be made current.
    pub fn context_of_green(&self, handle: usize) -> Result<Arc<Context>> {
        let green = self.green(handle)?;
        self.contexts.insert(&green.context);
        Ok(green.context.clone())
    }

    /// The handle of the green context that a context is a view of; 0 for any other.
    pub fn green_of(&self, context: &Arc<Context>) -> usize {
        let same = |green: &Green| Arc::ptr_eq(&green.context, context);
        self.greens.find(same).map_or(0, |green| handle_of(&green))
    }

    /// cuGreenCtxDestroy: after its work, with its streams.
    pub fn destroy_green(&self, handle: usize) -> Result<()> {
        let green = self.greens.remove(handle).ok_or(Error::InvalidContext)?;
        let gpu = green.context.gpu();
        if let Some(primary) = green.context.primary() {
            lock(&primary.greens).retain(|other| !Arc::ptr_eq(other, &green.context));
        }
        self.discard(&green.context);
        self.release_primary(i32::try_from(gpu).map_err(|_| Error::Unknown)?)
    }
}
