//! Runs a plan on a memory that knows what each of its pieces holds, with any time for each step.
//!
//! It is what tells the tests whether a plan is wrong: not by rules about waits as the validator
//! has them, but by an execution in which an operator reads something else than the graph asks for.
//! It knows nothing of when memory is free.

use rtswap_planner::graph::{Graph, TensorId};
use rtswap_planner::plan::{Extent, Place, Plan, Queue, Waits};
use rtswap_planner::validator::Step;

/// What an execution got wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Steps wait for each other.
    Stuck,
    /// An operator did not find the tensor with the graph's value, from its beginning to its end.
    Read(Step, TensorId),
    /// A swap-out did not find its tensor whole and the same from its beginning to its end.
    Torn(Step),
    /// Behind the iteration, the value of a kept tensor is not where the next one expects it.
    Lost(TensorId),
}

/// What a piece of memory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Garbage,
    /// A tensor, after so many operators made or changed it.
    Value(TensorId, u32),
    /// What a step that has not ended is writing.
    Partial(Step),
}

/// A step under way.
struct Running {
    step: Step,
    ends: u64,
    /// What it reads, where, and what it found there.
    reads: Vec<(TensorId, Option<Place>, Content)>,
    /// What it writes in GPU memory, where, and what will be there.
    writes: Vec<(Place, Content)>,
}

struct Device<'a> {
    graph: &'a Graph,
    plan: &'a Plan,
    /// Where pieces of memory begin: at the ends of all extents.
    bounds: Vec<u64>,
    memory: Vec<Content>,
    host: Vec<Content>,
    /// Where each tensor was put last.
    places: Vec<Option<Place>>,
    /// For each operator, its tensors with the number of changes that it finds: the graph's order
    /// decides.
    versions: Vec<Vec<(TensorId, u32)>>,
}

/// Runs a plan with all extents in its budget. `time` gives the time of each step. Tells the
/// places of the tensors that each compute step uses.
pub(crate) fn execute(
    graph: &Graph,
    plan: &Plan,
    mut time: impl FnMut(Step) -> u64,
) -> Result<Vec<Vec<Place>>, Fault> {
    let mut device = Device::new(graph, plan);
    let counts = [plan.compute.len(), plan.swap_in.len(), plan.swap_out.len()];
    let mut done = [0_usize; 3];
    let mut running: [Option<Running>; 3] = [const { None }; 3];
    let mut used = Vec::new();
    let mut now = 0_u64;
    loop {
        for queue in Queue::ALL {
            let (own, at) = (queue as usize, done[queue as usize]);
            if running[own].is_some() || at == counts[own] {
                continue;
            }
            let step = Step {
                queue,
                at: at as u32,
            };
            let Waits(waits) = waits_of(plan, step);
            if (0..3).all(|of| waits[of] as usize <= done[of]) {
                let ends = now.saturating_add(time(step));
                let begun = device.begin(step, ends)?;
                if queue == Queue::Compute {
                    let read = begun.reads.iter().filter_map(|(_, place, _)| *place);
                    used.push(read.chain(plan.outputs_of(at).iter().copied()).collect());
                }
                running[own] = Some(begun);
            }
        }
        let under_way = running.iter().flatten();
        let Some(next) = under_way.map(|running| running.ends).min() else {
            break;
        };
        now = next;
        for own in 0..3 {
            if let Some(ended) = running[own].take_if(|running| running.ends == now) {
                device.end(ended)?;
                done[own] += 1;
            }
        }
    }
    if done != counts {
        return Err(Fault::Stuck);
    }
    device.end_iteration().map(|()| used)
}

/// What a step of a plan waits for.
pub(crate) fn waits_of(plan: &Plan, step: Step) -> Waits {
    let at = step.at as usize;
    match step.queue {
        Queue::Compute => plan.compute[at].waits,
        Queue::SwapIn => plan.swap_in[at].waits,
        Queue::SwapOut => plan.swap_out[at].waits,
    }
}

impl<'a> Device<'a> {
    fn new(graph: &'a Graph, plan: &'a Plan) -> Self {
        let ends = |extent: &Extent| [extent.offset, extent.offset + extent.bytes];
        let mut bounds: Vec<u64> = plan.extents.iter().flat_map(ends).collect();
        bounds.sort_unstable();
        bounds.dedup();
        let tensors = graph.tensors().len();
        let mut device = Self {
            graph,
            plan,
            memory: vec![Content::Garbage; bounds.len()],
            bounds,
            host: vec![Content::Garbage; tensors],
            places: vec![None; tensors],
            versions: Vec::new(),
        };
        let mut version = vec![0; tensors];
        for operator in graph.operators() {
            let found = operator.tensors().map(|id| (id, version[id as usize]));
            device.versions.push(found.collect());
            for id in operator.updates.iter().chain(&operator.outputs) {
                version[*id as usize] += 1;
            }
        }
        for (id, tensor) in (0..).zip(graph.tensors()) {
            if tensor.kind.is_given() {
                device.host[id as usize] = Content::Value(id, 0);
            }
        }
        for place in &plan.residents {
            let id = place.tensor;
            // The iteration before changed it, and copied nothing to the host.
            if version[id as usize] > 0 {
                device.host[id as usize] = Content::Garbage;
            }
            device.places[id as usize] = Some(*place);
            device.write(*place, Content::Value(id, 0));
        }
        device
    }

