//! The driver's virtual memory calls as the program makes them. Physical memory that may swap gets a
//! handle of ours and is made of pieces of chunks, wherever and however often it is mapped, so that it
//! swaps and is accounted like the arena. Once another process or device is given it, one allocation of
//! the driver's takes their place, and stays. Everything else (other kinds and places of memory, what
//! was imported) is the driver's from the beginning, left alone and counted.
//!
//! `request` tells what may swap, `book` knows the handles and mappings, `whole` puts pieces
//! together, `others` says what must stay; here is what the hooks ask. The book's lock is taken before
//! a GPU's memory, and never held while a gate, the daemon or other GPUs are waited for, as the driver
//! does when memory is bound to a multicast object.

mod book;
mod others;
mod request;
mod whole;

#[cfg(test)]
mod tests;

pub use book::{Book, Bundle, Span, What};
pub use others::Part;

use std::sync::Arc;

use crate::agent::Agent;
use crate::cuda::{Access, AllocationProp, Location, Status, Stream};
use crate::device::Device;
use crate::enter::Clue;
use crate::gate::{Locked, lock};
use crate::memory::KeptFor;
use crate::ops::{Found, Owner};
use crate::record::AllocKind;

type Result<T> = std::result::Result<T, Status>;

impl Agent {
    /// cuMemCreate. `call` makes the driver do it, and gives its handle.
    pub fn create_physical(
        &self,
        bytes: u64,
        prop: &AllocationProp,
        flags: u64,
        mut call: impl FnMut() -> Result<u64>,
    ) -> Result<u64> {
        let device = match prop.location {
            place if place.kind == Location::DEVICE => self.device(place.id),
            place if place.is_host() => None,
            // Some part of a GPU, which only the driver can tell: counted where the program works.
            _ => self.current_known().map(|(device, _)| device),
        };
        let Some(device) = device else {
            return call();
        };
        let ordinal = device.ordinal;
        if request::swaps(bytes, prop, flags, device.memory().granularity()) {
            self.try_request(device, prop)?;
            let pieces = self.under_pressure(device, || device.create(bytes))?;
            device.record_alloc(bytes, AllocKind::Arena);
            return Ok(self.book().add(ordinal, bytes, *prop, pieces));
        }
        self.under_pressure(device, || Ok(device.reserve(bytes)?))?;
        let created = device.insist(|| Ok(call()?));
        match created {
            Ok(handle) => {
                self.book().add_alone(handle, Some((ordinal, bytes)));
                device.record_alloc(bytes, AllocKind::Driver);
            }
            Err(_) => device.memory().discount_outside(bytes),
        }
        created
    }

    /// cuMemRelease.
    pub fn release_physical(&self, handle: u64, call: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut book = self.book();
        if !Book::is_ours(handle) {
            call()?;
        }
        let gone = book.release(handle)?;
        self.drop_physical(gone)
    }

    /// cuMemMap.
    pub fn map_physical(
        &self,
        at: u64,
        bytes: u64,
        offset: u64,
        handle: u64,
        flags: u64,
        call: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if Book::is_ours(handle) {
            if flags != 0 {
                return Err(Status::INVALID_VALUE);
            }
            // So says driver 580.159, although the documentation has it invalid.
            if offset != 0 {
                return Err(Status::NOT_SUPPORTED);
            }
            return self.map_ours(at, bytes, handle);
        }
        let mut book = self.book();
        if book.touches(at, bytes) {
            return Err(Status::INVALID_VALUE);
        }
        call()?;
        book.map(at, bytes, handle);
        Ok(())
    }

    fn map_ours(&self, at: u64, bytes: u64, handle: u64) -> Result<()> {
        let mut book = self.book();
        let bundle = match book.held(handle)? {
            What::Pieces(bundle) => Arc::clone(bundle),
            What::Whole(whole) => {
                // The driver cannot see what is mapped there and swapped out.
                if book.touches(at, bytes) {
                    return Err(Status::INVALID_VALUE);
                }
                self.driver.map(at, bytes, whole.handle)?;
                book.map(at, bytes, handle);
                return Ok(());
            }
            What::Alone { .. } => return Err(Status::INVALID_VALUE),
        };
        let device = self.owner(&bundle)?;
        let granularity = device.memory().granularity();
        let aligned = at.is_multiple_of(granularity) && bytes.is_multiple_of(granularity);
        let fits = (1..=bundle.bytes).contains(&bytes);
        if !aligned || !fits || book.touches(at, bytes) {
            return Err(Status::INVALID_VALUE);
        }
        // All of a handle at addresses that were seen to be reserved the driver takes. Anything
        // else it must see at once, and not at the next swap-in: within work of this GPU.
        let room = book.reservation(at).map(|(start, size)| start + size - at);
        if room.is_some_and(|room| bytes > room) {
            return Err(Status::INVALID_VALUE);
        }
        let sure = bytes == bundle.bytes && room.is_some();
        let mut _call = None;
        if !sure {
            drop(book);
            _call = Some(self.enter_on(Stream::LEGACY, &|clue| clue(Clue::Every)));
            book = self.book();
            if let What::Whole(_) = book.held(handle)? {
                // It was exported meanwhile.
                drop(book);
                return self.map_ours(at, bytes, handle);
            }
        }
        let mut memory = device.memory();
        if !sure && (!memory.are_resident(&bundle.pieces) || book.touches(at, bytes)) {
            return Err(Status::INVALID_VALUE);
        }
        memory.map(&bundle.placed(at, bytes))?;
        drop(memory);
        book.map(at, bytes, handle);
        Ok(())
    }

