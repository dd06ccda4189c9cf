//! What the fake driver knows: bytes, mappings, work.

use std::collections::{BTreeMap, BTreeSet};

use super::{Node, Result};
use crate::cuda::{Access, AllocationProp, Context, Event, Graph, Location, Status, Stream};

/// What a test does at the very moment of a call.
pub(super) type Meanwhile = Box<dyn FnOnce() + Send>;

/// What is mapped at an address.
pub(super) struct Map {
    pub(super) bytes: u64,
    pub(super) handle: u64,
    pub(super) access: Vec<Access>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) next: u64,
    pub(super) physical: BTreeMap<u64, Vec<u8>>,
    /// Handles of released memory: the last is the first to be given again.
    pub(super) released: Vec<u64>,
    /// Runs once, before the next export.
    pub(super) before_export: Option<Meanwhile>,
    pub(super) asked: BTreeMap<u64, AllocationProp>,
    pub(super) maps: BTreeMap<u64, Map>,
    pub(super) pinned: BTreeMap<usize, Vec<u8>>,
    pub(super) busy: BTreeSet<Stream>,
    /// Streams that the legacy one does not wait for.
    pub(super) apart: BTreeSet<Stream>,
    pub(super) capturing: BTreeSet<Stream>,
    pub(super) graphs: BTreeMap<Graph, Vec<Node>>,
    pub(super) graph_memory: u64,
    /// The GPU of the current context.
    pub(super) current_device: i32,
    pub(super) refuse_pins: bool,
    /// Bytes copied out and in.
    pub(super) copied: (u64, u64),
    pub(super) fail_copies: bool,
    pub(super) others: u64,
    /// Work submitted to and done by a stream, for those that a test feeds.
    pub(super) work: BTreeMap<Stream, (u64, u64)>,
    /// Where such a stream stood when an event was recorded.
    pub(super) recorded: BTreeMap<Event, (Stream, u64)>,
    /// Events made and not destroyed.
    pub(super) events: usize,
    /// Streams made and not destroyed.
    pub(super) streams: usize,
    /// Contexts that were destroyed.
    pub(super) gone: BTreeSet<Context>,
    /// Calls that may be refused so far.
    pub(super) calls: usize,
    /// Which of them is, and what it was once it was.
    pub(super) refuse: Option<usize>,
    pub(super) refused: Option<&'static str>,
}

impl State {
    /// Runs over the mapped bytes of a range, which may span mappings.
    pub(super) fn access(
        &mut self,
        at: u64,
        len: usize,
        rights: u32,
        mut each: impl FnMut(&mut [u8], std::ops::Range<usize>),
    ) -> Result<()> {
        let mut done = 0;
        while done < len {
            let here = at + done as u64;
            let (&start, map) = self.maps.range(..=here).next_back().ok_or(Status(700))?;
            let mut access = map.access.iter();
            if !access.any(|it| it.location == Location::device(0) && it.rights & rights == rights)
            {
                return Err(Status(700));
            }
            let physical = self.physical.get_mut(&map.handle).ok_or(Status(700))?;
            let offset = (here - start) as usize;
            let mapped = map.bytes as usize;
            if offset >= mapped {
                return Err(Status(700));
            }
            let count = (mapped - offset).min(len - done);
            each(&mut physical[offset..offset + count], done..done + count);
            done += count;
        }
        Ok(())
    }

    /// The mappings that touch a range.
    pub(super) fn mapped_in(&self, at: u64, bytes: u64) -> Vec<u64> {
        let maps = self.maps.range(..at + bytes);
        let touching = maps.filter(|(start, map)| **start + map.bytes > at);
        touching.map(|(start, _)| *start).collect()
    }

    /// The mappings that fill a range without a gap.
    pub(super) fn whole(&self, at: u64, bytes: u64) -> Result<Vec<u64>> {
        let maps = self.mapped_in(at, bytes);
        let mut next = at;
        for map in &maps {
            if *map != next {
                return Err(Status::INVALID_VALUE);
            }
            next += self.maps[map].bytes;
        }
        if maps.is_empty() || next != at + bytes {
            return Err(Status::INVALID_VALUE);
        }
        Ok(maps)
    }

    pub(super) fn fresh(&mut self) -> u64 {
        self.next += 1 << 30;
        self.next
    }

    /// The pinned bytes from `host` on.
    pub(super) fn slot(&mut self, host: usize, bytes: u64) -> &mut [u8] {
        let (&start, segment) = self
            .pinned
            .range_mut(..=host)
            .next_back()
            .expect("a slot in pinned memory");
        &mut segment[host - start..host - start + bytes as usize]
    }
}
