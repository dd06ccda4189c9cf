//! The chunks of a task: up to δ bytes that leave and come back together, made of pieces. A piece
//! is one physical allocation and the addresses at which it is mapped. A chunk of the arena is one
//! piece of δ; a chunk of the program's own physical memory is a bundle of several. Pure.

use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};

use super::clean::Known;
use crate::cuda::{Access, Handle, Location};

/// Names a chunk as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChunkId(pub(super) u32);

/// Names a piece of a bundle as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceId {
    pub(super) chunk: ChunkId,
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

impl PieceId {
    /// The piece's first bytes.
    #[must_use]
    pub fn first(self, bytes: u64) -> Self {
        Self { bytes, ..self }
    }

    /// The piece's size in bytes.
    pub fn bytes(self) -> u64 {
        self.bytes
    }
}

/// Where a piece is mapped, and who may do what there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) at: u64,
    /// From the piece's first byte on.
    pub(super) bytes: u64,
    pub(super) access: Vec<Access>,
}

/// One physical allocation.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// Where its bytes lie in the chunk's slot.
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// The driver's handle while it is on the GPU.
    pub(super) handle: Option<Handle>,
    pub(super) mappings: Vec<Mapping>,
}

/// Where a chunk's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Resident,
    Swapped,
}

/// Who else uses a piece of memory. This GPU's gate does not stop them, so the memory never leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptFor {
    /// Other processes that were given it.
    Processes,
    /// Other GPUs, network cards, switches.
    Devices,
}

/// Up to δ bytes with one fate.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    pub(super) place: Place,
    pub(super) slot: Option<usize>,
    /// Who else uses the chunk. If anybody does, it never leaves the GPU.
    pub(super) held: Option<KeptFor>,
    /// Of the pieces' bytes; nothing once there are others.
    pub(super) known: Known,
    /// By offset; they do not overlap.
    pub(super) pieces: Vec<Piece>,
}

/// Addresses, and what they have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run<T> {
    pub(super) at: u64,
    pub(super) bytes: u64,
    pub(super) tag: T,
}

/// Joins runs that touch and agree, so that one driver call does for all of it.
pub(super) fn join<T: PartialEq>(mut runs: Vec<Run<T>>) -> Vec<Run<T>> {
    runs.sort_unstable_by_key(|run| run.at);
    runs.dedup_by(|next, run| {
        let joins = run.at + run.bytes == next.at && run.tag == next.tag;
        if joins {
            run.bytes += next.bytes;
        }
        joins
    });
    runs
}

impl Piece {
    /// An address at which the GPU itself has these rights on the whole piece.
    pub(super) fn reachable(&self, device: i32, rights: u32) -> Option<u64> {
        let here = Location::device(device);
        let may = |access: &Access| access.location == here && access.rights & rights == rights;
        let mapping = self
            .mappings
            .iter()
            .find(|mapping| mapping.bytes == self.bytes && mapping.access.iter().any(may));
        mapping.map(|mapping| mapping.at)
    }
}

impl Chunk {
    /// A chunk of one piece, mapped at `at` for its own GPU and its peers.
    pub(super) fn whole(at: u64, bytes: u64, device: i32, peers: &[Access]) -> Self {
        let own = [Access::full(device)];
        let access = own.iter().chain(peers).copied().collect();
        Self {
            place: Place::Resident,
            slot: None,
            held: None,
            known: Known::default(),
            pieces: vec![Piece {
                offset: 0,
                bytes,
                handle: None,
                mappings: vec![Mapping { at, bytes, access }],
            }],
        }
    }

    /// A chunk for pieces to come.
    pub(super) fn bundle() -> Self {
        Self {
            place: Place::Resident,
            slot: None,
            held: None,
            known: Known::default(),
            pieces: Vec::new(),
        }
    }

    /// What no piece takes of δ: offsets and bytes.
    fn holes(&self, delta: u64) -> impl Iterator<Item = (u64, u64)> {
        let starts = std::iter::once(0).chain(self.pieces.iter().map(|it| it.offset + it.bytes));
        let ends = self.pieces.iter().map(|it| it.offset).chain([delta]);
        let gaps = starts.zip(ends).map(|(start, end)| (start, end - start));
        gaps.filter(|(_, bytes)| *bytes > 0)
    }

    /// The bytes of all pieces.
    pub(super) fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }

    /// Every mapped address.
    pub(super) fn mapped(&self) -> Vec<Run<()>> {
        let runs = self.pieces.iter().flat_map(|piece| {
            piece.mappings.iter().map(|mapping| Run {
                at: mapping.at,
                bytes: mapping.bytes,
                tag: (),
            })
        });
        join(runs.collect())
    }

    /// The addresses that anyone may use, by who may do what.
    pub(super) fn accessible(&self) -> Vec<Run<&[Access]>> {
        let runs = self.pieces.iter().flat_map(|piece| {
            let granted = piece.mappings.iter().filter(|it| !it.access.is_empty());
            granted.map(|mapping| Run {
                at: mapping.at,
                bytes: mapping.bytes,
                tag: &mapping.access[..],
            })
        });
        join(runs.collect())
    }

    /// Addresses through which a copy engine reaches the bytes, with their offset in the slot:
    /// what `reachable` gives for each piece.
    pub(super) fn copied(&self, reachable: impl Fn(&Piece) -> Option<u64>) -> Vec<Run<u64>> {
        let runs = self.pieces.iter().filter_map(|piece| {
            let at = reachable(piece)?;
            // Equal where neighbours in memory are neighbours in the slot.
            let tag = at.wrapping_sub(piece.offset);
            let bytes = piece.bytes;
            Some(Run { at, bytes, tag })
        });
        let mut runs = join(runs.collect());
        for run in &mut runs {
            run.tag = run.at.wrapping_sub(run.tag);
        }
        runs
    }
}

