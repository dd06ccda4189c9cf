//! What a run of a plan comes to.

use rtswap_planner::graph::{Graph, TensorId};
use rtswap_planner::picture::Timeline;
use rtswap_planner::plan::Plan;
use rtswap_policy::units::Ppm;
use rtswap_taskset::plan::Predicted;
use serde::Serialize;

use super::{CHUNK, LINK};

/// The figures of one iteration.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Figures {
    pub(super) time_ns: u64,
    /// The time with infinite memory over this one, at most 1.
    pub(super) share: f64,
    /// For how long the compute engine waited for copies.
    pub(super) stalled_ns: u64,
    pub(super) swap_in_bytes: u64,
    pub(super) swap_out_bytes: u64,
    /// For how long copies were made.
    pub(super) swap_in_ns: u64,
    pub(super) swap_out_ns: u64,
    /// The most GPU memory in use at once.
    pub(super) peak_bytes: u64,
}

impl Figures {
    /// Those of a run of `plan`.
    pub(super) fn of(graph: &Graph, plan: &Plan, timeline: &Timeline<'_>) -> Self {
        let predicted = predicted(graph, timeline);
        let bytes = |tensor: TensorId| graph.tensor(tensor).bytes;
        let sum = |bytes: u64, more: u64| bytes.saturating_add(more);
        let copied_in = plan.swap_in.iter().map(|swap| bytes(swap.place.tensor));
        let copied_out = plan.swap_out.iter().map(|swap| bytes(swap.tensor));
        Self {
            time_ns: predicted.time_ns,
            share: share(&predicted),
            stalled_ns: predicted.unhidden_ns,
            swap_in_bytes: copied_in.fold(0, sum),
            swap_out_bytes: copied_out.fold(0, sum),
            swap_in_ns: timeline.run().swap_in_ns,
            swap_out_ns: timeline.run().swap_out_ns,
            peak_bytes: predicted.peak_bytes,
        }
    }

    /// Those of a run in infinite memory, where all that is given is there already.
    pub(super) fn ideal(graph: &Graph) -> Self {
        Self {
            time_ns: graph.compute_ns(),
            share: 1.0,
            stalled_ns: 0,
            swap_in_bytes: 0,
            swap_out_bytes: 0,
            swap_in_ns: 0,
            swap_out_ns: 0,
            peak_bytes: graph.peak(CHUNK),
        }
    }
}

/// What a plan file says of a run.
pub(super) fn predicted(graph: &Graph, timeline: &Timeline<'_>) -> Predicted {
    let run = timeline.run();
    Predicted {
        time_ns: run.total_ns,
        // What the run computed may have repeats in it.
        ideal_ns: graph.compute_ns(),
        peak_bytes: timeline.peak(),
        unhidden_ns: run.stalled_ns(),
    }
}

fn share(predicted: &Predicted) -> f64 {
    f64::from(predicted.share().0) / f64::from(Ppm::ONE.0)
}

/// Runs a plan that was validated, and records it.
pub(super) fn timeline<'a>(graph: &'a Graph, plan: &'a Plan) -> Timeline<'a> {
    Timeline::of(graph, plan, LINK).expect("no steps of a valid plan wait for each other")
}
