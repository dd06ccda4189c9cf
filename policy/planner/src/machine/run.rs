//! Runs the three queues of a plan against each other.

use crate::graph::Graph;
use crate::plan::{Plan, Queue, Waits};

/// The link between host and GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Bytes per nanosecond, which is GB per second, while one direction copies.
    pub alone: f64,
    /// The same of each direction while both copy.
    pub duplex: f64,
    /// Nanoseconds that each copy takes beside its bytes.
    pub latency_ns: f64,
}

impl Link {
    /// PCIe of the machine that SwapAdvisor measured: 12 GB/s in one direction, 20 GB/s in both (its section 6.1).
    pub const PCIE3: Self = Self {
        alone: 12.0,
        duplex: 10.0,
        latency_ns: 10_000.0,
    };

    /// How long a copy takes while the other direction copies nothing, in nanoseconds.
    pub fn copy_ns(&self, bytes: u64) -> u64 {
        // A cast from f64 saturates.
        (self.latency_ns + bytes as f64 / self.alone + 0.5) as u64
    }

    /// The part of one of so many jobs that share it evenly, at least one.
    #[must_use]
    pub fn shared(self, jobs: usize) -> Self {
        let jobs = jobs.max(1) as f64;
        Self {
            alone: self.alone / jobs,
            duplex: self.duplex / jobs,
            latency_ns: self.latency_ns * jobs,
        }
    }
}

/// What a run of a plan took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// From the beginning of the first step to the end of the last one, in nanoseconds.
    pub total_ns: u64,
    /// Of it, the compute engine worked.
    pub compute_ns: u64,
    /// Copies to the GPU were made for so long.
    pub swap_in_ns: u64,
    /// Copies to the host were made for so long.
    pub swap_out_ns: u64,
}

impl Run {
    /// For how long the compute engine waited for copies, in nanoseconds.
    pub fn stalled_ns(&self) -> u64 {
        self.total_ns.saturating_sub(self.compute_ns)
    }
}

/// A step under way.
#[derive(Clone, Copy, Default)]
struct Busy {
    is: bool,
    /// Nanoseconds until its bytes begin to flow, or the operator ends.
    fixed: f64,
    bytes: f64,
}

/// Runs a plan; none if its steps wait for each other.
pub fn run(graph: &Graph, plan: &Plan, link: Link) -> Option<Run> {
    observe(graph, plan, link, |_, _, _, _| ())
}

/// As [`run`], and tells of each step its queue, its place there, and when it began and ended, in nanoseconds.
pub fn observe(
    graph: &Graph,
    plan: &Plan,
    link: Link,
    mut tell: impl FnMut(Queue, usize, f64, f64),
) -> Option<Run> {
    let mut begun = [0.0_f64; 3];
    let counts = [plan.compute.len(), plan.swap_in.len(), plan.swap_out.len()];
    let mut done = [0_usize; 3];
    let mut busy = [Busy::default(); 3];
    let mut worked = [0.0_f64; 3];
    let mut now = 0.0_f64;
    loop {
        for queue in Queue::ALL {
            let own = queue as usize;
            if busy[own].is || done[own] == counts[own] {
                continue;
            }
            let (waits, step) = step(graph, plan, queue, done[own], link);
            let Waits(waits) = waits;
            if (0..3).all(|of| waits[of] as usize <= done[of]) {
                busy[own] = step;
                begun[own] = now;
            }
        }
        let flow = |of: usize| busy[of].is && busy[of].fixed <= 0.0;
        let both = flow(Queue::SwapIn as usize) && flow(Queue::SwapOut as usize);
        let rate = if both { link.duplex } else { link.alone };
        let left = |step: &Busy| {
            if step.fixed > 0.0 {
                step.fixed
            } else {
                step.bytes / rate
            }
        };
        let under_way = busy.iter().filter(|step| step.is);
        let span = under_way.map(left).fold(f64::INFINITY, f64::min);
        if span == f64::INFINITY {
            let is_whole = done == counts;
            return is_whole.then(|| Run {
                total_ns: (now + 0.5) as u64,
                compute_ns: (worked[0] + 0.5) as u64,
                swap_in_ns: (worked[1] + 0.5) as u64,
                swap_out_ns: (worked[2] + 0.5) as u64,
            });
        }
        now += span;
        for queue in Queue::ALL {
            let own = queue as usize;
            let (step, worked, done) = (&mut busy[own], &mut worked[own], &mut done[own]);
            if !step.is {
                continue;
            }
            *worked += span;
            let is_over = left(step) <= span;
            if step.fixed > 0.0 {
                step.fixed = if is_over { 0.0 } else { step.fixed - span };
            } else {
                step.bytes = if is_over {
                    0.0
                } else {
                    step.bytes - span * rate
                };
            }
            if step.fixed <= 0.0 && step.bytes <= 0.0 {
                step.is = false;
                tell(queue, *done, begun[own], now);
                *done += 1;
            }
        }
    }
}

fn step(graph: &Graph, plan: &Plan, queue: Queue, at: usize, link: Link) -> (Waits, Busy) {
    let copy = |tensor| Busy {
        is: true,
        fixed: link.latency_ns,
        bytes: graph.tensor(tensor).bytes as f64,
    };
    match queue {
        Queue::Compute => {
            let step = &plan.compute[at];
            let fixed = graph.operator(step.op).time_ns as f64;
            let busy = Busy {
                is: true,
                fixed,
                bytes: 0.0,
            };
            (step.waits, busy)
        }
        Queue::SwapIn => (plan.swap_in[at].waits, copy(plan.swap_in[at].place.tensor)),
        Queue::SwapOut => (plan.swap_out[at].waits, copy(plan.swap_out[at].tensor)),
    }
}
