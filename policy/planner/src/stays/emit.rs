//! The plan that follows from decisions.

use alloc::vec::Vec;

use super::{Gap, Slot, Stays};
use crate::chunks::FreeChunks;
use crate::graph::{OpId, Starts, TensorId};
use crate::plan::{Compute, Extent, Place, Plan, Queue, SwapIn, SwapOut, Waits};

/// The decisions do not fit into the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("slot {slot} needs {needed} bytes, and the budget has {budget}")]
pub struct TooLarge {
    /// The slot that needs the most.
    pub slot: Slot,
    /// What it needs, in bytes.
    pub needed: u64,
    /// The budget in bytes.
    pub budget: u64,
}

/// What the plan knows of a tensor so far.
#[derive(Clone, Copy, Debug)]
struct State {
    /// Where it is, or was last.
    place: Place,
    is_in_host: bool,
    /// The number of compute steps after which nothing uses it where it was last.
    used: u32,
    /// The same of what makes or changes it.
    changed: u32,
    /// The number of swap-ins after which it is there.
    arrived: u32,
    /// The number of swap-outs after which its value is in host memory.
    written: u32,
}

struct Emission<'a, 'b> {
    stays: &'b Stays<'a>,
    free: FreeChunks,
    tensors: Vec<State>,
    /// For each slot so far the number of compute steps before it.
    steps: Vec<u32>,
    plan: Plan,
}

impl Stays<'_> {
    /// The plan that does what was decided, in `budget` bytes. Its copies are queued in the order of their slots.
    ///
    /// # Errors
    /// A slot needs more.
    pub fn plan(&self, budget: u64) -> Result<Plan, TooLarge> {
        let (slot, needed) = self.peak();
        if needed > budget {
            return Err(TooLarge {
                slot,
                needed,
                budget,
            });
        }
        let (leaving, coming) = self.events();
        let mut emission = Emission {
            stays: self,
            free: FreeChunks::new(self.chunk),
            tensors: Vec::new(),
            steps: Vec::new(),
            plan: Plan {
                budget,
                chunk: self.chunk,
                ..Plan::default()
            },
        };
        emission.begin();
        let mut again = self.again.iter().peekable();
        for slot in 0..=self.end() {
            emission.steps.push(emission.plan.compute.len() as u32);
            for id in leaving.of(slot) {
                emission.swap_out(*id, slot);
            }
            for id in coming.of(slot) {
                emission.swap_in(*id);
            }
            while let Some((_, op)) = again.next_if(|(of, _)| *of == slot) {
                emission.compute(*op);
                emission.give_up_again(*op, slot);
            }
            if let Some(op) = (slot as usize)
                .checked_sub(1)
                .and_then(|at| self.schedule.get(at))
            {
                emission.compute(*op);
                emission.record_uses(*op, slot);
            }
        }
        Ok(emission.plan)
    }

    /// The first slot in which the copy to the host of a tensor may begin that has left before `slot`: this one at the latest.
    fn out_begin(&self, tensor: TensorId, slot: Slot) -> Slot {
        let number = self.uses.of(tensor).partition_point(|of| *of < slot);
        self.out_begins[self.index(tensor, number as u32)].min(slot)
    }

    /// The tensors that leave and that come in each slot.
    fn events(&self) -> (Starts, Starts) {
        let (mut leaving, mut coming) = (Vec::new(), Vec::new());
        let end = self.end();
        for id in 0..self.graph.tensors().len() as TensorId {
            let kind = self.graph.tensor(id).kind;
            let uses = self.uses.of(id);
            let count = uses.len() as u32;
            for number in 0..=count {
                let Gap::Swaps { leaves, comes } = self.gap(id, number) else {
                    continue;
                };
                let is_resident = self.is_resident(id);
                let (is_head, is_tail) = (number == 0, number == count);
                let does_leave = if is_head {
                    is_resident
                } else {
                    !is_tail || kind.is_kept()
                };
                if does_leave {
                    leaving.push((leaves.min(end), id));
                }
                if !is_tail || is_resident {
                    let to = self.slot_behind(id, number);
                    coming.push((comes.min(to), id));
                }
            }
        }
        // What leaves is in the order of its last use, and what comes in the order of its next one.
        let slots = end as usize + 1;
        let before = |(slot, id): &(Slot, TensorId)| {
            let uses = self.uses.of(*id);
            let at = uses.partition_point(|of| of < slot);
            at.checked_sub(1).map_or(0, |at| uses[at])
        };
        let behind = |(slot, id): &(Slot, TensorId)| {
            let uses = self.uses.of(*id);
            let at = uses.partition_point(|of| of < slot);
            uses.get(at).copied().unwrap_or(end)
        };
        let begins = |(slot, id): &(Slot, TensorId)| self.out_begin(*id, *slot);
        leaving.sort_by_key(|event| (begins(event), before(event)));
        coming.sort_by_key(behind);
        (Starts::new(slots, &leaving), Starts::new(slots, &coming))
    }
}

