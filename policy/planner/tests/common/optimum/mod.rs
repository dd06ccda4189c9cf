//! The least time in which a graph can run in a memory: a search over all schedules, victims and
//! times of copies.
//!
//! Time is counted in whole steps. That loses nothing: each step of a plan can begin at the
//! beginning or as another one ends, and all take whole steps. Memory is counted in units, so that
//! it has no fragments. All plans that the validator accepts are among those that are searched, and
//! so none is faster than the optimum.

mod moves;
mod plan;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use rtswap_planner::graph::{Graph, Kind, OpId, Order, TensorId};

use moves::{COMPUTE, IDLE, IN, OUT, State, members, set, subsets};

/// A set of tensors or operators: bit 0 is number 0.
type Set = u16;

/// What a tensor asks of memory and link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    /// The pool that it goes to.
    pub pool: usize,
    /// What it takes there.
    pub room: u8,
    /// Steps to copy it.
    pub steps: u8,
    users: Set,
    maker: Option<OpId>,
}

#[derive(Clone, Copy, Debug)]
struct Task {
    before: Set,
    reads: Set,
    changes: Set,
    makes: Set,
    steps: u8,
}

/// When a run is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// All operators and copies have ended, and memory is as the next iteration expects it:
    /// residents of any choice.
    Iteration,
    /// All operators have ended, and no tensor has been lost. Nothing is in GPU memory at the
    /// beginning.
    Operators,
}

/// A graph, a memory and the rules.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub items: Vec<Item>,
    tasks: Vec<Task>,
    /// The size of each pool.
    pub pools: [u8; 2],
    /// Whether a tensor may be copied to the host while an operator reads it.
    pub may_copy_in_use: bool,
    pub goal: Goal,
    given: Set,
    kept: Set,
}