    /// cuMemUnmap. `call` makes the driver do it for a part.
    pub fn unmap_physical(
        &self,
        at: u64,
        bytes: u64,
        call: impl Fn(u64, u64) -> Result<()>,
    ) -> Result<()> {
        let mut book = self.book();
        let Some(spans) = book.spans(at, bytes)? else {
            call(at, bytes)?;
            return book
                .starts(at, bytes)
                .into_iter()
                .try_for_each(|start| self.drop_physical(book.unmap(start)));
        };
        spans.into_iter().try_for_each(|span| {
            match &span.bundle {
                Some(bundle) => {
                    let placed = bundle.placed(span.at, span.bytes);
                    self.owner(bundle)?.memory().unmap(&placed)?;
                }
                None => call(span.at, span.bytes)?,
            }
            self.drop_physical(book.unmap(span.at))
        })
    }

    /// cuMemSetAccess. `call` makes the driver do it for a part.
    pub fn set_access(
        &self,
        at: u64,
        bytes: u64,
        access: &[Access],
        call: impl Fn(u64, u64) -> Result<()>,
    ) -> Result<()> {
        self.hold_for_others(at, bytes, access)?;
        let book = self.book();
        let Some(spans) = book.spans(at, bytes)? else {
            return call(at, bytes);
        };
        let mut spans = spans.into_iter().peekable();
        while let Some(span) = spans.next() {
            let Some(bundle) = span.bundle else {
                call(span.at, span.bytes)?;
                continue;
            };
            // Neighbours on the same GPU in one call of the driver.
            let mut placed = bundle.placed(span.at, span.bytes);
            let same = |next: &Span| {
                let next = next.bundle.as_ref();
                next.is_some_and(|next| next.ordinal == bundle.ordinal)
            };
            while let Some(next) = spans.next_if(same) {
                let bundles = next.bundle.iter();
                placed.extend(bundles.flat_map(|bundle| bundle.placed(next.at, next.bytes)));
            }
            self.owner(&bundle)?.memory().set_access(&placed, access)?;
        }
        Ok(())
    }

    /// Before others than its own GPU may use memory of ours: it comes back and stays for good,
    /// since this GPU's gate does not stop them.
    fn hold_for_others(&self, at: u64, bytes: u64, access: &[Access]) -> Result<()> {
        let spans = self.book().spans(at, bytes)?.unwrap_or_default();
        for span in spans {
            let Some(bundle) = &span.bundle else {
                continue;
            };
            let own = Location::device(bundle.ordinal);
            if access.iter().all(|it| it.location == own || it.rights == 0) {
                continue;
            }
            if !bundle.prop.is_private() {
                // Later nothing would stop them while it is put together.
                self.make_whole(bundle, KeptFor::Devices)?;
                continue;
            }
            let device = self.owner(bundle)?;
            // Within work of this GPU all its memory is there.
            let _call = self.enter_on(Stream::LEGACY, &|clue| clue(Clue::Address(span.at)));
            let book = self.book();
            if book.is_mapped(span.at, bundle) {
                device.memory().hold(&bundle.pieces, KeptFor::Devices)?;
            }
        }
        Ok(())
    }

    /// Keeps what is mapped around an address where it is, for good. Within work of its GPU.
    pub(crate) fn hold_mapping(&self, address: u64) -> Result<()> {
        let book = self.book();
        match book.bundle_at(address) {
            Some((_, _, bundle)) => {
                let mut memory = self.owner(bundle)?.memory();
                memory.hold(&bundle.pieces, KeptFor::Devices)
            }
            // One allocation of the driver's by now, which never leaves.
            None if book.is_ours_at(address) => Ok(()),
            None => Err(Status::INVALID_VALUE),
        }
    }

