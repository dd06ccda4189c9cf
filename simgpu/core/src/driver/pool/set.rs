//! All pools of the process, and which one is current on each GPU.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::{Pool, PoolAttribute};
use crate::driver::place::Place;
use crate::driver::process::Process;
use crate::driver::space::Access;
use crate::driver::table::handle_of;
use crate::driver::{Driver, Stream, lock};
use crate::{Error, Result};

/// The pools.
#[derive(Debug)]
pub(crate) struct Pools {
    /// One for each GPU in their order, then for the host as a whole and for its first node.
    seats: Vec<Seat>,
    /// All that programs made, also those destroyed whose memory is still used.
    created: RwLock<Vec<Arc<Pool>>>,
}

/// A place that has a pool from the beginning.
#[derive(Debug)]
struct Seat {
    /// Which cannot be destroyed.
    default: Arc<Pool>,
    /// The pool that a GPU's stream-ordered allocations come from.
    current: Mutex<Arc<Pool>>,
}

impl Pools {
    pub(crate) fn new(gpus: usize) -> Self {
        let host = [Place::Host(2, 0), Place::Host(3, 0)];
        let places = (0..gpus).map(Place::Gpu).chain(host);
        let seats = places.map(|place| {
            let default = Pool::new(place, 0);
            let current = Mutex::new(default.clone());
            Seat { default, current }
        });
        Self {
            seats: seats.collect(),
            created: RwLock::default(),
        }
    }

    /// The seat of a place that has one.
    fn seat(&self, place: Place) -> Result<&Seat> {
        let mut seats = self.seats.iter();
        let seat = seats.find(|seat| seat.default.place == place);
        seat.ok_or(Error::InvalidValue)
    }

    fn all(&self) -> Vec<Arc<Pool>> {
        let created = self.created.read().unwrap_or_else(PoisonError::into_inner);
        let defaults = self.seats.iter().map(|seat| &seat.default);
        defaults.chain(created.iter()).cloned().collect()
    }

    /// The pool whose object is around an address.
    pub(crate) fn owner(&self, address: u64) -> Option<Arc<Pool>> {
        self.all()
            .into_iter()
            .find(|pool| pool.object(address).is_some())
    }

    /// The program has synchronised: each pool keeps what its threshold says.
    pub(crate) fn settle(&self, process: &Process) {
        for pool in self.all() {
            pool.settle(process);
        }
        let mut created = self.created.write().unwrap_or_else(PoisonError::into_inner);
        created.retain(|pool| !pool.is_over());
    }

    /// Somebody needs memory: all pools of a GPU give back what nothing uses.
    pub(crate) fn trim_all(&self, process: &Process, gpu: usize) {
        for pool in self
            .all()
            .iter()
            .filter(|pool| pool.place == Place::Gpu(gpu))
        {
            pool.try_trim(process, 0);
        }
    }

    /// As [`Pools::trim_all`], for a pool that trims itself.
    pub(super) fn trim_others(&self, process: &Process, one: &Pool) {
        for pool in self.all() {
            if pool.place == one.place && !std::ptr::eq(&raw const *pool, one) {
                pool.try_trim(process, 0);
            }
        }
    }
}

impl Driver {
    /// cuMemPoolCreate; `max_size` 0 is no bound. Returns the handle.
    pub fn create_pool(&self, ordinal: i32, max_size: u64) -> Result<usize> {
        self.gpu(ordinal)?;
        self.create_pool_in(Place::Gpu(ordinal as usize), max_size)
    }

    /// cuMemPoolCreate in any place.
    pub fn create_pool_in(&self, place: Place, max_size: u64) -> Result<usize> {
        let pool = Pool::new(place, max_size);
        let mut created = self.process.pools.created.write();
        created
            .as_mut()
            .map_err(|_| Error::Unknown)?
            .push(pool.clone());
        Ok(handle_of(&pool))
    }

    /// The pool with this handle.
    pub fn pool(&self, handle: usize) -> Result<Arc<Pool>> {
        let known = self.process.pools.all().into_iter();
        let mut alive = known.filter(|pool| !pool.is_destroyed());
        alive
            .find(|pool| handle_of(pool) == handle)
            .ok_or(Error::InvalidValue)
    }

