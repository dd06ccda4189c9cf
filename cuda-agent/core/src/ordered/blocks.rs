//! The bytes of one pool: extents of the arena, tiled by blocks that are live, freed in a stream's
//! order, or idle. A freed block is given again at once on the stream of its free, elsewhere only after
//! the event of the free. Pure: what marks the end of a stream's work is a type parameter.

use std::collections::{BTreeMap, BTreeSet};

use crate::cuda::{Context, Stream};
use crate::memory::ALIGN;

/// The work of one stream, in whose order a block was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Line {
    /// A stream that the program made.
    Created(Stream),
    /// A context's NULL stream.
    Legacy(Context),
    /// A thread's own stream in a context; the thread by a number that is never used again.
    PerThread(Context, u64),
    /// A stream that is no more, by a number of its own: another one may have its handle now.
    Gone(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The program's: bytes asked for, and a number of its own.
    Live { bytes: u64, id: u64 },
    /// The program's until its line has passed a mark.
    Freed { line: Line, mark: u64 },
    /// Nobody's.
    Idle,
}

impl State {
    /// What two neighbours are as one: of two marks of a line the later one counts.
    fn join(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Idle, Self::Idle) => Some(Self::Idle),
            (
                Self::Freed { line, mark },
                Self::Freed {
                    line: same,
                    mark: or,
                },
            ) if line == same => {
                let mark = mark.max(or);
                Some(Self::Freed { line, mark })
            }
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Block {
    span: u64,
    state: State,
}

impl Block {
    fn live(&self, at: u64) -> Option<Live> {
        match self.state {
            State::Live { bytes, id } => Some(Live { at, bytes, id }),
            _ => None,
        }
    }
}

/// A live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// Where it starts.
    pub at: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Unlike that of any other block of this pool, ever.
    pub id: u64,
}

/// What was freed on one line and not used again.
struct Freed<M> {
    /// (span, address): the smallest that fits comes first.
    room: BTreeSet<(u64, u64)>,
    /// By number; a line passes them in this order. Each with the blocks that wait for it.
    marks: BTreeMap<u64, (M, BTreeSet<u64>)>,
}

impl<M> Default for Freed<M> {
    fn default() -> Self {
        Self {
            room: BTreeSet::new(),
            marks: BTreeMap::new(),
        }
    }
}

/// Bytes now and at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Now.
    pub now: u64,
    /// The most since it was reset.
    pub most: u64,
}

impl Level {
    fn add(&mut self, bytes: u64) {
        self.now += bytes;
        self.most = self.most.max(self.now);
    }

    /// Forgets the most.
    pub fn reset(&mut self) {
        self.most = self.now;
    }
}

/// One pool's memory. `M` marks a point in a line's work.
pub(super) struct Blocks<M> {
    /// Address → bytes.
    extents: BTreeMap<u64, u64>,
    by_address: BTreeMap<u64, Block>,
    /// (span, address).
    idle: BTreeSet<(u64, u64)>,
    lines: BTreeMap<Line, Freed<M>>,
    /// Marks that nothing waits for any more.
    spare: Vec<M>,
    next: u64,
    /// Bytes of all extents.
    pub(super) reserved: Level,
    /// Bytes of all live blocks.
    pub(super) used: Level,
}

impl<M> Default for Blocks<M> {
    fn default() -> Self {
        Self {
            extents: BTreeMap::new(),
            by_address: BTreeMap::new(),
            idle: BTreeSet::new(),
            lines: BTreeMap::new(),
            spare: Vec::new(),
            next: 0,
            reserved: Level::default(),
            used: Level::default(),
        }
    }
}

impl<M> Blocks<M> {
    /// Adds memory of the arena that nobody uses; both multiples of [`ALIGN`].
    pub(super) fn add(&mut self, at: u64, span: u64) {
        self.extents.insert(at, span);
        self.reserved.add(span);
        self.list(at, span, State::Idle);
    }