    /// Whether what is mapped around an address is held where it is.
    pub(crate) fn is_mapping_held(&self, address: u64) -> bool {
        let book = self.book();
        book.bundle_at(address).is_some_and(|(_, _, bundle)| {
            let owner = self.owner(bundle);
            owner.is_ok_and(|device| device.memory().are_held(&bundle.pieces))
        })
    }

    /// cuMemGetAccess; nothing if the driver knows.
    pub fn get_access(&self, location: Location, address: u64) -> Option<Result<u64>> {
        let book = self.book();
        let (at, bytes, bundle) = book.bundle_at(address)?;
        Some(self.owner(bundle).map(|device| {
            let placed = bundle.placed(at, bytes)[0];
            u64::from(device.memory().access(placed, location))
        }))
    }

    /// cuMemAddressReserve: the driver gave addresses.
    pub fn addresses_reserved(&self, at: u64, bytes: u64) {
        self.book().reserve(at, bytes);
    }

    /// cuMemAddressFree.
    pub fn free_addresses(
        &self,
        at: u64,
        bytes: u64,
        call: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let mut book = self.book();
        if book.spans(at, bytes)?.is_some() {
            return Err(Status::INVALID_VALUE);
        }
        call()?;
        book.unreserve(at);
        Ok(())
    }

    /// cuMemRetainAllocationHandle. `call` makes the driver do it.
    pub fn retain_physical(&self, address: u64, call: impl FnOnce() -> Result<u64>) -> Result<u64> {
        // What cuMemAlloc gives has no handle, whatever is behind it.
        if self.allocated_at(address).is_some() {
            return Err(Status::INVALID_VALUE);
        }
        let mut book = self.book();
        if book.is_ours_at(address) {
            return book.retain(address).ok_or(Status::INVALID_VALUE);
        }
        let handle = call()?;
        book.retain(address);
        Ok(handle)
    }

    /// cuMemGetAllocationPropertiesFromHandle; nothing if the driver knows.
    pub fn physical_prop(&self, handle: u64) -> Option<Result<AllocationProp>> {
        Book::is_ours(handle).then(|| match self.book().held(handle)? {
            What::Pieces(bundle) => Ok(bundle.prop),
            What::Whole(whole) => Ok(whole.prop),
            What::Alone { .. } => Err(Status::INVALID_VALUE),
        })
    }

    /// The program's own mapping of memory of ours at an address.
    pub fn mapped_at(&self, address: u64) -> Option<Found> {
        let book = self.book();
        let (at, bytes, bundle) = book.bundle_at(address)?;
        let current = self.driver.current_device().unwrap_or(bundle.ordinal);
        let placed = bundle.placed(at, bytes);
        let memory = self.owner(bundle).ok()?.memory();
        Some(Found {
            at,
            bytes,
            range: book.reservation(at).unwrap_or((at, bytes)),
            rights: memory.access(*placed.first()?, Location::device(current)),
            handle_types: bundle.prop.handle_types,
            ordinal: bundle.ordinal,
            id: bundle.number,
            owner: Owner::Program,
        })
    }

    fn book(&self) -> Locked<'_, Book> {
        lock(&self.vmm)
    }

    fn owner(&self, bundle: &Bundle) -> Result<&Device> {
        self.device(bundle.ordinal).ok_or(Status::UNKNOWN)
    }

    /// Frees what nothing needs any more.
    fn drop_physical(&self, gone: Option<What>) -> Result<()> {
        match gone {
            Some(What::Pieces(bundle)) => {
                let device = self.owner(&bundle)?;
                device.memory().destroy(&bundle.pieces)?;
                device.record_free(bundle.bytes, AllocKind::Arena);
                Ok(())
            }
            Some(What::Whole(whole)) => {
                // What cannot be freed stays counted: it is still there.
                self.driver.release(whole.handle)?;
                if let Some(device) = self.device(whole.ordinal) {
                    device.memory().discount_kept(whole.bytes, whole.why);
                    // It was created as one that may be swapped.
                    device.record_free(whole.bytes, AllocKind::Arena);
                }
                Ok(())
            }
            Some(What::Alone {
                counted: Some((ordinal, bytes)),
                ..
            }) => {
                if let Some(device) = self.device(ordinal) {
                    device.memory().discount_outside(bytes);
                    device.record_free(bytes, AllocKind::Driver);
                }
                Ok(())
            }
            Some(What::Alone { .. }) | None => Ok(()),
        }
    }
}
