//! The process's device address space.
//!
//! Addresses are real reservations that no one may touch, so the host
//! dereferencing one gets SIGSEGV. A table leads from each granule of address
//! space to the granule of device memory behind it; only the engines read it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use super::physical::Physical;
use super::place::{HostGranules, Place};
use crate::config::GRANULE;
use crate::machine::{Machine, hide};
use crate::{Error, Result};

/// Where low addresses are: above a program that is not relocated, and below 2 GiB.
const LOW: Range<u64> = 1 << 30..1 << 31;

/// What a GPU may do with a mapped range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nothing.
    None,
    /// Read.
    Read,
    /// Read and write.
    ReadWrite,
}

/// What is behind one granule of address space; 0 is nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Page(u64);

impl Page {
    // [1 mapped | 7 gpu, all ones for the host | 8 may write, a bit for each gpu | 8 may read | 32 granule]
    const MAPPED: u64 = 1 << 63;

    const HOST: usize = 0x7f;

    fn new(place: Place, granule: u32) -> Self {
        let gpu = place.gpu().unwrap_or(Self::HOST);
        Self(Self::MAPPED | (gpu as u64) << 48 | u64::from(granule))
    }

    fn is_mapped(self) -> bool {
        self.0 & Self::MAPPED != 0
    }

    fn gpu(self) -> Option<usize> {
        Some((self.0 >> 48) as usize & Self::HOST).filter(|gpu| *gpu != Self::HOST)
    }

    fn granule(self) -> u32 {
        self.0 as u32
    }

    fn access(self, gpu: usize) -> Access {
        match (self.0 >> (32 + gpu) & 1, self.0 >> (40 + gpu) & 1) {
            (_, 1) => Access::ReadWrite,
            (1, _) => Access::Read,
            _ => Access::None,
        }
    }

    fn set_access(&mut self, gpu: usize, access: Access) {
        let (read, write) = (1 << (32 + gpu), 1 << (40 + gpu));
        self.0 &= !(read | write);
        self.0 |= match access {
            Access::None => 0,
            Access::Read => read,
            Access::ReadWrite => read | write,
        };
    }
}

/// One reserved range.
#[derive(Debug)]
struct Region {
    size: u64,
    /// Where the whole reservation starts and how long it is, alignment included.
    room: (usize, usize),
    pages: Vec<Page>,
    /// What is mapped, by first page.
    mappings: BTreeMap<usize, Mapping>,
}

/// An allocation that is mapped.
#[derive(Debug)]
struct Mapping {
    pages: usize,
    physical: Arc<Physical>,
    /// What the program itself may do with it, if it is of the host.
    host: Access,
}

impl Region {
    /// Fails unless whole mappings fill these pages.
    fn check_whole(&self, first: usize, count: usize) -> Result<()> {
        let (mut next, end) = (first, first + count);
        while next < end {
            let mapping = self.mappings.get(&next).ok_or(Error::InvalidValue)?;
            next += mapping.pages;
        }
        if next == end {
            Ok(())
        } else {
            Err(Error::InvalidValue)
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: reserved for this region and inaccessible, so nothing refers to it.
        unsafe { libc::munmap(self.room.0 as *mut _, self.room.1) };
    }
}

/// A run of device bytes that is contiguous in this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) start: *mut u8,
    pub(crate) len: usize,
}

/// All reserved ranges by address.
#[derive(Debug, Default)]
pub(crate) struct Space {
    regions: BTreeMap<u64, Region>,
}

impl Space {
    /// Reserves `size` bytes at a multiple of `align`, at `hint` if that is free.
    pub(crate) fn reserve(&mut self, size: u64, align: u64, hint: u64) -> Result<u64> {
        let align = if align == 0 { GRANULE } else { align };
        if size == 0 || !size.is_multiple_of(GRANULE) || !align.is_power_of_two() {
            return Err(Error::InvalidValue);
        }
        let align = align.max(GRANULE);
        let wanted = (hint != 0 && hint.is_multiple_of(align))
            .then(|| reserve_at(hint, size, libc::MAP_FIXED_NOREPLACE))
            .flatten();
        match wanted {
            Some(room) => Ok(self.insert(hint, size, room)),
            None => self.reserve_anywhere(size, align),
        }
    }

    /// Reserves whole granules in [`LOW`], for programs that have 32 bits for an address.
    pub(crate) fn reserve_low(&mut self, size: u64) -> Result<u64> {
        // By trial: MAP_32BIT exists on x86 alone.
        let mut starts = LOW.step_by(GRANULE as usize);
        let free = starts.find_map(|address| {
            let fits = size <= LOW.end - address;
            let room = fits.then(|| reserve_at(address, size, libc::MAP_FIXED_NOREPLACE))??;
            Some((address, room))
        });
        let (address, room) = free.ok_or(Error::OutOfMemory)?;
        Ok(self.insert(address, size, room))
    }