    /// cuMemPoolDestroy: what is allocated from it stays good.
    pub fn destroy_pool(&self, handle: usize) -> Result<()> {
        let pool = self.pool(handle)?;
        let pools = &self.process.pools;
        if let Ok(seat) = pools.seat(pool.place) {
            if Arc::ptr_eq(&seat.default, &pool) {
                return Err(Error::InvalidValue);
            }
            let mut current = lock(&seat.current);
            if Arc::ptr_eq(&current, &pool) {
                *current = seat.default.clone();
            }
        }
        pool.destroy();
        pools.settle(&self.process);
        Ok(())
    }

    /// cuMemGetDefaultMemPool, cuDeviceGetDefaultMemPool; the handle.
    pub fn default_pool(&self, place: Place) -> Result<usize> {
        Ok(handle_of(&self.process.pools.seat(place)?.default))
    }

    /// cuMemGetMemPool, cuDeviceGetMemPool; the handle.
    pub fn current_pool(&self, place: Place) -> Result<usize> {
        Ok(handle_of(&*lock(&self.process.pools.seat(place)?.current)))
    }

    /// cuMemSetMemPool, cuDeviceSetMemPool: of a pool in that very place.
    pub fn set_current_pool(&self, place: Place, handle: usize) -> Result<()> {
        let seat = self.process.pools.seat(place)?;
        let pool = self.pool(handle)?;
        if pool.place != place {
            return Err(Error::InvalidValue);
        }
        *lock(&seat.current) = pool;
        Ok(())
    }

    /// cuMemPoolTrimTo.
    pub fn trim_pool(&self, handle: usize, keep: u64) -> Result<()> {
        self.pool(handle)?.trim(&self.process, keep);
        Ok(())
    }

    /// cuMemPoolSetAccess of one GPU.
    pub fn set_pool_access(&self, handle: usize, ordinal: i32, access: Access) -> Result<()> {
        let pool = self.pool(handle)?;
        self.gpu(ordinal)?;
        pool.set_access(&self.process, ordinal as usize, access)
    }

    /// cuMemPoolGetAccess of one GPU.
    pub fn pool_access(&self, handle: usize, ordinal: i32) -> Result<Access> {
        self.gpu(ordinal)?;
        Ok(self.pool(handle)?.access(ordinal as usize))
    }

    /// cuMemPoolGetAttribute.
    pub fn pool_attribute(&self, handle: usize, attribute: PoolAttribute) -> Result<u64> {
        Ok(self.pool(handle)?.attribute(attribute))
    }

    /// cuMemPoolSetAttribute.
    pub fn set_pool_attribute(
        &self,
        handle: usize,
        attribute: PoolAttribute,
        value: u64,
    ) -> Result<()> {
        self.pool(handle)?.set_attribute(attribute, value)
    }

    /// cuMemAllocAsync, cuMemAllocFromPoolAsync: from the pool that is named,
    /// or from the current one of the stream's GPU.
    pub fn alloc_async(&self, stream: &Stream, pool: Option<usize>, size: u64) -> Result<u64> {
        let context = stream.context()?;
        let pool = match pool {
            Some(handle) => self.pool(handle)?,
            None => lock(&self.process.pools.seats[context.gpu()].current).clone(),
        };
        context.alloc_async(stream, &pool, size)
    }

    /// cuMemFreeAsync of what a pool or cuMemAlloc gave.
    pub fn free_async(&self, stream: &Stream, address: u64) -> Result<()> {
        let context = stream.context()?;
        if let Some(pool) = self.process.pools.owner(address) {
            return context.free_async(stream, &pool, address);
        }
        if let Some(memory) = self.process.graph_memories.at(address) {
            context.free_graph_memory(stream, &memory)?;
            drop(memory);
            self.process.graph_memories.prune(&self.process);
            return Ok(());
        }
        let owner = self.contexts.find(|context| {
            context
                .allocation(address)
                .is_some_and(|(start, _)| start == address)
        });
        context.free_plain_async(stream, owner.ok_or(Error::InvalidValue)?, address)
    }
}