/// All chunks of a task on one GPU.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    /// By number; a number is used again.
    slab: Vec<Option<Chunk>>,
    vacant: Vec<ChunkId>,
    /// Bundles that may have holes.
    open: BTreeSet<ChunkId>,
}

impl Chunks {
    pub(super) fn len(&self) -> usize {
        self.slab.len() - self.vacant.len()
    }

    pub(super) fn insert(&mut self, chunk: Chunk) -> ChunkId {
        if let Some(id) = self.vacant.pop() {
            self.slab[id.0 as usize] = Some(chunk);
            return id;
        }
        let number = u32::try_from(self.slab.len()).expect("a GPU has fewer than 2^32 chunks");
        self.slab.push(Some(chunk));
        ChunkId(number)
    }

    pub(super) fn remove(&mut self, id: ChunkId) -> Chunk {
        self.open.remove(&id);
        let chunk = self.slab[id.0 as usize].take();
        self.vacant.push(id);
        chunk.expect("a chunk is removed once")
    }

    /// Holes for as much of `bytes` as there are, δ being `delta`: first those on the GPU.
    pub(super) fn holes_for(&self, mut bytes: u64, delta: u64) -> Vec<PieceId> {
        let mut found = Vec::new();
        for place in [Place::Resident, Place::Swapped] {
            for &chunk in &self.open {
                if self[chunk].place != place || self[chunk].held.is_some() {
                    continue;
                }
                for (offset, hole) in self[chunk].holes(delta) {
                    let part = hole.min(bytes);
                    if part == 0 {
                        return found;
                    }
                    bytes -= part;
                    found.push(PieceId {
                        chunk,
                        offset,
                        bytes: part,
                    });
                }
            }
        }
        found
    }

    /// Puts a piece without memory into a hole.
    pub(super) fn put(&mut self, id: PieceId, delta: u64) {
        let chunk = &mut self[id.chunk];
        let at = chunk.pieces.partition_point(|it| it.offset < id.offset);
        let piece = Piece {
            offset: id.offset,
            bytes: id.bytes,
            handle: None,
            mappings: Vec::new(),
        };
        chunk.pieces.insert(at, piece);
        chunk.known = Known::default();
        if chunk.holes(delta).next().is_none() {
            self.open.remove(&id.chunk);
        } else {
            self.open.insert(id.chunk);
        }
    }

    /// Takes a piece out.
    pub(super) fn take(&mut self, id: PieceId) -> Piece {
        self.open.insert(id.chunk);
        self[id.chunk].known = Known::default();
        let pieces = &mut self[id.chunk].pieces;
        let at = pieces.iter().position(|it| it.offset == id.offset);
        pieces.remove(at.expect("a piece is taken out once"))
    }

    pub(super) fn piece(&self, id: PieceId) -> &Piece {
        let mut pieces = self[id.chunk].pieces.iter();
        let piece = pieces.find(|it| it.offset == id.offset);
        piece.expect("a name lives no longer than its piece")
    }

    pub(super) fn piece_mut(&mut self, id: PieceId) -> &mut Piece {
        let mut pieces = self[id.chunk].pieces.iter_mut();
        let piece = pieces.find(|it| it.offset == id.offset);
        piece.expect("a name lives no longer than its piece")
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (ChunkId, &mut Chunk)> {
        let numbered = self.slab.iter_mut().enumerate();
        numbered.filter_map(|(number, chunk)| Some((ChunkId(number as u32), chunk.as_mut()?)))
    }
}

impl Index<ChunkId> for Chunks {
    type Output = Chunk;

    fn index(&self, id: ChunkId) -> &Chunk {
        let chunk = self.slab[id.0 as usize].as_ref();
        chunk.expect("a name lives no longer than its chunk")
    }
}

impl IndexMut<ChunkId> for Chunks {
    fn index_mut(&mut self, id: ChunkId) -> &mut Chunk {
        let chunk = self.slab[id.0 as usize].as_mut();
        chunk.expect("a name lives no longer than its chunk")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_touches_and_agrees_is_joined() {
        let run = |at, bytes, tag| Run { at, bytes, tag };
        let joined = join(vec![
            run(30, 10, 'a'),
            run(0, 10, 'a'),
            run(10, 10, 'a'),
            run(20, 10, 'b'),
            run(50, 10, 'a'),
        ]);
        let expected = [
            run(0, 20, 'a'),
            run(20, 10, 'b'),
            run(30, 10, 'a'),
            run(50, 10, 'a'),
        ];
        assert_eq!(joined, expected);
    }

    #[test]
    fn one_copy_does_only_where_addresses_and_slot_agree() {
        let piece = |offset, at| Piece {
            offset,
            bytes: 10,
            handle: None,
            mappings: vec![Mapping {
                at,
                bytes: 10,
                access: vec![Access::full(0)],
            }],
        };
        let chunk = Chunk {
            place: Place::Resident,
            slot: None,
            held: None,
            known: Known::default(),
            // The last two are swapped in the slot.
            pieces: vec![
                piece(0, 100),
                piece(10, 110),
                piece(20, 130),
                piece(30, 120),
            ],
        };
        let runs = chunk.copied(|piece| piece.reachable(0, Access::READ));
        let run = |at, bytes, tag| Run { at, bytes, tag };
        assert_eq!(runs, [run(100, 20, 0), run(120, 10, 30), run(130, 10, 20)]);
        assert_eq!(chunk.mapped().len(), 1);
        assert_eq!(chunk.accessible().len(), 1);
        assert_eq!(chunk.pieces[0].reachable(1, Access::READ), None);
    }
}
