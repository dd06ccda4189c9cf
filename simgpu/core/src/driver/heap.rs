//! cuMemAlloc: large objects have granules of their own, small ones share them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::physical::{Physical, Purpose, Wishes};
use super::place::Place;
use super::process::Process;
use super::space::{Access, Space};
use crate::config::GRANULE;
use crate::{Error, Result};

/// Objects start at multiples of this, as the driver's do.
const ALIGN: u64 = 512;
/// Objects from this size on do not share granules.
const LARGE: u64 = 1 << 20;

/// What a context has allocated.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    /// Size asked for, by address.
    objects: BTreeMap<u64, u64>,
    /// Free ranges (length by offset) of each shared granule by its address.
    shared: BTreeMap<u64, BTreeMap<u64, u64>>,
    /// Which objects are managed memory.
    managed: BTreeSet<u64>,
    /// Other GPUs that may access all of it.
    peers: BTreeSet<usize>,
}

impl Heap {
    /// Allocates `size` bytes; says also whether granules had to be mapped.
    pub(crate) fn alloc(
        &mut self,
        process: &Process,
        gpu: usize,
        size: u64,
    ) -> Result<(u64, bool)> {
        if size == 0 {
            return Err(Error::InvalidValue);
        }
        let wanted = size
            .checked_next_multiple_of(ALIGN)
            .ok_or(Error::OutOfMemory)?;
        let shared = if size < LARGE {
            self.take_shared(wanted)
        } else {
            None
        };
        let address = match shared {
            Some(address) => address,
            None if size >= LARGE => {
                let size = size
                    .checked_next_multiple_of(GRANULE)
                    .ok_or(Error::OutOfMemory)?;
                self.map(process, gpu, size)?
            }
            None => {
                let granule = self.map(process, gpu, GRANULE)?;
                self.shared
                    .insert(granule, BTreeMap::from([(wanted, GRANULE - wanted)]));
                granule
            }
        };
        self.objects.insert(address, size);
        Ok((address, shared.is_none()))
    }

    /// Allocates whole granules whose addresses fit into 32 bits.
    pub(crate) fn alloc_low(&mut self, process: &Process, gpu: usize, size: u64) -> Result<u64> {
        if size == 0 {
            return Err(Error::InvalidValue);
        }
        let whole = size
            .checked_next_multiple_of(GRANULE)
            .ok_or(Error::OutOfMemory)?;
        let address = map_at(process, gpu, whole, |space| space.reserve_low(whole))?;
        self.objects.insert(address, size);
        Ok(address)
    }

    /// New memory that the peers may access too.
    fn map(&self, process: &Process, gpu: usize, size: u64) -> Result<u64> {
        let address = map_new(process, gpu, size)?;
        let mut space = process.space_mut();
        for peer in &self.peers {
            space.set_access(address, size, *peer, Access::ReadWrite)?;
        }
        Ok(address)
    }

    /// Lets another GPU access what is here and will be, or no longer.
    pub(crate) fn set_peer(&mut self, process: &Process, gpu: usize, access: Access) -> Result<()> {
        if access == Access::None {
            self.peers.remove(&gpu);
        } else {
            self.peers.insert(gpu);
        }
        let own = |start: &u64, size: u64| size >= LARGE && !self.managed.contains(start);
        let large = self
            .objects
            .iter()
            .filter(|(start, size)| own(start, **size));
        let large = large.map(|(start, size)| (*start, size.next_multiple_of(GRANULE)));
        let shared = self.shared.keys().map(|start| (*start, GRANULE));
        let mut space = process.space_mut();
        for (start, len) in large.chain(shared) {
            space.set_access(start, len, gpu, access)?;
        }
        Ok(())
    }

    /// Notes managed memory, which has granules of its own whatever its size.
    pub(crate) fn insert_managed(&mut self, address: u64, size: u64) {
        self.objects.insert(address, size);
        self.managed.insert(address);
    }

    /// Whether the object around an address is managed memory.
    pub(crate) fn is_managed(&self, address: u64) -> bool {
        let object = self.object(address);
        object.is_some_and(|(start, _)| self.managed.contains(&start))
    }

    /// First fit.
    fn take_shared(&mut self, wanted: u64) -> Option<u64> {
        for (granule, free) in &mut self.shared {
            let fit = free.iter().find(|(_, len)| **len >= wanted);
            if let Some((offset, len)) = fit.map(|(offset, len)| (*offset, *len)) {
                free.remove(&offset);
                if len > wanted {
                    free.insert(offset + wanted, len - wanted);
                }
                return Some(granule + offset);
            }
        }
        None
    }

    /// Frees the object that starts at `address`; says whether granules were
    /// unmapped.
    pub(crate) fn free(&mut self, process: &Process, address: u64) -> Result<bool> {
        let size = self.objects.remove(&address).ok_or(Error::InvalidValue)?;
        if self.managed.remove(&address) {
            super::managed::release(process, address, size.next_multiple_of(GRANULE))?;
            return Ok(true);
        }
        let granule = address & !(GRANULE - 1);
        let Some(free) = self.shared.get_mut(&granule) else {
            unmap(process, address, size.next_multiple_of(GRANULE))?;
            return Ok(true);
        };
        let (mut offset, mut len) = (address - granule, size.next_multiple_of(ALIGN));
        if let Some(after) = free.remove(&(offset + len)) {
            len += after;
        }
        let before = free
            .range(..offset)
            .next_back()
            .map(|(start, len)| (*start, *len));
        if let Some((start, before)) = before.filter(|(start, len)| start + len == offset) {
            (offset, len) = (start, len + before);
        }
        free.insert(offset, len);
        if len == GRANULE {
            self.shared.remove(&granule);
            unmap(process, granule, GRANULE)?;
        }
        Ok(len == GRANULE)
    }