    /// Adds an object of the arena that the program has, of `bytes`.
    pub(super) fn adopt(&mut self, at: u64, bytes: u64) {
        let span = bytes.next_multiple_of(ALIGN);
        self.extents.insert(at, span);
        self.reserved.add(span);
        self.enter(at, span, bytes);
    }

    /// A block of `bytes` for work on `line`: what was freed there before, or else what nobody
    /// uses.
    pub(super) fn take(&mut self, bytes: u64, line: Line) -> Option<u64> {
        let span = bytes.checked_next_multiple_of(ALIGN)?;
        let freed = self.lines.get(&line).map(|freed| &freed.room);
        let fits = |room: &BTreeSet<(u64, u64)>| room.range((span, 0)..).next().copied();
        let (found, at) = freed.and_then(fits).or_else(|| fits(&self.idle))?;
        let state = self.unlist(at).state;
        self.enter(at, span, bytes);
        if found > span {
            self.list(at + span, found - span, state);
        }
        self.tidy(state);
        Some(at)
    }

    /// The live block that starts at `at`.
    pub(super) fn live(&self, at: u64) -> Option<Live> {
        self.by_address.get(&at)?.live(at)
    }

    /// The live block that holds an address.
    pub(super) fn live_around(&self, address: u64) -> Option<Live> {
        let (&at, block) = self.by_address.range(..=address).next_back()?;
        let live = block.live(at)?;
        (address - at < live.bytes).then_some(live)
    }

    /// Whether an address lies in this memory, whoever has it.
    pub(super) fn holds(&self, address: u64) -> bool {
        let extent = self.extents.range(..=address).next_back();
        extent.is_some_and(|(at, span)| address - at < *span)
    }

    /// Frees the live block at `at` in the order of `line`, once that has passed `mark`. False,
    /// the mark spare, if there is no such block.
    pub(super) fn free(&mut self, at: u64, line: Line, mark: M) -> bool {
        let Some(span) = self.leave(at) else {
            self.spare.push(mark);
            return false;
        };
        self.next += 1;
        let number = self.next;
        let freed = self.lines.entry(line).or_default();
        freed.marks.insert(number, (mark, BTreeSet::new()));
        self.list(at, span, State::Freed { line, mark: number });
        true
    }

    /// Frees the live block at `at`, of which all work is done. False if there is none.
    pub(super) fn free_at_once(&mut self, at: u64) -> bool {
        let span = self.leave(at);
        if let Some(span) = span {
            self.list(at, span, State::Idle);
        }
        span.is_some()
    }

    /// What waits for marks that are passed becomes idle; `passed` is asked in each line's order,
    /// up to the first that is not.
    pub(super) fn settle(&mut self, mut passed: impl FnMut(&M) -> bool) {
        let lines: Vec<Line> = self.lines.keys().copied().collect();
        for line in lines {
            while let Some(freed) = self.lines.get_mut(&line)
                && let Some(first) = freed.marks.first_entry()
                && passed(&first.get().0)
            {
                let (mark, waiting) = first.remove();
                self.spare.push(mark);
                for at in waiting {
                    let Block { span, .. } = self.unlist(at);
                    self.list(at, span, State::Idle);
                }
                self.drop_if_empty(line);
            }
        }
    }

    /// Marks that nothing waits for any more; each is given once.
    pub(super) fn take_spare(&mut self) -> Vec<M> {
        std::mem::take(&mut self.spare)
    }

    /// Whether something waits for a mark.
    pub(super) fn is_waiting(&self) -> bool {
        !self.lines.is_empty()
    }

    /// A stream ends: what was freed on it waits on, but no other stream continues it.
    pub(super) fn end_line(&mut self, line: Line) {
        let Some(freed) = self.lines.remove(&line) else {
            return;
        };
        self.next += 1;
        let gone = Line::Gone(self.next);
        for (_, at) in &freed.room {
            if let Some(block) = self.by_address.get_mut(at)
                && let State::Freed { line, .. } = &mut block.state
            {
                *line = gone;
            }
        }
        self.lines.insert(gone, freed);
    }

