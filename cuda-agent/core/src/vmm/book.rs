//! Which handles the program holds and what it mapped where. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use crate::cuda::{AllocationProp, Handle, Status};
use crate::memory::{KeptFor, PieceId, Placed};

/// The top bits of our handles. A driver's handle is an address or a small number.
const TAG: u64 = 0xb5a9 << 48;
/// Of the numbers under which the driver's handles are kept here.
const TAG_MASK: u64 = 0xffff << 48;

/// Physical memory that the program created or got.
#[derive(Debug)]
struct Memo {
    what: What,
    /// cuMemCreate and cuMemRetainAllocationHandle without cuMemRelease.
    references: u32,
    mappings: u32,
    /// It was never mapped, so that nothing was written to it.
    blank: bool,
}

/// What is behind a handle.
#[derive(Debug)]
pub enum What {
    /// Ours to move.
    Pieces(Arc<Bundle>),
    /// Ours no more: the program's handle stands for one allocation of the driver's.
    Whole(Whole),
    /// The driver's, left alone: its handle, and where it is counted with how many bytes.
    Alone {
        /// The driver's.
        handle: u64,
        /// Ordinal and bytes, unless somebody else counts them.
        counted: Option<(i32, u64)>,
    },
}

/// One allocation of the driver's behind a handle of ours.
#[derive(Clone, Copy, Debug)]
pub struct Whole {
    /// The driver's handle.
    pub handle: Handle,
    /// The ordinal of its GPU.
    pub ordinal: i32,
    /// The size of the allocation.
    pub bytes: u64,
    /// As the program asked for it.
    pub prop: AllocationProp,
    /// Who else uses it.
    pub why: KeptFor,
}

/// The memory of one of our handles.
#[derive(Debug)]
pub struct Bundle {
    /// Unlike that of any other.
    pub number: u64,
    /// Its GPU.
    pub ordinal: i32,
    /// In all.
    pub bytes: u64,
    /// As the program asked for it.
    pub prop: AllocationProp,
    /// In the order of the bytes.
    pub pieces: Vec<PieceId>,
}

impl Bundle {
    /// The program's handle.
    fn handle(&self) -> u64 {
        TAG | self.number
    }

    /// The pieces of the first `bytes`, mapped one after another from `at` on.
    pub fn placed(&self, mut at: u64, bytes: u64) -> Vec<Placed> {
        let end = at + bytes;
        let placed = self.pieces.iter().map_while(|&piece| {
            let here = at;
            at += piece.bytes();
            let left = end.checked_sub(here).filter(|left| *left > 0)?;
            Some((piece.first(left.min(piece.bytes())), here))
        });
        placed.collect()
    }
}

/// A mapping of a handle from its first byte on.
#[derive(Clone, Copy, Debug)]
struct Mapping {
    bytes: u64,
    memo: u64,
}

/// The program's handles, mappings and reserved addresses.
#[derive(Debug, Default)]
pub struct Book {
    last: u64,
    memos: BTreeMap<u64, Memo>,
    /// The memos of the driver's handles that the program holds.
    alone: BTreeMap<u64, u64>,
    mappings: BTreeMap<u64, Mapping>,
    reserved: BTreeMap<u64, u64>,
    /// Kinds of memory that the driver was seen to have.
    kinds: BTreeSet<Kind>,
}

/// A kind of physical memory: the GPU's ordinal, the handle types and the flags of the request.
pub(super) type Kind = (i32, u32, [u8; 8]);

impl Book {
    /// Whether a number is a handle of ours, alive or not.
    pub fn is_ours(handle: u64) -> bool {
        handle & TAG_MASK == TAG
    }

    /// Takes memory of ours in; the handle for the program.
    pub fn add(
        &mut self,
        ordinal: i32,
        bytes: u64,
        prop: AllocationProp,
        pieces: Vec<PieceId>,
    ) -> u64 {
        self.last += 1;
        let handle = TAG | self.last;
        let bundle = Bundle {
            number: self.last,
            ordinal,
            bytes,
            prop,
            pieces,
        };
        self.insert(handle, What::Pieces(Arc::new(bundle)));
        handle
    }

    /// Takes in what the driver gave.
    pub fn add_alone(&mut self, handle: u64, counted: Option<(i32, u64)>) {
        self.keep_alone(handle, counted);
    }

    /// What is behind a handle of ours while the program holds it.
    pub fn held(&self, handle: u64) -> Result<&What, Status> {
        match self.memos.get(&handle) {
            Some(memo) if memo.references > 0 => Ok(&memo.what),
            _ => Err(Status::INVALID_VALUE),
        }
    }