    /// Frees everything.
    pub(crate) fn clear(&mut self, process: &Process) {
        while let Some((address, _)) = self.objects.first_key_value() {
            let address = *address;
            if self.free(process, address).is_err() {
                return;
            }
        }
    }

    /// The object around an address: start and size asked for.
    pub(crate) fn object(&self, address: u64) -> Option<(u64, u64)> {
        let (start, size) = self.objects.range(..=address).next_back()?;
        (address - start < *size).then_some((*start, *size))
    }
}

/// New device memory at a new address, accessible to its GPU alone.
pub(super) fn map_new(process: &Process, gpu: usize, size: u64) -> Result<u64> {
    map_at(process, gpu, size, |space| space.reserve(size, 0, 0))
}

/// The same in any place: in the host it is the program's to access, and no GPU's.
pub(super) fn map_on(process: &Process, place: Place, size: u64) -> Result<u64> {
    if let Some(gpu) = place.gpu() {
        return map_new(process, gpu, size);
    }
    let physical = Physical::on_host(process, place, size)?;
    let mut space = process.space_mut();
    let address = space.reserve(size, 0, 0)?;
    space.map(address, size, &physical)?;
    space.set_host_access(address, size, Access::ReadWrite)?;
    Ok(address)
}

/// The same at an address that `reserve` finds.
fn map_at(
    process: &Process,
    gpu: usize,
    size: u64,
    reserve: impl FnOnce(&mut Space) -> Result<u64>,
) -> Result<u64> {
    let physical = Physical::new(process, gpu, size, Purpose::Data, Wishes::default())?;
    let mut space = process.space_mut();
    let address = reserve(&mut space)?;
    space.map(address, size, &physical)?;
    space.set_access(address, size, gpu, Access::ReadWrite)?;
    Ok(address)
}

/// Undoes [`map_new`].
pub(super) fn unmap(process: &Process, address: u64, size: u64) -> Result<()> {
    let unmapped: Vec<Arc<Physical>> = process.space_mut().unmap(address, size)?;
    drop(unmapped);
    process.space_mut().unreserve(address, size)
}

#[cfg(test)]
mod tests {
    use super::super::process::Process;
    use super::*;
    use crate::machine::open_small;

    #[test]
    fn small_objects_share_a_granule_and_give_it_back() {
        let (_dir, machine) = open_small(8);
        let identity = machine.attach().unwrap();
        let process = Process::new(machine, identity);
        let mut heap = Heap::default();
        let objects: Vec<_> = [1, 512, 513, 4096, 100_000, 7]
            .into_iter()
            .map(|size| (heap.alloc(&process, 0, size).unwrap().0, size))
            .collect();
        assert_eq!(process.memory_info(0).0, 6 << 20);
        for pair in objects.windows(2) {
            assert!(pair[0].0.is_multiple_of(ALIGN) && pair[0].0 + pair[0].1 <= pair[1].0);
        }
        assert_eq!(heap.object(objects[3].0 + 5), Some(objects[3]));
        // Out of order, so that free ranges join on both sides.
        for index in [1, 4, 0, 3, 2, 5] {
            heap.free(&process, objects[index].0).unwrap();
        }
        assert_eq!(process.memory_info(0).0, 8 << 20);
        assert_eq!(heap.free(&process, objects[0].0), Err(Error::InvalidValue));
    }

    #[test]
    fn low_objects_have_32_bit_addresses_and_granules_of_their_own() {
        let (_dir, machine) = open_small(8);
        let identity = machine.attach().unwrap();
        let process = Process::new(machine, identity);
        let mut heap = Heap::default();
        let small = heap.alloc_low(&process, 0, 5).unwrap();
        let large = heap.alloc_low(&process, 0, 3 << 20).unwrap();
        assert!(
            small < large.max(1 << 32) && large < 1 << 32,
            "{small:#x} {large:#x}"
        );
        assert_eq!(process.memory_info(0).0, 2 << 20);
        assert_eq!(heap.object(small), Some((small, 5)));
        assert_eq!(heap.alloc_low(&process, 0, 0), Err(Error::InvalidValue));
        for object in [small, large] {
            assert_eq!(heap.free(&process, object), Ok(true));
        }
        assert_eq!(process.memory_info(0).0, 8 << 20);
    }

    #[test]
    fn clear_frees_all_and_capacity_binds() {
        let (_dir, machine) = open_small(8);
        let identity = machine.attach().unwrap();
        let process = Process::new(machine, identity);
        let mut heap = Heap::default();
        heap.alloc(&process, 0, 3 << 20).unwrap();
        heap.alloc(&process, 0, 100).unwrap();
        assert_eq!(heap.alloc(&process, 0, 3 << 20), Err(Error::OutOfMemory));
        heap.clear(&process);
        assert_eq!(process.memory_info(0).0, 8 << 20);
    }
}
