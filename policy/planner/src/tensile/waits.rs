//! Waits for copies: where no more copies can be hidden, an operator waits, and one more tensor swaps.

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::swap::Planning;
use super::timeline::Timeline;
use super::{Job, Settings, search, sum};

/// How often waits are added at most: each time all is planned again.
const ROUNDS: u32 = 32;

/// What is planned with some waits.
#[derive(Clone)]
struct Planned<'a> {
    timelines: Vec<Timeline>,
    /// For how long each job may still wait, in nanoseconds.
    left: Vec<u64>,
    plans: Vec<Planning<'a>>,
}

/// Plans with waits that each take less memory than the one before, until none is found or the jobs fit into the settings' memory.
/// A job waits for `extra` at most, as a part of the time of its operators.
pub(super) fn swap<'a>(jobs: &[Job<'a>], settings: &Settings, extra: f64) -> Vec<Planning<'a>> {
    let timelines: Vec<Timeline> = jobs
        .iter()
        .map(|job| Timeline::new(&job.schedule, &job.times))
        .collect();
    let allowed = |job: &Job<'_>| (job.times.iter().sum::<u64>() as f64 * extra) as u64;
    let mut best = Planned {
        plans: search(jobs, settings, &timelines),
        timelines,
        left: jobs.iter().map(allowed).collect(),
    };
    let enough = settings.memory.unwrap_or_default();
    // The longest wait of each job that was not tried yet.
    let mut longest = best.left.clone();
    for _ in 0..ROUNDS {
        if sum(&best.plans) <= enough {
            break;
        }
        let mut next = best.clone();
        let mut is_longer = false;
        for (job, plan) in best.plans.iter().enumerate() {
            let Some(waits) = plan.waits(longest[job]) else {
                continue;
            };
            let all: u64 = waits.iter().map(|(_, ns)| ns).sum();
            for (slot, ns) in waits {
                next.timelines[job].delay(slot, ns);
            }
            next.left[job] -= all;
            longest[job] = all - 1;
            is_longer = true;
        }
        if !is_longer {
            break;
        }
        next.plans = search(jobs, settings, &next.timelines);
        if score(&next.plans) < score(&best.plans) {
            longest.clone_from(&next.left);
            best = next;
        }
    }
    best.plans
}

/// Less is better: the memory in bytes, and of the same memory more swaps, because several slots may need the most.
fn score(plans: &[Planning<'_>]) -> (u64, Reverse<u64>) {
    let swaps = plans.iter().map(|plan| plan.swaps).sum();
    (sum(plans), Reverse(swaps))
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec;

    use super::super::plan_with_waits;
    use super::*;
    use crate::graph::{Graph, Kind, Operator, Tensor, TensorId};
    use crate::machine::{Link, run};
    use crate::validator::validate;

    const TENSORS: [(Kind, u64); 7] = [
        (Kind::Input, 10),
        (Kind::Activation, 100),
        (Kind::Activation, 100),
        (Kind::Activation, 100),
        (Kind::Gradient, 10),
        (Kind::Gradient, 10),
        (Kind::Gradient, 10),
    ];

    /// Three layers forward and back, each operator in 100 ns.
    fn layers() -> Graph {
        let tensors = TENSORS.map(|(kind, bytes)| Tensor {
            name: String::new(),
            kind,
            bytes,
        });
        let operator = |(inputs, output): (Vec<TensorId>, TensorId)| Operator {
            name: String::new(),
            inputs,
            outputs: vec![output],
            updates: Vec::new(),
            flops: 0,
            bytes: 0,
            time_ns: 100,
            is_random: false,
        };
        let operators = [
            (vec![0], 1),
            (vec![1], 2),
            (vec![2], 3),
            (vec![3], 4),
            (vec![2, 4], 5),
            (vec![1, 5], 6),
        ];
        Graph::new(tensors.into(), operators.map(operator).into()).unwrap()
    }

    fn settings(memory: Option<u64>) -> Settings {
        Settings {
            chunk: 1,
            // A copy of 100 bytes takes 102 ns, and the first activation could leave and come back in 100 ns each.
            link: Link {
                alone: 0.98,
                duplex: 0.98,
                latency_ns: 0.0,
            },
            is_across: true,
            memory,
        }
    }

    #[test]
    fn an_operator_waits_for_as_long_as_a_copy_lacks_time() {
        let graph = layers();
        let peak = |extra: f64, memory: Option<u64>| {
            let job = Job {
                graph: &graph,
                schedule: (0..6).collect(),
                times: vec![100; 6],
                most: 1.0,
            };
            let planned = plan_with_waits(&[job], &settings(memory), extra);
            let (_, peak) = planned[0].peak();
            let plan = planned[0].plan(peak).unwrap();
            validate(&graph, &plan).unwrap();
            let time = run(&graph, &plan, settings(memory).link).unwrap().total_ns;
            (peak, time)
        };
        // The copies lack 2 ns each, 4 of the 600 ns that operators take. The first operator waits 10 ns for the input.
        assert_eq!(peak(0.0, None), (310, 610));
        assert_eq!(peak(0.0066, None), (310, 610));
        assert_eq!(peak(0.0067, None), (300, 614));
        // No operator waits for what is not needed.
        assert_eq!(peak(0.5, Some(310)), (310, 610));
        assert_eq!(peak(0.5, Some(300)), (300, 614));
    }
}