    fn pieces(&self, place: Place) -> impl Iterator<Item = usize> + use<'a> {
        let at = |offset: u64| self.bounds.partition_point(|bound| *bound < offset);
        let extents = self.plan.extents_of(place).iter();
        let ranges = extents.map(|extent| at(extent.offset)..at(extent.offset + extent.bytes));
        ranges.collect::<Vec<_>>().into_iter().flatten()
    }

    fn write(&mut self, place: Place, content: Content) {
        for at in self.pieces(place) {
            self.memory[at] = content;
        }
    }

    /// What a place holds; garbage where its pieces hold different things.
    fn read(&self, place: Option<Place>) -> Content {
        let Some(place) = place else {
            return Content::Garbage;
        };
        let mut contents = self.pieces(place).map(|at| self.memory[at]);
        let first = contents.next().unwrap_or(Content::Garbage);
        if contents.all(|content| content == first) {
            first
        } else {
            Content::Garbage
        }
    }

    fn begin(&mut self, step: Step, ends: u64) -> Result<Running, Fault> {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        let at = step.at as usize;
        match step.queue {
            Queue::Compute => {
                let op = self.plan.compute[at].op as usize;
                let operator = &self.graph.operators()[op];
                let expected = self.versions[op].clone();
                for (id, version) in expected {
                    let place = self.places[id as usize];
                    if operator.outputs.contains(&id) {
                        continue;
                    }
                    let value = Content::Value(id, version);
                    if self.read(place) != value {
                        return Err(Fault::Read(step, id));
                    }
                    match place.filter(|_| operator.updates.contains(&id)) {
                        Some(place) => writes.push((place, Content::Value(id, version + 1))),
                        None => reads.push((id, place, value)),
                    }
                }
                for place in self.plan.outputs_of(at) {
                    self.places[place.tensor as usize] = Some(*place);
                    writes.push((*place, Content::Value(place.tensor, 1)));
                }
            }
            Queue::SwapIn => {
                let place = self.plan.swap_in[at].place;
                let id = place.tensor;
                self.places[id as usize] = Some(place);
                reads.push((id, None, self.host[id as usize]));
                writes.push((place, Content::Garbage));
            }
            Queue::SwapOut => {
                let id = self.plan.swap_out[at].tensor;
                let place = self.places[id as usize];
                reads.push((id, place, self.read(place)));
                self.host[id as usize] = Content::Partial(step);
            }
        }
        for (place, _) in &writes {
            self.write(*place, Content::Partial(step));
        }
        Ok(Running {
            step,
            ends,
            reads,
            writes,
        })
    }

    fn end(&mut self, ended: Running) -> Result<(), Fault> {
        let Running {
            step,
            reads,
            mut writes,
            ..
        } = ended;
        for (id, place, found) in reads {
            let host = &self.host[id as usize];
            match step.queue {
                Queue::Compute if self.read(place) != found => return Err(Fault::Read(step, id)),
                Queue::SwapIn if *host == found => writes[0].1 = found,
                Queue::Compute | Queue::SwapIn => {}
                Queue::SwapOut => {
                    let is_whole = matches!(found, Content::Value(of, _) if of == id);
                    if !is_whole || self.read(place) != found || *host != Content::Partial(step) {
                        return Err(Fault::Torn(step));
                    }
                    self.host[id as usize] = found;
                }
            }
        }
        for (place, value) in writes {
            for at in self.pieces(place) {
                // Two steps that write to the same piece at the same time leave nothing whole
                // there.
                let is_own = self.memory[at] == Content::Partial(step);
                self.memory[at] = if is_own { value } else { Content::Garbage };
            }
        }
        Ok(())
    }

    fn end_iteration(&self) -> Result<(), Fault> {
        let mut last = vec![0; self.host.len()];
        for operator in self.graph.operators() {
            for id in &operator.updates {
                last[*id as usize] += 1;
            }
        }
        for (id, tensor) in (0..).zip(self.graph.tensors()) {
            if !tensor.kind.is_kept() {
                continue;
            }
            let resident = self.plan.residents.iter().find(|place| place.tensor == id);
            let found = match resident {
                None => self.host[id as usize],
                // Chunks are mapped to where the next iteration expects them; other memory is not.
                Some(_) if self.plan.chunk > 0 => self.read(self.places[id as usize]),
                Some(place) => self.read(Some(*place)),
            };
            if found != Content::Value(id, last[id as usize]) {
                return Err(Fault::Lost(id));
            }
        }
        Ok(())
    }
}