    /// One more reference to a handle of ours that the program holds.
    pub fn hold(&mut self, handle: u64) -> Result<(), Status> {
        let memo = self.memos.get_mut(&handle);
        let held = memo.filter(|memo| memo.references > 0);
        held.ok_or(Status::INVALID_VALUE)?.references += 1;
        Ok(())
    }

    /// What became of memory of ours that was known before.
    pub fn now(&self, bundle: &Bundle) -> Result<&What, Status> {
        let memo = self.memos.get(&bundle.handle());
        memo.map(|memo| &memo.what).ok_or(Status::INVALID_VALUE)
    }

    /// Whether memory of ours was never mapped.
    pub fn is_blank(&self, bundle: &Bundle) -> bool {
        let memo = self.memos.get(&bundle.handle());
        memo.is_some_and(|memo| memo.blank)
    }

    /// Where memory of ours is mapped, with how many bytes from its first on.
    pub fn mappings_of(&self, bundle: &Bundle) -> Vec<(u64, u64)> {
        let mappings = self.mappings.iter();
        let here = mappings.filter(|(_, mapping)| mapping.memo == bundle.handle());
        here.map(|(&at, mapping)| (at, mapping.bytes)).collect()
    }

    /// Notes that one allocation of the driver's took the place of memory of ours.
    pub fn put_whole(&mut self, bundle: &Bundle, handle: Handle, why: KeptFor) {
        if let Some(memo) = self.memos.get_mut(&bundle.handle()) {
            memo.what = What::Whole(Whole {
                handle,
                ordinal: bundle.ordinal,
                bytes: bundle.bytes,
                prop: bundle.prop,
                why,
            });
        }
    }

    /// One more reference for what is mapped at an address; the handle if it is ours.
    pub fn retain(&mut self, address: u64) -> Option<u64> {
        let (_, mapping) = self.mapping(address)?;
        let memo = self.memos.get_mut(&mapping.memo)?;
        memo.references += 1;
        match memo.what {
            What::Pieces(_) | What::Whole(_) => Some(mapping.memo),
            What::Alone { handle, .. } => {
                self.alone.insert(handle, mapping.memo);
                None
            }
        }
    }

    /// Drops a reference. What is behind the handle if nothing needs it any more; an error for a
    /// handle of ours that the program does not hold.
    pub fn release(&mut self, handle: u64) -> Result<Option<What>, Status> {
        let number = if Self::is_ours(handle) {
            handle
        } else if let Some(&number) = self.alone.get(&handle) {
            number
        } else {
            return Ok(None);
        };
        let memo = self.memos.get_mut(&number).ok_or(Status::INVALID_VALUE)?;
        if memo.references == 0 {
            return Err(Status::INVALID_VALUE);
        }
        memo.references -= 1;
        if memo.references == 0 {
            self.alone.remove(&handle);
        }
        Ok(self.forget(number))
    }

    /// Start and bytes of the reservation around an address, if it was seen.
    pub fn reservation(&self, address: u64) -> Option<(u64, u64)> {
        let (&start, &size) = self.reserved.range(..=address).next_back()?;
        (address - start < size).then_some((start, size))
    }

    /// Whether a mapping is known in a range.
    pub fn touches(&self, at: u64, bytes: u64) -> bool {
        !self.within(at..at.saturating_add(bytes)).is_empty()
    }

    /// Notes that a handle was mapped: one of ours, or the driver's.
    pub fn map(&mut self, at: u64, bytes: u64, handle: u64) {
        let memo = if Self::is_ours(handle) {
            handle
        } else {
            self.keep_alone(handle, None)
        };
        if let Some(it) = self.memos.get_mut(&memo) {
            it.mappings += 1;
            it.blank = false;
        }
        self.mappings.insert(at, Mapping { bytes, memo });
    }

    /// Notes that the mapping that starts at an address is gone. What was behind it if nothing
    /// needs it any more.
    pub fn unmap(&mut self, at: u64) -> Option<What> {
        let memo = self.mappings.remove(&at)?.memo;
        self.memos.get_mut(&memo)?.mappings -= 1;
        self.forget(memo)
    }

