//! What lies where, and whether it is what the graph asks for.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use super::clock::Clock;
use super::{PlanError, Step};
use crate::graph::{Graph, OpId, TensorId};
use crate::plan::{Extent, Place, Plan, Queue};

/// A stay of a tensor in GPU memory.
struct Stay {
    place: Place,
    /// The step that put it there; none for what is there before an iteration.
    begun: Option<Step>,
    /// Since the last step of each queue that used it began: only the last of a queue must have ended for all to have.
    used: [Option<u32>; 3],
    /// The version of the tensor that is there.
    version: u32,
    /// The operator that made or changed it there last.
    writer: Option<Step>,
    /// Whether something else was put there.
    is_over: bool,
}

/// What is known of a tensor. A version of it is the number of operators that have made or changed it.
#[derive(Clone, Default)]
struct Known {
    /// Its latest stay.
    stay: Option<usize>,
    /// The highest version that there was so far: a repeated operator makes a lower one again.
    latest: u32,
    /// Whether it has a value at all.
    exists: bool,
    /// The version in host memory, and the step that copied it there; no step for what was there before.
    host: Option<(u32, Option<Step>)>,
}

/// The version that an operator makes.
const MADE: u32 = 1;

struct Memory<'a> {
    graph: &'a Graph,
    plan: &'a Plan,
    clock: &'a Clock,
    /// As [`versions`] says.
    versions: Vec<Vec<(TensorId, u32)>>,
    /// Which operators have run.
    has_run: Vec<bool>,
    stays: Vec<Stay>,
    known: Vec<Known>,
    /// The latest stay at each place: the first byte of a piece, its end, and the stay. A stay that is over may still be used where
    /// nothing was put since.
    pieces: BTreeMap<u64, (u64, usize)>,
}

pub(super) fn follow(graph: &Graph, plan: &Plan, clock: &Clock) -> Result<(), PlanError> {
    let mut memory = Memory {
        graph,
        plan,
        clock,
        versions: versions(graph),
        has_run: vec![false; graph.operators().len()],
        stays: Vec::new(),
        known: vec![Known::default(); graph.tensors().len()],
        pieces: BTreeMap::new(),
    };
    memory.begin()?;
    for step in &clock.order {
        match step.queue {
            Queue::Compute => memory.compute(*step)?,
            Queue::SwapIn => memory.swap_in(*step)?,
            Queue::SwapOut => memory.swap_out(*step)?,
        }
    }
    memory.end()
}

impl<'a> Memory<'a> {
    /// What is where before an iteration.
    fn begin(&mut self) -> Result<(), PlanError> {
        for (at, tensor) in self.graph.tensors().iter().enumerate() {
            if tensor.kind.is_given() {
                let known = &mut self.known[at];
                known.exists = true;
                known.host = Some((0, None));
            }
        }
        let changed = self.changed();
        for place in &self.plan.residents {
            let tensor = place.tensor;
            let wrong = |problem| PlanError::WrongResident { tensor, problem };
            let of = self.graph.tensors().get(tensor as usize);
            let of = of.ok_or_else(|| wrong("the graph does not have"))?;
            if !of.kind.is_kept() {
                return Err(wrong("is not kept from one iteration to the next"));
            }
            if self.known[tensor as usize].stay.is_some() {
                return Err(wrong("is there twice"));
            }
            if changed[tensor as usize] {
                // The iteration before this one changed it, and left it in GPU memory only.
                self.known[tensor as usize].host = None;
            }
            for extent in self.checked(*place)? {
                if self.over(*extent).next().is_some() {
                    return Err(wrong("lies where another one lies"));
                }
                // Pieces of one place must not overlap either.
                self.pieces.insert(
                    extent.offset,
                    (extent.offset + extent.bytes, self.stays.len()),
                );
            }
            self.stay(*place, None, 0);
        }
        Ok(())
    }

    /// Which tensors operators change in place.
    fn changed(&self) -> Vec<bool> {
        let mut changed = vec![false; self.known.len()];
        for operator in self.graph.operators() {
            for tensor in &operator.updates {
                changed[*tensor as usize] = true;
            }
        }
        changed
    }