    fn reserve_anywhere(&mut self, size: u64, align: u64) -> Result<u64> {
        let room_size = size.checked_add(align).ok_or(Error::OutOfMemory)?;
        let room = reserve_at(0, room_size, 0).ok_or(Error::OutOfMemory)?;
        Ok(self.insert((room.0 as u64).next_multiple_of(align), size, room))
    }

    fn insert(&mut self, address: u64, size: u64, room: (usize, usize)) -> u64 {
        let pages = vec![Page::default(); (size / GRANULE) as usize];
        self.regions.insert(
            address,
            Region {
                size,
                room,
                pages,
                mappings: BTreeMap::new(),
            },
        );
        address
    }

    /// Gives a reserved range back; nothing may be mapped in it.
    pub(crate) fn unreserve(&mut self, address: u64, size: u64) -> Result<()> {
        match self.regions.get(&address) {
            Some(region) if region.size == size && region.mappings.is_empty() => {
                self.regions.remove(&address);
                Ok(())
            }
            _ => Err(Error::InvalidValue),
        }
    }

    /// Maps an allocation, of which `size` must be all; nobody has access to it yet.
    pub(crate) fn map(&mut self, address: u64, size: u64, physical: &Arc<Physical>) -> Result<()> {
        // Driver 580.159 maps no part, whatever cuMemMap's documentation says.
        if size != physical.size() {
            return Err(Error::NotSupported);
        }
        let (region, first, count) = self.pages_mut(address, size)?;
        let pages = &mut region.pages[first..first + count];
        if pages.iter().any(|page| page.is_mapped()) {
            return Err(Error::InvalidValue);
        }
        for (page, granule) in pages.iter_mut().zip(&physical.granules) {
            *page = Page::new(physical.place, *granule);
        }
        let mapping = Mapping {
            pages: count,
            physical: physical.clone(),
            host: Access::None,
        };
        region.mappings.insert(first, mapping);
        Ok(())
    }

    /// Unmaps whole mappings that fill the range, or nothing where nothing is mapped in it; returns what was mapped,
    /// whose last reference is better dropped outside any lock.
    pub(crate) fn unmap(&mut self, address: u64, size: u64) -> Result<Vec<Arc<Physical>>> {
        let (region, first, count) = self.pages_mut(address, size)?;
        let end = first + count;
        if !region.pages[first..end].iter().any(|page| page.is_mapped()) {
            return Ok(Vec::new());
        }
        region.check_whole(first, count)?;
        region.pages[first..end].fill(Page::default());
        let mut exposed = region.mappings.range(first..end);
        if exposed.any(|(_, mapping)| mapping.host != Access::None) {
            hide(address, size);
        }
        let starts: Vec<_> = region
            .mappings
            .range(first..end)
            .map(|(start, _)| *start)
            .collect();
        Ok(starts
            .iter()
            .filter_map(|start| region.mappings.remove(start))
            .map(|mapping| mapping.physical)
            .collect())
    }

    /// Lets a GPU access a range of whole mappings.
    pub(crate) fn set_access(
        &mut self,
        address: u64,
        size: u64,
        gpu: usize,
        access: Access,
    ) -> Result<()> {
        let (region, first, count) = self.pages_mut(address, size)?;
        region.check_whole(first, count)?;
        for page in &mut region.pages[first..first + count] {
            page.set_access(gpu, access);
        }
        Ok(())
    }

    /// Lets the program access a range of whole mappings, all of the host.
    pub(crate) fn set_host_access(
        &mut self,
        address: u64,
        size: u64,
        access: Access,
    ) -> Result<()> {
        let (region, first, count) = self.pages_mut(address, size)?;
        let start = address - first as u64 * GRANULE;
        region.check_whole(first, count)?;
        let mappings = || region.mappings.range(first..first + count);
        if mappings().any(|(_, mapping)| mapping.physical.place.gpu().is_some()) {
            return Err(Error::NotSupported);
        }
        for (page, mapping) in region.mappings.range_mut(first..first + count) {
            let granules = &mapping.physical.granules;
            let at = start + *page as u64 * GRANULE;
            HostGranules::get()?.expose(granules, at, access)?;
            mapping.host = access;
        }
        Ok(())
    }