    /// The mappings of a range that holds memory of ours: they must fill it. None if nothing in it
    /// is ours, so that the driver can say.
    pub fn spans(&self, at: u64, bytes: u64) -> Result<Option<Vec<Span>>, Status> {
        let end = at.checked_add(bytes).ok_or(Status::INVALID_VALUE)?;
        let spans = self.within(at..end);
        if !spans.iter().any(|span| span.bundle.is_some()) {
            return Ok(None);
        }
        let mut next = at;
        for span in &spans {
            if span.at != next {
                return Err(Status::INVALID_VALUE);
            }
            next += span.bytes;
        }
        if next == end {
            Ok(Some(spans))
        } else {
            Err(Status::INVALID_VALUE)
        }
    }

    /// The mapping around an address, if it is of memory of ours: where it starts, its bytes.
    pub fn bundle_at(&self, address: u64) -> Option<(u64, u64, &Arc<Bundle>)> {
        let (at, mapping) = self.mapping(address)?;
        match &self.memos.get(&mapping.memo)?.what {
            What::Pieces(bundle) => Some((at, mapping.bytes, bundle)),
            What::Whole(_) | What::Alone { .. } => None,
        }
    }

    /// Whether a handle of ours is mapped around an address, wherever its memory is.
    pub fn is_ours_at(&self, address: u64) -> bool {
        let mapping = self.mapping(address);
        mapping.is_some_and(|(_, mapping)| Self::is_ours(mapping.memo))
    }

    /// Where the first mapping starts behind an address.
    pub fn mapped_behind(&self, address: u64) -> Option<u64> {
        let mut behind = self.mappings.range(address.checked_add(1)?..);
        behind.next().map(|(&at, _)| at)
    }

    /// Whether memory of ours is still mapped at an address.
    pub fn is_mapped(&self, at: u64, bundle: &Arc<Bundle>) -> bool {
        let found = self.bundle_at(at);
        found.is_some_and(|(start, _, here)| start == at && Arc::ptr_eq(here, bundle))
    }

    /// The starts of all mappings in a range.
    pub fn starts(&self, at: u64, bytes: u64) -> Vec<u64> {
        let end = at.saturating_add(bytes);
        self.mappings.range(at..end).map(|(at, _)| *at).collect()
    }

    /// Whether the driver was seen to have such memory.
    pub fn has_kind(&self, kind: &Kind) -> bool {
        self.kinds.contains(kind)
    }

    /// Notes that the driver has such memory.
    pub fn add_kind(&mut self, kind: Kind) {
        self.kinds.insert(kind);
    }

    /// Notes reserved addresses.
    pub fn reserve(&mut self, at: u64, bytes: u64) {
        self.reserved.insert(at, bytes);
    }

    /// Notes that they were given back.
    pub fn unreserve(&mut self, at: u64) {
        self.reserved.remove(&at);
    }

    fn insert(&mut self, number: u64, what: What) {
        let memo = Memo {
            what,
            references: 1,
            mappings: 0,
            blank: true,
        };
        self.memos.insert(number, memo);
    }

    /// The number of a driver's handle here.
    fn keep_alone(&mut self, handle: u64, counted: Option<(i32, u64)>) -> u64 {
        if let Some(&number) = self.alone.get(&handle) {
            return number;
        }
        self.last += 1;
        let number = self.last;
        self.insert(number, What::Alone { handle, counted });
        self.alone.insert(handle, number);
        number
    }

    fn forget(&mut self, number: u64) -> Option<What> {
        let memo = self.memos.get(&number)?;
        if memo.references > 0 || memo.mappings > 0 {
            return None;
        }
        self.memos.remove(&number).map(|memo| memo.what)
    }

    fn mapping(&self, address: u64) -> Option<(u64, Mapping)> {
        let (&at, &mapping) = self.mappings.range(..=address).next_back()?;
        (address - at < mapping.bytes).then_some((at, mapping))
    }

    /// The mappings that touch a range.
    fn within(&self, range: Range<u64>) -> Vec<Span> {
        let first = self.mapping(range.start).map_or(range.start, |(at, _)| at);
        if first >= range.end {
            return Vec::new();
        }
        let mappings = self.mappings.range(first..range.end);
        let spans = mappings.map(|(&at, mapping)| Span {
            at,
            bytes: mapping.bytes,
            bundle: match &self.memos[&mapping.memo].what {
                What::Pieces(bundle) => Some(Arc::clone(bundle)),
                What::Whole(_) | What::Alone { .. } => None,
            },
        });
        spans.collect()
    }
}

/// One mapping.
#[derive(Clone, Debug)]
pub struct Span {
    /// Where it starts.
    pub at: u64,
    /// Its size.
    pub bytes: u64,
    /// The memory behind it if it is ours.
    pub bundle: Option<Arc<Bundle>>,
}