impl Emission<'_, '_> {
    /// Residents lie one after the other from the beginning of the budget.
    fn begin(&mut self) {
        let (stays, plan) = (self.stays, &mut self.plan);
        let mut next = 0;
        for (id, tensor) in (0..).zip(stays.graph.tensors()) {
            let is_in = stays.is_resident(id);
            let place = Place {
                tensor: id,
                first: plan.extents.len() as u32,
                count: u32::from(is_in),
            };
            if is_in {
                let chunks = stays.chunks(id);
                plan.extents.push(Extent {
                    offset: next * stays.chunk,
                    bytes: chunks * stays.chunk,
                });
                plan.residents.push(place);
                next += chunks;
            }
            self.tensors.push(State {
                place,
                // The iteration before this one changed it, and left it in GPU memory only.
                is_in_host: tensor.kind.is_given() && !(is_in && stays.is_changed(id)),
                used: 0,
                changed: 0,
                arrived: 0,
                written: 0,
            });
        }
        self.free.reset(plan.budget, next);
    }

    fn take(&mut self, id: TensorId, is_copy: bool) -> (Place, Waits) {
        let first = self.plan.extents.len() as u32;
        let chunks = self.stays.chunks(id);
        let waits = self.free.take(chunks, is_copy, &mut self.plan.extents);
        debug_assert!(waits.is_some(), "the peak is within the budget");
        let count = self.plan.extents.len() as u32 - first;
        let place = Place {
            tensor: id,
            first,
            count,
        };
        (place, waits.unwrap_or_default())
    }

    fn give(&mut self, id: TensorId, waits: Waits) {
        let place = self.tensors[id as usize].place;
        for at in place.first..place.first + place.count {
            self.free.give(self.plan.extents[at as usize], waits);
        }
    }

    /// The tensor has left before `slot`.
    fn swap_out(&mut self, id: TensorId, slot: Slot) {
        let begin = self.steps[self.stays.out_begin(id, slot) as usize];
        let state = &mut self.tensors[id as usize];
        let arrived = Waits::on(Queue::SwapIn, state.arrived);
        let mut waits = Waits::on(Queue::Compute, state.used).and(arrived);
        if !state.is_in_host {
            self.plan.swap_out.push(SwapOut {
                tensor: id,
                // Others may still read it meanwhile.
                waits: Waits::on(Queue::Compute, state.changed.max(begin)).and(arrived),
            });
            state.is_in_host = true;
            state.written = self.plan.swap_out.len() as u32;
        }
        waits = waits.and(Waits::on(Queue::SwapOut, state.written));
        self.give(id, waits);
    }

    fn swap_in(&mut self, id: TensorId) {
        let (place, free) = self.take(id, true);
        // It comes at its slot: earlier it would keep others from the link.
        let slot = Waits::on(Queue::Compute, self.plan.compute.len() as u32);
        let state = &mut self.tensors[id as usize];
        let written = Waits::on(Queue::SwapOut, state.written);
        let waits = free.and(written).and(slot);
        self.plan.swap_in.push(SwapIn { place, waits });
        state.place = place;
        state.arrived = self.plan.swap_in.len() as u32;
    }