    /// Takes out extents that nobody uses, as long as more than `keep` bytes are reserved: their
    /// addresses.
    pub(super) fn release(&mut self, keep: u64) -> Vec<u64> {
        let whole = self.idle.iter().rev();
        let whole: Vec<(u64, u64)> = whole
            .filter(|(span, at)| self.extents.get(at) == Some(span))
            .copied()
            .collect();
        let mut released = Vec::new();
        for (span, at) in whole {
            if self.reserved.now <= keep {
                break;
            }
            self.unlist(at);
            self.extents.remove(&at);
            self.reserved.now -= span;
            released.push(at);
        }
        released
    }

    /// Makes a live block.
    fn enter(&mut self, at: u64, span: u64, bytes: u64) {
        self.next += 1;
        let id = self.next;
        let state = State::Live { bytes, id };
        self.used.add(span);
        self.by_address.insert(at, Block { span, state });
    }

    /// Ends a live block: its span.
    fn leave(&mut self, at: u64) -> Option<u64> {
        self.live(at)?;
        let Block { span, .. } = self.by_address.remove(&at)?;
        self.used.now -= span;
        Some(span)
    }

    /// Takes a free block out.
    fn unlist(&mut self, at: u64) -> Block {
        let block = self.by_address.remove(&at).expect("a listed block exists");
        match block.state {
            State::Idle => {
                self.idle.remove(&(block.span, at));
            }
            State::Freed { line, mark } => {
                if let Some(freed) = self.lines.get_mut(&line) {
                    freed.room.remove(&(block.span, at));
                    if let Some((_, waiting)) = freed.marks.get_mut(&mark) {
                        waiting.remove(&at);
                    }
                }
            }
            State::Live { .. } => {}
        }
        block
    }

    /// Enters a free block, joined with neighbours of its extent that are as free as it is.
    fn list(&mut self, mut at: u64, mut span: u64, mut state: State) {
        let before = self.by_address.range(..at).next_back();
        if let Some((&before, block)) = before.filter(|_| !self.extents.contains_key(&at))
            && let Some(joined) = block.state.join(state)
        {
            let other = self.unlist(before);
            self.tidy_unless(other.state, joined);
            self.tidy_unless(state, joined);
            (at, span, state) = (before, span + other.span, joined);
        }
        let after = at + span;
        if let Some(block) = self.by_address.get(&after)
            && !self.extents.contains_key(&after)
            && let Some(joined) = block.state.join(state)
        {
            let other = self.unlist(after);
            self.tidy_unless(other.state, joined);
            self.tidy_unless(state, joined);
            (span, state) = (span + other.span, joined);
        }
        match state {
            State::Idle => {
                self.idle.insert((span, at));
            }
            State::Freed { line, mark } => {
                let freed = self.lines.entry(line).or_default();
                freed.room.insert((span, at));
                if let Some((_, waiting)) = freed.marks.get_mut(&mark) {
                    waiting.insert(at);
                }
            }
            State::Live { .. } => {}
        }
        self.by_address.insert(at, Block { span, state });
    }

    fn tidy_unless(&mut self, state: State, joined: State) {
        if state != joined {
            self.tidy(state);
        }
    }

    /// Drops the mark of a state that no block has any more.
    fn tidy(&mut self, state: State) {
        let State::Freed { line, mark } = state else {
            return;
        };
        if let Some(freed) = self.lines.get_mut(&line)
            && let Some((_, waiting)) = freed.marks.get(&mark)
            && waiting.is_empty()
        {
            let gone = freed.marks.remove(&mark);
            self.spare.extend(gone.map(|(mark, _)| mark));
        }
        self.drop_if_empty(line);
    }

    fn drop_if_empty(&mut self, line: Line) {
        if self.lines.get(&line).is_some_and(|it| it.marks.is_empty()) {
            self.lines.remove(&line);
        }
    }
}
