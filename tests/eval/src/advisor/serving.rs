//! Fig. 8: several ResNet-152 that serve on one GPU.
//!
//! Requests of one batch each arrive at random (Poisson) for any of the models, and are served in the order in which they
//! came. A GPU that time-shares its memory gives all of it to one model at a time.

use rtswap_planner::advisor::Rng;
use rtswap_planner::graph::{Graph, Kind};
use rtswap_planner::machine::Link;

/// How the models share the GPU's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// There is one model only.
    Alone,
    /// Another model's parameters are copied in before its batch runs.
    Time,
    /// Each model has its part of the memory, in which SwapAdvisor's plan runs it.
    Parts,
    /// rtswap: a model that is not in memory is swapped in before its job, while the one that was used least recently is
    /// swapped out; all that fit stay.
    Whole,
}

/// What of a model matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Bytes of its parameters.
    pub parameters: u64,
    /// Bytes that it has in GPU memory while it runs.
    pub footprint: u64,
    /// Nanoseconds of one batch with all of it in memory.
    pub whole_ns: u64,
    /// Nanoseconds of one batch in the part of the memory that it has.
    pub part_ns: u64,
}

/// Bytes of a graph's parameters.
pub fn parameters(graph: &Graph) -> u64 {
    graph.bytes_of(Kind::Parameter)
}

/// The 99th percentile of the latency of `requests` requests, at least 1, in nanoseconds, with `rate` requests per second for `models`
/// models in `budget` bytes. None where they come faster than they are served: then latencies grow without end.
pub fn latency_p99(
    sharing: Sharing,
    models: usize,
    served: Served,
    budget: u64,
    rate: f64,
    requests: usize,
    seed: u64,
) -> Option<u64> {
    let mut rng = Rng::new(seed);
    let resident = (budget / served.footprint.max(1)).max(1) as usize;
    // The models in memory, the one that was used last at the end.
    let mut recent: Vec<usize> = Vec::new();
    let (mut arrival, mut free, mut busy) = (0.0_f64, 0.0_f64, 0.0_f64);
    let mut latencies: Vec<u64> = (0..requests.max(1))
        .map(|_| {
            // 1 - u is never 0.
            arrival += -(1.0 - rng.unit()).ln() / rate * 1e9;
            let model = rng.below(models);
            let known = recent.iter().position(|other| *other == model);
            let is_there = known.map(|at| recent.remove(at)).is_some();
            recent.push(model);
            let most = if sharing == Sharing::Time {
                1
            } else {
                resident
            };
            if recent.len() > most {
                recent.remove(0);
            }
            let copies = match sharing {
                Sharing::Time if !is_there => served.parameters as f64 / Link::PCIE3.alone,
                Sharing::Whole if !is_there => served.footprint as f64 / Link::PCIE3.duplex,
                _ => 0.0,
            };
            let part = sharing == Sharing::Parts;
            let computed = if part {
                served.part_ns
            } else {
                served.whole_ns
            };
            let batch = computed as f64 + copies;
            busy += batch;
            free = free.max(arrival) + batch;
            (free - arrival) as u64
        })
        .collect();
    latencies.sort_unstable();
    (busy < arrival).then(|| latencies[(latencies.len() * 99).div_ceil(100) - 1])
}
