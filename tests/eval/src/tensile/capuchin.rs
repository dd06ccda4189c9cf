//! Capuchin (Peng et al., ASPLOS 2020).
//!
//! The first iteration swaps on demand, and what its operators take is measured. Then the tensor at the peak with the
//! largest free time (FT) is swapped, until the peak is as low as it was told to be: FT is the time between two uses
//! that the copies out and in leave, were the link idle. Where none is left with a free time of at least 0, what
//! costs less is taken: the swap, at what its free time lacks, or the recomputation with the most memory saved per
//! second (MSPS). A tensor may not be swapped across iterations.

use anyhow::{Result, anyhow};
use rtswap_planner::advisor::{OnDemand, on_demand};
use rtswap_planner::graph::{Graph, Kind, TensorId};
use rtswap_planner::plan::Plan;
use rtswap_planner::stays::{Gap, GapAt, Slot, Stays};

use super::workloads::trace;
use super::{CHUNK, LINK};

/// The plan of the first iteration in so many bytes, or as few more as its largest operator takes.
pub fn passive(graph: &Graph, budget: u64) -> Result<Plan> {
    let budget = budget.max(graph.largest(CHUNK).bytes);
    on_demand(graph, &trace(graph), budget, CHUNK, OnDemand::Passive)
        .map_err(|error| anyhow!("swapping on demand: {error}"))
}

/// What each operator was measured to take, as the slots have it.
struct Clock {
    /// When each slot begins, in nanoseconds, and when the last one ends.
    begins: Vec<u64>,
}

impl Clock {
    fn new(times: &[u64]) -> Self {
        let mut begins = vec![0, 0];
        let mut now = 0;
        for time in times {
            now += time;
            begins.push(now);
        }
        Self { begins }
    }

    fn begin(&self, slot: Slot) -> u64 {
        self.begins[slot as usize]
    }

    fn end(&self, slot: Slot) -> u64 {
        self.begins[slot as usize + 1]
    }

    fn first_from(&self, ns: u64) -> Slot {
        self.begins.partition_point(|begin| *begin < ns) as Slot
    }

    fn last_until(&self, ns: u64) -> Slot {
        self.begins.partition_point(|begin| *begin <= ns) as Slot - 1
    }
}

/// A swap that could be decided.
struct Swap {
    at: GapAt,
    /// The free time in nanoseconds; less than 0 where the computation would wait.
    free_ns: f64,
    gap: Gap,
}

/// A recomputation that could be decided.
struct Again {
    at: GapAt,
    /// How long it takes, in nanoseconds.
    ns: u64,
    /// Bytes per nanosecond.
    saved: f64,
}

/// Decides for one job so that its peak is at most `target` bytes, or as low as it can be. `times` has nanoseconds
/// for each operator.
pub fn stays<'a>(graph: &'a Graph, times: &[u64], target: u64) -> Stays<'a> {
    let mut stays = Stays::new(graph, trace(graph), CHUNK);
    let clock = Clock::new(times);
    // Which tensors must be there for an operator that runs again, and in which slot.
    let mut pins: Vec<(TensorId, Slot)> = Vec::new();
    loop {
        let (peak, bytes) = stays.peak();
        if bytes <= target {
            return stays;
        }
        let gaps = gaps(&stays, peak, &pins);
        let swaps = gaps.iter().map(|at| swap(&stays, &clock, *at, peak));
        let swap = swaps.max_by(|one, other| one.free_ns.total_cmp(&other.free_ns));
        let again = gaps
            .iter()
            .filter_map(|at| again(&stays, times, *at))
            .max_by(|one, other| one.saved.total_cmp(&other.saved));
        match (swap, again) {
            (None, _) => return stays,
            (Some(swap), Some(again)) if again.ns as f64 <= -swap.free_ns => {
                let tensor = again.at.tensor;
                stays.set(tensor, again.at.number, Gap::IsMadeAgain);
                let maker = stays.maker(tensor).map(|op| graph.operator(op));
                let inputs = maker.iter().flat_map(|maker| &maker.inputs);
                pins.extend(inputs.map(|input| (*input, again.at.to)));
            }
            (Some(swap), _) => stays.set(swap.at.tensor, swap.at.number, swap.gap),
        }
    }
}

/// The gaps between two uses in which a tensor stays at the peak.
fn gaps(stays: &Stays<'_>, peak: Slot, pins: &[(TensorId, Slot)]) -> Vec<GapAt> {
    let tensors = 0..stays.graph().tensors().len() as TensorId;
    let gaps = tensors.filter_map(|id| stays.gap_at(id, peak));
    gaps.filter(|at| {
        let is_between = at.number > 0 && (at.number as usize) < stays.uses(at.tensor).len();
        let mut pins = pins.iter().filter(|(of, _)| *of == at.tensor);
        let is_pinned = pins.any(|(_, slot)| at.from < *slot && *slot < at.to);
        is_between && !is_pinned && stays.gap(at.tensor, at.number) == Gap::Stays
    })
    .collect()
}

fn swap(stays: &Stays<'_>, clock: &Clock, at: GapAt, peak: Slot) -> Swap {
    let ns = LINK.copy_ns(stays.graph().tensor(at.tensor).bytes);
    let out_ns = if stays.is_in_host(at.tensor, at.number) {
        0
    } else {
        ns
    };
    let gone = clock.end(at.from) + out_ns;
    let back = clock.begin(at.to).saturating_sub(ns);
    // What is late makes the computation wait where memory must be free, and where the tensor is used.
    let leaves = clock.first_from(gone).clamp(at.from + 1, peak);
    let comes = clock.last_until(back).clamp(peak + 1, at.to);
    Swap {
        at,
        free_ns: back as f64 - gone as f64,
        gap: Gap::Swaps { leaves, comes },
    }
}

/// The recomputation of what a tensor was right after it was made, from inputs that are in GPU memory.
fn again(stays: &Stays<'_>, times: &[u64], at: GapAt) -> Option<Again> {
    let graph = stays.graph();
    let op = stays.maker(at.tensor)?;
    let operator = graph.operator(op);
    let made = stays.uses(at.tensor)[0];
    let is_alone = operator
        .outputs
        .iter()
        .all(|id| *id == at.tensor || graph.tensor(*id).kind == Kind::Scratch);
    let is_there =
        |id: &TensorId| stays.is_in(*id, at.to) && !stays.is_changed_between(*id, made, at.to);
    let is_possible = operator.is_repeatable()
        && is_alone
        && !stays.is_changed_between(at.tensor, made, at.to)
        && operator.inputs.iter().all(is_there);
    let ns = times[op as usize].max(1);
    is_possible.then(|| Again {
        at,
        ns,
        saved: graph.tensor(at.tensor).bytes as f64 / ns as f64,
    })
}
