//! What the search tells apart, and what can happen next.

use super::{Item, Model, Set};

/// What the search tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct State {
    /// Tensors in GPU memory.
    pub gpu: Set,
    /// Tensors with their latest value in host memory.
    pub host: Set,
    /// Operators that have ended.
    pub done: Set,
    /// Kept tensors that were in GPU memory before the iteration.
    pub residents: Set,
    /// Compute, swap in, swap out.
    pub engines: [Engine; 3],
}

/// What an engine does: an operator or a tensor, and the steps that are left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Engine {
    pub id: u8,
    pub left: u8,
}

pub(super) const IDLE: Engine = Engine {
    id: u8::MAX,
    left: 0,
};
pub(super) const COMPUTE: usize = 0;
pub(super) const IN: usize = 1;
pub(super) const OUT: usize = 2;

pub(super) fn members(set: Set) -> impl Iterator<Item = usize> {
    (0..Set::BITS as usize).filter(move |at| set & (1 << at) != 0)
}

pub(super) fn set(ids: impl IntoIterator<Item = u32>) -> Set {
    ids.into_iter().fold(0, |set, id| set | 1 << id)
}

impl Engine {
    /// What it works on, as a set of one or none.
    pub(super) fn set(self) -> Set {
        if self == IDLE { 0 } else { 1 << self.id }
    }
}

impl Model {
    /// Tells of each state that can follow, and how many steps later.
    pub(super) fn successors(&self, state: State, mut tell: impl FnMut(State, u8)) {
        let [compute, copy_in, copy_out] = state.engines;
        let running = self.tasks.get(usize::from(compute.id));
        if running.is_none() {
            for (op, task) in self.tasks.iter().enumerate() {
                let own: Set = 1 << op;
                let is_ready = task.before & !state.done == 0 && task.reads & !state.gpu == 0;
                let alone = if self.may_copy_in_use {
                    task.changes
                } else {
                    task.reads
                };
                if state.done & own != 0 || !is_ready || alone & copy_out.set() != 0 {
                    continue;
                }
                self.with_room(state, task.makes, task.reads, |mut next| {
                    next.host &= !task.changes;
                    next.engines[COMPUTE] = Engine {
                        id: op as u8,
                        left: task.steps,
                    };
                    if task.steps == 0 {
                        next = self.ended(next, COMPUTE);
                    }
                    tell(next, 0);
                });
            }
        }
        let in_use = running.map_or(0, |task| {
            if self.may_copy_in_use {
                task.changes
            } else {
                task.reads
            }
        });
        for (id, item) in self.items.iter().enumerate() {
            let own: Set = 1 << id;
            let is_wanted = item.users & !state.done != 0 || own & state.residents != 0;
            let begun = Engine {
                id: id as u8,
                left: item.steps,
            };
            if copy_in == IDLE && is_wanted && own & state.host & !state.gpu != 0 {
                self.with_room(state, own, 0, |mut next| {
                    next.engines[IN] = begun;
                    tell(next, 0);
                });
            }
            if copy_out == IDLE && own & state.gpu & !state.host & !in_use != 0 {
                let mut next = state;
                next.engines[OUT] = begun;
                tell(next, 0);
            }
        }
        let busy = || state.engines.into_iter().filter(|engine| *engine != IDLE);
        if let Some(steps) = busy().map(|engine| engine.left).min() {
            let mut next = state;
            for (at, engine) in state
                .engines
                .iter()
                .enumerate()
                .filter(|(_, engine)| **engine != IDLE)
            {
                next.engines[at].left = engine.left - steps;
                if engine.left == steps {
                    next = self.ended(next, at);
                }
            }
            tell(next, steps);
        }
    }

    /// Makes room for `wanted` in all ways that drop no more than necessary, and nothing of
    /// `spared`. A tensor is dropped only when its room is needed: earlier would gain nothing.
    fn with_room(&self, state: State, wanted: Set, spared: Set, mut tell: impl FnMut(State)) {
        let running = self.tasks.get(usize::from(state.engines[COMPUTE].id));
        let read = running.map_or(0, |task| task.reads);
        let missing = self.missing(self.taken(&state), wanted);
        let candidates = state.gpu & state.host & !(read | spared | state.engines[OUT].set());
        for dropped in subsets(candidates) {
            let spare = self.rooms(dropped);
            let is_enough = (0..2).all(|pool| spare[pool] >= missing[pool]);
            let is_needed = |id: usize| {
                let Item { pool, room, .. } = self.items[id];
                spare[pool] < missing[pool] + u32::from(room)
            };
            if is_enough && members(dropped).all(is_needed) {
                let gpu = state.gpu & !dropped;
                tell(State { gpu, ..state });
            }
            if missing == [0; 2] {
                break;
            }
        }
    }

    /// The tensors that have room in GPU memory, also those that are being made or copied there.
    pub(super) fn taken(&self, state: &State) -> Set {
        let running = self.tasks.get(usize::from(state.engines[COMPUTE].id));
        state.gpu | running.map_or(0, |task| task.makes) | state.engines[IN].set()
    }

    fn rooms(&self, set: Set) -> [u32; 2] {
        let mut rooms = [0; 2];
        for Item { pool, room, .. } in members(set).map(|id| self.items[id]) {
            rooms[pool] += u32::from(room);
        }
        rooms
    }

    /// The room that lacks in each pool for `wanted` beside `taken`.
    pub(super) fn missing(&self, taken: Set, wanted: Set) -> [u32; 2] {
        let (taken, wanted) = (self.rooms(taken), self.rooms(wanted));
        [0, 1].map(|pool| (taken[pool] + wanted[pool]).saturating_sub(u32::from(self.pools[pool])))
    }

    /// The state once an engine has ended what it does.
    fn ended(&self, mut state: State, engine: usize) -> State {
        let ended = std::mem::replace(&mut state.engines[engine], IDLE);
        match engine {
            COMPUTE => {
                state.done |= ended.set();
                state.gpu |= self.tasks[usize::from(ended.id)].makes;
            }
            IN => state.gpu |= ended.set(),
            _ => state.host |= ended.set(),
        }
        self.settled(state)
    }

    /// Forgets what nothing needs any more, so that states differ only where it matters.
    pub(super) fn settled(&self, mut state: State) -> State {
        let copied = state.engines[OUT].set();
        for (id, item) in self.items.iter().enumerate() {
            let own: Set = 1 << id;
            if item.users & !state.done != 0 {
                continue;
            }
            if own & self.kept == 0 {
                state.host &= !own;
                state.gpu &= !own | copied;
            } else if own & state.host & !state.residents != 0 {
                state.gpu &= !own;
            }
        }
        state
    }
}

/// All subsets of a set, the empty one first.
pub(super) fn subsets(of: Set) -> impl Iterator<Item = Set> {
    let next = move |subset: &Set| Some(subset.wrapping_sub(of) & of).filter(|next| *next != 0);
    std::iter::successors(Some(0), next)
}