    /// What the program itself may do at an address.
    pub(crate) fn host_access(&self, address: u64) -> Result<Access> {
        let (start, region) = self.region(address).ok_or(Error::InvalidValue)?;
        let page = ((address - start) / GRANULE) as usize;
        let found = region.mappings.range(..=page).next_back();
        let found = found.filter(|(first, mapping)| page < *first + mapping.pages);
        found
            .map(|(_, mapping)| mapping.host)
            .ok_or(Error::InvalidValue)
    }

    /// What a GPU may do at an address.
    pub(crate) fn access(&self, address: u64, gpu: usize) -> Result<Access> {
        let page = self.page(address).filter(|page| page.is_mapped());
        page.map(|page| page.access(gpu)).ok_or(Error::InvalidValue)
    }

    /// Whether an address is in a reserved range.
    pub(crate) fn contains(&self, address: u64) -> bool {
        self.region(address).is_some()
    }

    /// The reserved range around an address: start and size.
    pub(crate) fn reservation(&self, address: u64) -> Option<(u64, u64)> {
        self.region(address)
            .map(|(start, region)| (start, region.size))
    }

    /// The mapping around an address: start, size, and what is mapped.
    pub(crate) fn mapping(&self, address: u64) -> Option<(u64, u64, Arc<Physical>)> {
        let (start, region) = self.region(address)?;
        let page = ((address - start) / GRANULE) as usize;
        let (first, mapping) = region.mappings.range(..=page).next_back()?;
        let (start, size) = (
            start + *first as u64 * GRANULE,
            mapping.pages as u64 * GRANULE,
        );
        (page < first + mapping.pages).then(|| (start, size, mapping.physical.clone()))
    }

    /// Where `len` device bytes are, if the GPU may access all of them; with
    /// none, if the GPUs that have them may.
    pub(crate) fn translate(
        &self,
        machine: &Machine,
        address: u64,
        len: usize,
        gpu: Option<usize>,
        wanted: Access,
    ) -> Result<Vec<Segment>> {
        let mut segments: Vec<Segment> = Vec::new();
        let end = address
            .checked_add(len as u64)
            .ok_or(Error::IllegalAddress)?;
        let mut at = address;
        while at < end {
            let page = self.page(at).filter(|page| page.is_mapped());
            let page = page.ok_or(Error::IllegalAddress)?;
            let whose = gpu.or(page.gpu());
            let allowed = match whose.map_or(Access::None, |gpu| page.access(gpu)) {
                Access::None => false,
                Access::Read => wanted == Access::Read,
                Access::ReadWrite => true,
            };
            if !allowed {
                return Err(Error::IllegalAddress);
            }
            // Regions start at multiples of the granule.
            let offset = (at % GRANULE) as usize;
            let len = ((end - at) as usize).min(GRANULE as usize - offset);
            let granule = match page.gpu() {
                Some(gpu) => machine.granule(gpu, page.granule()),
                None => HostGranules::get()?.granule(page.granule()),
            };
            let start = granule.wrapping_add(offset);
            match segments.last_mut() {
                Some(last) if last.start.wrapping_add(last.len) == start => last.len += len,
                _ => segments.push(Segment { start, len }),
            }
            at += len as u64;
        }
        Ok(segments)
    }

    fn region(&self, address: u64) -> Option<(u64, &Region)> {
        let (start, region) = self.regions.range(..=address).next_back()?;
        (address - start < region.size).then_some((*start, region))
    }

    fn page(&self, address: u64) -> Option<Page> {
        let (start, region) = self.region(address)?;
        Some(region.pages[((address - start) / GRANULE) as usize])
    }

    fn pages_mut(&mut self, address: u64, size: u64) -> Result<(&mut Region, usize, usize)> {
        let aligned = address.is_multiple_of(GRANULE) && size.is_multiple_of(GRANULE);
        let found = self.regions.range_mut(..=address).next_back();
        let (start, region) = found
            .filter(|_| aligned && size > 0)
            .ok_or(Error::InvalidValue)?;
        let offset = address - start;
        if offset.checked_add(size).is_none_or(|end| end > region.size) {
            return Err(Error::InvalidValue);
        }
        Ok((
            region,
            (offset / GRANULE) as usize,
            (size / GRANULE) as usize,
        ))
    }
}

/// Reserves address space: where and how long, or none if that is not free.
fn reserve_at(hint: u64, size: u64, flags: libc::c_int) -> Option<(usize, usize)> {
    let size = usize::try_from(size).ok()?;
    // SAFETY: a new inaccessible mapping that replaces none.
    let start = unsafe {
        libc::mmap(
            ptr::with_exposed_provenance_mut(hint as usize),
            size,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | flags,
            -1,
            0,
        )
    };
    (start != libc::MAP_FAILED).then_some((start as usize, size))
}
