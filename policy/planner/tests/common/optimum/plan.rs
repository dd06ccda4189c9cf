//! The best plan, as a planner would write it: that the validator accepts it and that it runs as
//! fast shows that the optimum is not below what can be done.

use rtswap_planner::graph::TensorId;
use rtswap_planner::plan::{Compute, Extent, Place, Plan, SwapIn, SwapOut, Waits};

use super::moves::{COMPUTE, IDLE, IN, OUT, State, members};
use super::{Model, Set};

/// A plan on the way, and the units of memory that it uses.
struct Draft {
    plan: Plan,
    unit: u64,
    free: Vec<u64>,
    /// The units of each tensor.
    units: Vec<Vec<u64>>,
    /// The tensors that have units.
    taken: Set,
    /// The steps of each queue that have ended.
    done: [u32; 3],
}

impl Model {
    /// The least number of steps, and a plan that takes as many, in one pool of units of so many
    /// bytes.
    pub(crate) fn best_plan(&self, unit: u64) -> Option<(u32, Plan)> {
        let (steps, path) = self.search()?;
        let units = u64::from(self.pools[0]);
        let mut draft = Draft {
            plan: Plan {
                budget: units * unit,
                chunk: unit,
                ..Plan::default()
            },
            unit,
            free: (0..units).collect(),
            units: vec![Vec::new(); self.items.len()],
            taken: 0,
            done: [0; 3],
        };
        for id in members(path[0].residents) {
            let place = draft.put(self, id);
            draft.plan.residents.push(place);
        }
        for pair in path.windows(2) {
            self.record(&mut draft, &pair[0], &pair[1]);
        }
        Some((steps, draft.plan))
    }

    /// Writes down what happens between two states.
    fn record(&self, draft: &mut Draft, from: &State, to: &State) {
        let ends = |at: usize| from.engines[at] != IDLE && to.engines[at] == IDLE;
        for at in [COMPUTE, IN, OUT].into_iter().filter(|at| ends(*at)) {
            draft.done[at] += 1;
        }
        let waits = Waits(draft.done);
        let begins = |at: usize| from.engines[at] == IDLE && to.engines[at] != IDLE;
        // An operator that takes no time has ended already.
        let at_once = if from.engines[COMPUTE] == IDLE {
            to.done & !from.done
        } else {
            0
        };
        let operator = members(at_once)
            .next()
            .or(begins(COMPUTE).then_some(usize::from(to.engines[COMPUTE].id)));
        if let Some(op) = operator {
            let task = &self.tasks[op];
            draft.drop(self.taken(to) | task.reads | task.makes);
            let outputs = draft.plan.outputs.len() as u32;
            let op = op as u32;
            draft.plan.compute.push(Compute { op, waits, outputs });
            for id in members(task.makes) {
                let place = draft.put(self, id);
                draft.plan.outputs.push(place);
            }
            draft.done[COMPUTE] += at_once.count_ones();
        }
        draft.drop(self.taken(to));
        if begins(IN) {
            let place = draft.put(self, usize::from(to.engines[IN].id));
            draft.plan.swap_in.push(SwapIn { place, waits });
        }
        if begins(OUT) {
            let tensor = TensorId::from(to.engines[OUT].id);
            draft.plan.swap_out.push(SwapOut { tensor, waits });
        }
    }
}

impl Draft {
    /// Frees the units of all tensors but these.
    fn drop(&mut self, but: Set) {
        for id in members(self.taken & !but) {
            self.free.append(&mut self.units[id]);
            self.taken &= !(1 << id);
        }
    }

    /// Puts a tensor anywhere.
    fn put(&mut self, model: &Model, id: usize) -> Place {
        let first = self.plan.extents.len() as u32;
        let room = usize::from(model.items[id].room);
        let units = self.free.split_off(self.free.len() - room);
        let extents = units.iter().map(|at| Extent {
            offset: at * self.unit,
            bytes: self.unit,
        });
        self.plan.extents.extend(extents);
        self.units[id] = units;
        self.taken |= 1 << id;
        Place {
            tensor: id as TensorId,
            first,
            count: room as u32,
        }
    }
}