    /// The pieces of a place, which hold its tensor and nothing more than chunks ask for, inside the budget.
    fn checked(&self, place: Place) -> Result<&'a [Extent], PlanError> {
        let tensor = place.tensor;
        let wrong = |problem| PlanError::WrongPlace { tensor, problem };
        let (plan, needed) = (self.plan, self.graph.tensor(tensor).bytes);
        let extents = plan.extents_of(place);
        if plan.chunk == 0 && extents.len() > 1 {
            return Err(wrong("is in pieces, which only chunks can be"));
        }
        let mut bytes = 0_u64;
        for extent in extents {
            let end = extent.offset.checked_add(extent.bytes);
            if extent.bytes == 0 || end.is_none_or(|end| end > plan.budget) {
                return Err(wrong("reaches beyond the budget"));
            }
            let chunk = plan.chunk.max(1);
            if extent.offset % chunk != 0 || extent.bytes % chunk != 0 {
                return Err(wrong("does not consist of whole chunks"));
            }
            bytes = bytes.saturating_add(extent.bytes);
        }
        if bytes < needed {
            return Err(wrong("is smaller than the tensor"));
        }
        if plan.chunk > 0 && bytes - needed >= plan.chunk {
            return Err(wrong("has more chunks than the tensor needs"));
        }
        Ok(extents)
    }

    /// The pieces that an extent overlaps: their first byte, their end and their stay.
    fn over(&self, extent: Extent) -> impl Iterator<Item = (u64, u64, usize)> + '_ {
        let before = self.pieces.range(..extent.offset + extent.bytes).rev();
        let pieces = before.map(|(from, (end, stay))| (*from, *end, *stay));
        pieces.take_while(move |(_, end, _)| *end > extent.offset)
    }

    fn stay(&mut self, place: Place, begun: Option<Step>, version: u32) {
        let stay = self.stays.len();
        self.known[place.tensor as usize].stay = Some(stay);
        self.stays.push(Stay {
            place,
            begun,
            used: [None; 3],
            version,
            writer: None,
            is_over: false,
        });
    }

    /// Puts a version of a tensor somewhere: whatever used that place before has ended.
    fn put(&mut self, place: Place, step: Step, version: u32) -> Result<(), PlanError> {
        // It may stay somewhere else: then that copy is not used any more.
        if let Some(former) = self.known[place.tensor as usize].stay {
            self.end_stay(former, place.tensor, step)?;
        }
        let own = self.stays.len();
        for extent in self.checked(place)? {
            let (from, to) = (extent.offset, extent.offset + extent.bytes);
            let over: Vec<_> = self.over(*extent).collect();
            for (first, end, stay) in over {
                if stay == own {
                    let (tensor, problem) = (place.tensor, "has a piece twice");
                    return Err(PlanError::WrongPlace { tensor, problem });
                }
                self.end_stay(stay, place.tensor, step)?;
                self.pieces.remove(&first);
                if first < from {
                    self.pieces.insert(first, (from, stay));
                }
                if end > to {
                    self.pieces.insert(to, (end, stay));
                }
            }
            self.pieces.insert(from, (to, own));
        }
        self.stay(place, Some(step), version);
        Ok(())
    }

    /// Something is put where a stay is or was: all that used it has ended.
    fn end_stay(&mut self, of: usize, comer: TensorId, step: Step) -> Result<(), PlanError> {
        let stay = &mut self.stays[of];
        let used = Queue::ALL.into_iter().zip(stay.used);
        let users = used.filter_map(|(queue, at)| at.map(|at| Step { queue, at }));
        for user in users.chain(stay.begun) {
            if !self.clock.is_before(user, step) {
                return Err(PlanError::Overlap {
                    step,
                    tensor: comer,
                    other: stay.place.tensor,
                    user,
                });
            }
        }
        stay.is_over = true;
        Ok(())
    }

    /// The stay in which `step` finds a tensor, whole.
    fn find(&mut self, tensor: TensorId, step: Step) -> Result<usize, PlanError> {
        let not_there = |problem| PlanError::NotThere {
            step,
            tensor,
            problem,
        };
        let known = &self.known[tensor as usize];
        if !known.exists {
            return Err(not_there("no operator has made yet"));
        }
        let Some(of) = known.stay else {
            return Err(not_there("was never put into GPU memory"));
        };
        let stay = &mut self.stays[of];
        let is_before =
            |other: Option<Step>| other.is_none_or(|other| self.clock.is_before(other, step));
        if stay.is_over {
            return Err(not_there("was overwritten"));
        }
        if !is_before(stay.begun) {
            return Err(not_there("may not be in GPU memory yet"));
        }
        if !is_before(stay.writer) {
            return Err(wrong_value(step, tensor, "it may not be computed yet"));
        }
        stay.used[step.queue as usize] = Some(step.at);
        Ok(of)
    }

    fn compute(&mut self, step: Step) -> Result<(), PlanError> {
        let op = self.plan.compute[step.at as usize].op;
        let is_repeat = core::mem::replace(&mut self.has_run[op as usize], true);
        let operator = self.graph.operator(op);
        for at in 0..operator.inputs.len() {
            self.read(op, at, step, is_repeat)?;
        }
        for (at, tensor) in (operator.inputs.len()..).zip(&operator.updates) {
            let stay = self.read(op, at, step, is_repeat)?;
            let stay = &mut self.stays[stay];
            // A copy to the host that may still run would be torn.
            if let Some(out) = stay.used[Queue::SwapOut as usize] {
                let out = Step {
                    queue: Queue::SwapOut,
                    at: out,
                };
                if !self.clock.is_before(out, step) {
                    let problem = "it is changed while it is copied to the host";
                    return Err(wrong_value(step, *tensor, problem));
                }
            }
            stay.version += 1;
            stay.writer = Some(step);
            self.known[*tensor as usize].latest = stay.version;
        }
        for place in self.plan.outputs_of(step.at as usize) {
            let known = &mut self.known[place.tensor as usize];
            known.exists = true;
            known.latest = known.latest.max(MADE);
            self.put(*place, step, MADE)?;
        }
        Ok(())
    }

    /// The stay in which an operator finds the tensor at `at` of those that it reads, in the version that the graph's own order
    /// of operators has. When it runs first there may be no later version either: it stands behind what it must.
    fn read(
        &mut self,
        op: OpId,
        at: usize,
        step: Step,
        is_repeat: bool,
    ) -> Result<usize, PlanError> {
        let (tensor, expected) = self.versions[op as usize][at];
        let stay = self.find(tensor, step)?;
        if !is_repeat && self.known[tensor as usize].latest != expected {
            let problem = "it was changed too often or not often enough before";
            return Err(wrong_value(step, tensor, problem));
        }
        let Stay { version, begun, .. } = self.stays[stay];
        if version == expected {
            return Ok(stay);
        }
        let is_copied = begun.is_some_and(|begun| begun.queue == Queue::SwapIn);
        let problem = if is_copied && version < expected {
            "it was changed since it was copied to the host"
        } else {
            "what is in GPU memory is an earlier or later version"
        };
        Err(wrong_value(step, tensor, problem))
    }

    fn swap_in(&mut self, step: Step) -> Result<(), PlanError> {
        let place = self.plan.swap_in[step.at as usize].place;
        let wrong = |problem| wrong_value(step, place.tensor, problem);
        match self.known[place.tensor as usize].host {
            None => Err(wrong("it was never copied to the host")),
            Some((_, Some(out))) if !self.clock.is_before(out, step) => {
                Err(wrong("it may not be in host memory yet"))
            }
            Some((version, _)) => self.put(place, step, version),
        }
    }

    fn swap_out(&mut self, step: Step) -> Result<(), PlanError> {
        let tensor = self.plan.swap_out[step.at as usize].tensor;
        let stay = self.find(tensor, step)?;
        self.known[tensor as usize].host = Some((self.stays[stay].version, Some(step)));
        Ok(())
    }

    /// An iteration ends as the next one begins.
    fn end(&self) -> Result<(), PlanError> {
        let mut resident = vec![None; self.known.len()];
        for place in &self.plan.residents {
            resident[place.tensor as usize] = Some(*place);
        }
        for (at, tensor) in self.graph.tensors().iter().enumerate() {
            if !tensor.kind.is_kept() {
                continue;
            }
            let known = &self.known[at];
            let not_kept = |problem| {
                let tensor = at as TensorId;
                Err(PlanError::NotKept { tensor, problem })
            };
            match resident[at] {
                Some(place) => {
                    let is_same = |other| {
                        self.plan.chunk > 0
                            || self.plan.extents_of(other) == self.plan.extents_of(place)
                    };
                    let is_there = known.stay.is_some_and(|of| {
                        let stay = &self.stays[of];
                        !stay.is_over && is_same(stay.place) && stay.version == known.latest
                    });
                    if !is_there {
                        return not_kept("is not where the next iteration expects it");
                    }
                }
                None => {
                    if known
                        .host
                        .is_none_or(|(version, _)| version != known.latest)
                    {
                        return not_kept("its latest value is not in host memory");
                    }
                }
            }
        }
        Ok(())
    }
}

fn wrong_value(step: Step, tensor: TensorId, problem: &'static str) -> PlanError {
    PlanError::WrongValue {
        step,
        tensor,
        problem,
    }
}

/// How often each tensor that an operator reads, its inputs first and its updates behind them, was made or changed before, in
/// the graph's own order.
fn versions(graph: &Graph) -> Vec<Vec<(TensorId, u32)>> {
    let mut version = vec![0_u32; graph.tensors().len()];
    let operators = graph.operators().iter().map(|operator| {
        let read = operator.inputs.iter().chain(&operator.updates);
        let found = read
            .map(|tensor| (*tensor, version[*tensor as usize]))
            .collect();
        for tensor in operator.updates.iter().chain(&operator.outputs) {
            version[*tensor as usize] += 1;
        }
        found
    });
    operators.collect()
}