    fn compute(&mut self, op: OpId) {
        let operator = self.stays.graph.operator(op);
        let mut waits = Waits::default();
        for id in operator.inputs.iter().chain(&operator.updates) {
            waits = waits.and(Waits::on(Queue::SwapIn, self.tensors[*id as usize].arrived));
        }
        let outputs = self.plan.outputs.len() as u32;
        for id in &operator.outputs {
            let (place, free) = self.take(*id, false);
            let state = &mut self.tensors[*id as usize];
            (state.place, state.arrived) = (place, 0);
            self.plan.outputs.push(place);
            waits = waits.and(free);
        }
        waits.0[Queue::Compute as usize] = 0;
        self.plan.compute.push(Compute { op, waits, outputs });
        let done = self.plan.compute.len() as u32;
        for id in operator.tensors() {
            self.tensors[id as usize].used = done;
        }
        for id in operator.updates.iter().chain(&operator.outputs) {
            let state = &mut self.tensors[*id as usize];
            (state.is_in_host, state.changed) = (false, done);
        }
    }

    /// What an operator made again beside what it ran again for.
    fn give_up_again(&mut self, op: OpId, slot: Slot) {
        let done = Waits::on(Queue::Compute, self.plan.compute.len() as u32);
        let stays = self.stays;
        let is_needed = |id: TensorId| {
            let number = stays.uses.of(id).partition_point(|of| *of < slot) as u32;
            stays.uses.of(id).contains(&slot) && stays.gap(id, number) == Gap::IsMadeAgain
        };
        for id in stays.graph.operator(op).outputs.iter().copied() {
            if !is_needed(id) {
                self.give(id, done);
            }
        }
    }

    /// The operator of a slot has run: what is used no more, or given up until it is made again, is gone.
    fn record_uses(&mut self, op: OpId, slot: Slot) {
        let done = Waits::on(Queue::Compute, self.plan.compute.len() as u32);
        let stays = self.stays;
        for id in stays.graph.operator(op).tensors() {
            let uses = stays.uses.of(id);
            let number = uses.partition_point(|of| *of <= slot);
            let is_last = number == uses.len();
            let is_gone = if is_last {
                !stays.graph.tensor(id).kind.is_kept()
            } else {
                stays.gap(id, number as u32) == Gap::IsMadeAgain
            };
            if is_gone {
                self.give(id, done);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;
    use crate::graph::{Graph, Kind, Operator, Tensor};

    /// Two operators make a tensor each, two use neither, and the last one reads both.
    fn two_idle_tensors() -> Graph {
        let tensors = [Kind::Activation; 2].map(|kind| Tensor {
            name: String::new(),
            kind,
            bytes: 100,
        });
        let operator = |inputs: &[TensorId], outputs: &[TensorId]| Operator {
            name: String::new(),
            inputs: inputs.to_vec(),
            outputs: outputs.to_vec(),
            updates: Vec::new(),
            flops: 0,
            bytes: 0,
            time_ns: 1,
            is_random: false,
        };
        let operators = [
            operator(&[], &[0]),
            operator(&[], &[1]),
            operator(&[], &[]),
            operator(&[], &[]),
            operator(&[0, 1], &[]),
        ];
        Graph::new(tensors.into(), operators.into()).unwrap()
    }

    #[test]
    fn a_copy_out_waits_for_its_slot() {
        let graph = two_idle_tensors();
        let mut stays = Stays::new(&graph, (0..5).collect(), 100);
        let gap = Gap::Swaps {
            leaves: 5,
            comes: 5,
        };
        stays.set(0, 1, gap);
        stays.set(1, 1, gap);
        let outs = |stays: &Stays<'_>| -> Vec<(TensorId, u32)> {
            let plan = stays.plan(200).unwrap();
            let outs = plan.swap_out.iter();
            outs.map(|swap| (swap.tensor, swap.waits.of(Queue::Compute)))
                .collect()
        };
        // As early as they can, in the order of their last uses.
        assert_eq!(outs(&stays), [(0, 1), (1, 2)]);
        // In the order of their beginnings.
        stays.begin_out_at(0, 1, 4);
        assert_eq!(outs(&stays), [(1, 2), (0, 3)]);
        // A slot behind that in which it has left would be too late.
        stays.begin_out_at(1, 1, 9);
        assert_eq!(outs(&stays), [(0, 3), (1, 4)]);
    }
}
