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
    /// How often the tensor was changed when this copy of it was whole.
    version: u32,
    /// Whether something else was put there.
    is_over: bool,
}

/// What is known of a tensor.
#[derive(Clone, Default)]
struct Known {
    /// Its latest stay.
    stay: Option<usize>,
    /// How often operators have made or changed it so far.
    version: u32,
    /// Whether it has a value at all.
    exists: bool,
    /// The version in host memory, and the step that copied it there; no step for what was there before.
    host: Option<(u32, Option<Step>)>,
    /// The step that changed it last.
    writer: Option<Step>,
}

struct Memory<'a> {
    graph: &'a Graph,
    plan: &'a Plan,
    clock: &'a Clock,
    /// As [`versions`] says.
    versions: Vec<Vec<(TensorId, u32)>>,
    stays: Vec<Stay>,
    known: Vec<Known>,
    /// The latest stay at each place: the first byte of a piece, its end, and the stay. A stay that is over may still be used where
    /// nothing was put since.
    pieces: BTreeMap<u64, (u64, usize)>,
}

pub(super) fn follow(graph: &Graph, plan: &Plan, clock: &Clock) -> Result<(), PlanError> {
    check_numbers(graph, plan)?;
    let mut memory = Memory {
        graph,
        plan,
        clock,
        versions: versions(graph),
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

/// Each operator comes once behind its predecessors, and each number is one of the graph's.
fn check_numbers(graph: &Graph, plan: &Plan) -> Result<(), PlanError> {
    let (found, expected) = (plan.compute.len(), graph.operators().len());
    if found != expected {
        return Err(PlanError::OperatorCount { found, expected });
    }
    let mut seen = vec![false; expected];
    for (at, compute) in (0..).zip(&plan.compute) {
        let (step, op) = (
            Step {
                queue: Queue::Compute,
                at,
            },
            compute.op,
        );
        let wrong = |problem| PlanError::WrongOperator { step, op, problem };
        match seen.get_mut(op as usize) {
            None => return Err(wrong("the graph does not have")),
            Some(true) => return Err(wrong("ran already")),
            Some(seen) => *seen = true,
        }
        let outputs = &graph.operator(op).outputs;
        let mut placed: Vec<TensorId> = plan
            .outputs_of(at as usize)
            .iter()
            .map(|place| place.tensor)
            .collect();
        let mut made = outputs.clone();
        placed.sort_unstable();
        made.sort_unstable();
        if placed != made {
            return Err(wrong("makes other tensors than the plan has places for"));
        }
    }
    let swapped_in = plan.swap_in.iter().map(|swap| swap.place.tensor);
    check_tensors(graph, Queue::SwapIn, swapped_in)?;
    check_tensors(
        graph,
        Queue::SwapOut,
        plan.swap_out.iter().map(|swap| swap.tensor),
    )
}

fn check_tensors(
    graph: &Graph,
    queue: Queue,
    tensors: impl Iterator<Item = TensorId>,
) -> Result<(), PlanError> {
    for (at, tensor) in (0..).zip(tensors) {
        if tensor as usize >= graph.tensors().len() {
            let (step, problem) = (Step { queue, at }, "the graph does not have");
            return Err(PlanError::WrongTensor {
                step,
                tensor,
                problem,
            });
        }
    }
    Ok(())
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
            self.stay(*place, None);
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

    fn stay(&mut self, place: Place, begun: Option<Step>) {
        let stay = self.stays.len();
        let known = &mut self.known[place.tensor as usize];
        known.stay = Some(stay);
        self.stays.push(Stay {
            place,
            begun,
            used: [None; 3],
            version: known.version,
            is_over: false,
        });
    }

    /// Puts a tensor somewhere: whatever used that place before has ended.
    fn put(&mut self, place: Place, step: Step) -> Result<(), PlanError> {
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
        self.stay(place, Some(step));
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

    /// The stay in which `step` finds the latest value of a tensor.
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
        if stay.is_over {
            return Err(not_there("was overwritten"));
        }
        if stay
            .begun
            .is_some_and(|begun| !self.clock.is_before(begun, step))
        {
            return Err(not_there("may not be in GPU memory yet"));
        }
        if stay.version != known.version {
            let problem = "it was changed elsewhere since it was put there";
            return Err(PlanError::WrongValue {
                step,
                tensor,
                problem,
            });
        }
        if known
            .writer
            .is_some_and(|writer| !self.clock.is_before(writer, step))
        {
            let problem = "it may not be computed yet";
            return Err(PlanError::WrongValue {
                step,
                tensor,
                problem,
            });
        }
        stay.used[step.queue as usize] = Some(step.at);
        Ok(of)
    }

    fn compute(&mut self, step: Step) -> Result<(), PlanError> {
        let compute = &self.plan.compute[step.at as usize];
        let operator = self.graph.operator(compute.op);
        for (at, tensor) in operator.inputs.iter().enumerate() {
            self.find(*tensor, step)?;
            self.check_version(compute.op, at, step)?;
        }
        for (at, tensor) in operator.updates.iter().enumerate() {
            let stay = self.find(*tensor, step)?;
            self.check_version(compute.op, operator.inputs.len() + at, step)?;
            let known = &mut self.known[*tensor as usize];
            // A copy to the host that may still run would be torn.
            if let Some(out) = self.stays[stay].used[Queue::SwapOut as usize] {
                let out = Step {
                    queue: Queue::SwapOut,
                    at: out,
                };
                if !self.clock.is_before(out, step) {
                    let (tensor, problem) =
                        (*tensor, "it is changed while it is copied to the host");
                    return Err(PlanError::WrongValue {
                        step,
                        tensor,
                        problem,
                    });
                }
            }
            known.version += 1;
            known.writer = Some(step);
            self.stays[stay].version = known.version;
        }
        for place in self.plan.outputs_of(step.at as usize) {
            let known = &mut self.known[place.tensor as usize];
            known.exists = true;
            known.version += 1;
            known.writer = Some(step);
            self.put(*place, step)?;
        }
        Ok(())
    }

    /// An operator finds the tensor at `at` of those that it reads as the graph's order of operators has it.
    fn check_version(&self, op: OpId, at: usize, step: Step) -> Result<(), PlanError> {
        let (tensor, expected) = self.versions[op as usize][at];
        if expected == self.known[tensor as usize].version {
            return Ok(());
        }
        let problem = "it was changed too often or not often enough before";
        Err(PlanError::WrongValue {
            step,
            tensor,
            problem,
        })
    }

    fn swap_in(&mut self, step: Step) -> Result<(), PlanError> {
        let place = self.plan.swap_in[step.at as usize].place;
        let tensor = place.tensor;
        let known = &self.known[tensor as usize];
        let wrong = |problem| PlanError::WrongValue {
            step,
            tensor,
            problem,
        };
        match known.host {
            None => return Err(wrong("it was never copied to the host")),
            Some((version, _)) if version != known.version => {
                return Err(wrong("it was changed since it was copied to the host"));
            }
            Some((_, Some(out))) if !self.clock.is_before(out, step) => {
                return Err(wrong("it may not be in host memory yet"));
            }
            Some(_) => {}
        }
        self.put(place, step)
    }

    fn swap_out(&mut self, step: Step) -> Result<(), PlanError> {
        let tensor = self.plan.swap_out[step.at as usize].tensor;
        self.find(tensor, step)?;
        let known = &mut self.known[tensor as usize];
        known.host = Some((known.version, Some(step)));
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
                        !stay.is_over && is_same(stay.place) && stay.version == known.version
                    });
                    if !is_there {
                        return not_kept("is not where the next iteration expects it");
                    }
                }
                None => {
                    if known
                        .host
                        .is_none_or(|(version, _)| version != known.version)
                    {
                        return not_kept("its latest value is not in host memory");
                    }
                }
            }
        }
        Ok(())
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
