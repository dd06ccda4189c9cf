//! Where memory objects lie: first fit over reserved addresses, 512-byte aligned as cudaMalloc.
//! Pure: which chunks an object touches is known here, what backs them is not.

use std::collections::BTreeMap;

use crate::cuda::Context;

/// cudaMalloc's alignment in bytes.
pub const ALIGN: u64 = 512;

/// One allocation that the program made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Bytes asked for.
    pub bytes: u64,
    /// The context that it ends with.
    pub context: Context,
    /// Unlike that of any other object of this arena, ever.
    pub id: u64,
}

impl Object {
    fn span(self) -> u64 {
        self.bytes.next_multiple_of(ALIGN)
    }
}

/// The memory objects of one GPU.
#[derive(Debug)]
pub struct Arena {
    chunk: u64,
    /// Free ranges: address → bytes; neighbours are merged.
    free: BTreeMap<u64, u64>,
    objects: BTreeMap<u64, Object>,
    /// Objects that touch a chunk, by the chunk's address; chunks without any are not listed.
    users: BTreeMap<u64, u32>,
    next_id: u64,
}

impl Arena {
    /// An arena without addresses; `chunk` is δ in bytes.
    pub fn new(chunk: u64) -> Self {
        Self {
            chunk,
            free: BTreeMap::new(),
            objects: BTreeMap::new(),
            users: BTreeMap::new(),
            next_id: 0,
        }
    }

    /// Adds reserved addresses; both multiples of δ.
    pub fn add_region(&mut self, at: u64, bytes: u64) {
        self.give(at, bytes);
    }

    /// The lowest address where an object of `bytes` fits.
    pub fn find_room(&self, bytes: u64) -> Option<u64> {
        let span = bytes.checked_next_multiple_of(ALIGN)?;
        self.free
            .iter()
            .find(|&(_, &free)| free >= span)
            .map(|(&at, _)| at)
    }

    /// The chunks that an object at `at` would be the first to touch.
    pub fn untouched(&self, at: u64, bytes: u64) -> Vec<u64> {
        self.chunks_of(at, bytes.next_multiple_of(ALIGN))
            .filter(|chunk| !self.users.contains_key(chunk))
            .collect()
    }

    /// Lays an object at `at`, where [`Self::find_room`] said that it fits.
    pub fn insert(&mut self, at: u64, bytes: u64, context: Context) {
        self.next_id += 1;
        let id = self.next_id;
        let object = Object { bytes, context, id };
        let span = object.span();
        let free = self
            .free
            .remove(&at)
            .expect("room was found at a free range");
        if free > span {
            self.free.insert(at + span, free - span);
        }
        for chunk in self.chunks_of(at, span) {
            *self.users.entry(chunk).or_default() += 1;
        }
        self.objects.insert(at, object);
    }

    /// Takes the object at `at` out, and returns the chunks that nothing touches any more.
    pub fn remove(&mut self, at: u64) -> Option<Vec<u64>> {
        let span = self.objects.remove(&at)?.span();
        self.give(at, span);
        let mut idle = Vec::new();
        for chunk in self.chunks_of(at, span) {
            let users = self
                .users
                .get_mut(&chunk)
                .expect("an object counts in its chunks");
            *users -= 1;
            if *users == 0 {
                self.users.remove(&chunk);
                idle.push(chunk);
            }
        }
        Some(idle)
    }

    /// From now on the object at `at` belongs to no context.
    pub fn disown(&mut self, at: u64) {
        if let Some(object) = self.objects.get_mut(&at) {
            object.context = Context::NONE;
        }
    }

    /// The object that holds the address, and where it starts.
    pub fn object_at(&self, address: u64) -> Option<(u64, Object)> {
        let (&at, &object) = self.objects.range(..=address).next_back()?;
        (address - at < object.bytes.max(1)).then_some((at, object))
    }

    /// The addresses of the objects of a context.
    pub fn objects_of(&self, context: Context) -> Vec<u64> {
        self.objects
            .iter()
            .filter(|(_, object)| object.context == context)
            .map(|(&at, _)| at)
            .collect()
    }

    /// Starts and ends of what objects have of `bytes` from `at` on.
    pub fn used_of(&self, at: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
        let end = at + bytes;
        let before = self.objects.range(..at).next_back();
        let all = before.into_iter().chain(self.objects.range(at..end));
        let parts = all.map(move |(&start, object)| {
            let part_end = (start + object.bytes).min(end);
            (start.max(at), part_end)
        });
        parts.filter(|(start, end)| start < end)
    }

    fn chunks_of(&self, at: u64, span: u64) -> impl Iterator<Item = u64> + use<> {
        let chunk = self.chunk;
        (at / chunk..(at + span).div_ceil(chunk)).map(move |index| index * chunk)
    }

    fn give(&mut self, mut at: u64, mut bytes: u64) {
        if let Some((&before, &len)) = self.free.range(..at).next_back()
            && before + len == at
        {
            self.free.remove(&before);
            at = before;
            bytes += len;
        }
        if let Some(len) = self.free.remove(&(at + bytes)) {
            bytes += len;
        }
        self.free.insert(at, bytes);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CHUNK: u64 = 4096;
    const REGION: u64 = 16 * CHUNK;

    #[derive(Clone, Debug)]
    enum Step {
        Alloc(u64),
        Free(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (1..3 * CHUNK).prop_map(Step::Alloc),
            (0..64usize).prop_map(Step::Free),
        ];
        proptest::collection::vec(step, 1..80)
    }

    proptest! {
        /// Against a model that is nothing but a list of live ranges.
        #[test]
        fn objects_never_overlap_and_chunks_are_counted(steps in steps()) {
            let mut arena = Arena::new(CHUNK);
            arena.add_region(REGION, REGION);
            arena.add_region(4 * REGION, REGION);
            let mut live: Vec<(u64, u64)> = Vec::new();
            let mut backed = std::collections::BTreeSet::new();
            for step in steps {
                match step {
                    Step::Alloc(bytes) => {
                        let Some(at) = arena.find_room(bytes) else { continue };
                        prop_assert_eq!(at % ALIGN, 0);
                        for (other, len) in &live {
                            prop_assert!(at + bytes <= *other || other + len <= at);
                        }
                        for chunk in arena.untouched(at, bytes) {
                            prop_assert!(backed.insert(chunk), "a chunk is created once");
                        }
                        arena.insert(at, bytes, Context(1));
                        prop_assert_eq!(arena.object_at(at + bytes - 1).unwrap().0, at);
                        live.push((at, bytes));
                    }
                    Step::Free(pick) if !live.is_empty() => {
                        let (at, _) = live.swap_remove(pick % live.len());
                        for chunk in arena.remove(at).unwrap() {
                            prop_assert!(backed.remove(&chunk), "a chunk is freed once");
                        }
                        prop_assert!(arena.remove(at).is_none());
                    }
                    Step::Free(_) => {}
                }
                let touched: std::collections::BTreeSet<u64> = live
                    .iter()
                    .flat_map(|&(at, bytes)| at / CHUNK..=(at + bytes - 1) / CHUNK)
                    .map(|index| index * CHUNK)
                    .collect();
                prop_assert_eq!(&touched, &backed);
            }
            for (at, _) in live {
                arena.remove(at).unwrap();
            }
            prop_assert_eq!(arena.free.len(), 2, "free neighbours merge");
        }
    }
}