/// A quick hash (FxHash): the standard library's takes most of the time.
#[derive(Default)]
struct Quick(u64);

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(u64::from(number));
    }

    fn write_u16(&mut self, number: u16) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl Model {
    /// A graph of at most 16 tensors and operators in one pool of so many units. A unit has `unit`
    /// bytes, takes one step to copy, and a step has `unit` nanoseconds.
    pub(crate) fn new(graph: &Graph, unit: u64, units: u8) -> Self {
        let mut model = Self {
            items: Vec::new(),
            tasks: Vec::new(),
            pools: [units, 0],
            may_copy_in_use: true,
            goal: Goal::Iteration,
            given: 0,
            kept: 0,
        };
        for (id, tensor) in (0..).zip(graph.tensors()) {
            let units = u8::try_from(tensor.bytes.div_ceil(unit)).expect("tensors are small");
            let operators = || (0..).zip(graph.operators());
            let users = operators().filter(|(_, operator)| operator.tensors().any(|of| of == id));
            let maker = operators().find(|(_, operator)| operator.outputs.contains(&id));
            model.items.push(Item {
                pool: 0,
                room: units,
                steps: units,
                users: set(users.map(|(op, _)| op)),
                maker: maker.map(|(op, _)| op),
            });
            model.given |= Set::from(tensor.kind.is_given()) << id;
            model.kept |= Set::from(tensor.kind.is_kept()) << id;
        }
        let order = Order::of(graph);
        for (op, operator) in (0..).zip(graph.operators()) {
            let reads = operator.inputs.iter().chain(&operator.updates);
            model.tasks.push(Task {
                before: set(order.predecessors(op).iter().copied()),
                reads: set(reads.copied()),
                changes: set(operator.updates.iter().copied()),
                makes: set(operator.outputs.iter().copied()),
                steps: u8::try_from(operator.time_ns / unit).expect("operators are short"),
            });
        }
        model
    }

    /// Allows one schedule only.
    pub(crate) fn follow(&mut self, schedule: &[OpId]) {
        for pair in schedule.windows(2) {
            self.tasks[pair[1] as usize].before |= 1 << pair[0];
        }
    }

    /// Lets no tensor of a kind be lost: before its memory is used again it is copied to the host,
    /// even behind its last use.
    pub(crate) fn keep(&mut self, graph: &Graph, kind: Kind) {
        for (id, _) in (0..)
            .zip(graph.tensors())
            .filter(|(_, tensor)| tensor.kind == kind)
        {
            self.kept |= 1 << id;
        }
    }

    /// The least number of steps; none where an operator finds no room.
    pub(crate) fn optimum(&self) -> Option<u32> {
        self.search().map(|(steps, _)| steps)
    }

    /// The least number of steps, and states on the way (A*).
    fn search(&self) -> Option<(u32, Vec<State>)> {
        // The time of each state, and the state before it.
        let mut best: HashMap<State, (u32, State), BuildHasherDefault<Quick>> = HashMap::default();
        let mut heap = BinaryHeap::new();
        for residents in self.choices() {
            let changed = self.tasks.iter().fold(0, |set, task| set | task.changes);
            let start = self.settled(State {
                gpu: residents,
                // The iteration before changed it, and copied nothing to the host.
                host: self.given & !(residents & changed),
                done: 0,
                residents,
                engines: [IDLE; 3],
            });
            best.insert(start, (0, start));
            heap.push((Reverse(self.at_least(&start)), 0, start));
        }
        while let Some((_, time, state)) = heap.pop() {
            if best[&state].0 < time {
                continue;
            }
            if self.is_goal(&state) {
                let before = |state: &State| Some(best[state].1).filter(|before| before != state);
                let mut path: Vec<State> = std::iter::successors(Some(state), before).collect();
                path.reverse();
                return Some((time, path));
            }
            self.successors(state, |next, steps| {
                let time = time + u32::from(steps);
                let known = best.entry(next).or_insert((u32::MAX, state));
                if time < known.0 {
                    *known = (time, state);
                    heap.push((Reverse(time + self.at_least(&next)), time, next));
                }
            });
        }
        None
    }

    /// All sets of kept tensors that fit into GPU memory and are used.
    fn choices(&self) -> Vec<Set> {
        if self.goal == Goal::Operators {
            return vec![0];
        }
        let used = members(self.kept).filter(|id| self.items[*id].users != 0);
        let used = set(used.map(|id| id as TensorId));
        let fits = |set: &Set| self.missing(0, *set) == [0; 2];
        subsets(used).filter(fits).collect()
    }

    fn is_goal(&self, state: &State) -> bool {
        let is_done = state.done.count_ones() as usize == self.tasks.len();
        let others = self.kept & !state.residents;
        let is_idle = state.engines == [IDLE; 3];
        let is_kept = state.residents & !state.gpu == 0 && others & !state.host == 0;
        is_done && (self.goal == Goal::Operators || is_idle && is_kept)
    }

    /// Each engine has so much to do at least.
    fn at_least(&self, state: &State) -> u32 {
        let [compute, copy_in, copy_out] = state.engines;
        let mut left = [compute, copy_in, copy_out].map(|engine| u32::from(engine.left));
        let to_run = !(state.done | compute.set());
        let mut changes = 0;
        for (_, task) in self
            .tasks
            .iter()
            .enumerate()
            .filter(|(op, _)| to_run & (1 << op) != 0)
        {
            left[COMPUTE] += u32::from(task.steps);
            changes |= task.changes;
        }
        for (id, item) in self.items.iter().enumerate() {
            let (own, steps): (Set, _) = (1 << id, u32::from(item.steps));
            let is_wanted = item.users & !state.done != 0
                || self.goal == Goal::Iteration && own & state.residents != 0;
            let is_made = item
                .maker
                .is_none_or(|maker| state.done & (1 << maker) != 0);
            if is_wanted && is_made && own & (state.gpu | copy_in.set()) == 0 {
                left[IN] += steps;
            }
            let must_write =
                self.goal == Goal::Iteration && own & self.kept & !state.residents != 0;
            let is_written = own & (state.host | copy_out.set()) & !changes != 0;
            if must_write && !is_written {
                left[OUT] += steps;
            }
        }
        left.into_iter().max().unwrap_or_default()
    }
}
