//! Faults that are planted in right plans are refused, each for its reason.
//!
//! Some faults are wrong in any plan. Others may by luck leave a right plan: a wait that another
//! one implies, a copy of a tensor that still is where it was. Those count only where an execution
//! of the plan goes wrong ([`common::executor`]), which knows no rules about waits.

#[expect(dead_code, reason = "other tests use the rest")]
#[path = "../common/mod.rs"]
mod common;
mod copies;
mod memory;
mod numbers;
mod operators;
mod repeats;
mod waits;

use common::executor::execute;
use common::graphs::random;
use common::plans::Planner;
use rtswap_planner::advisor::Rng;
use rtswap_planner::graph::Graph;
use rtswap_planner::plan::{Plan, Queue, Waits};
use rtswap_planner::validator::{PlanError, Step, validate};

/// How a test knows that a plan with a fault is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    /// It is wrong whatever else the plan does.
    Certain,
    /// An execution that goes wrong with random times.
    Random,
    /// An execution that goes wrong where this step takes long and all others are quick.
    Slow(Step),
}

impl Proof {
    fn holds(self, graph: &Graph, plan: &Plan, rng: &mut Rng) -> bool {
        match self {
            Self::Certain => true,
            Self::Random => (0..5)
                .any(|most| execute(graph, plan, |_| rng.below(1 << (4 * most)) as u64).is_err()),
            Self::Slow(slow) => {
                execute(graph, plan, |step| if step == slow { 1 << 40 } else { 1 }).is_err()
            }
        }
    }
}

/// Plants a fault in plans of random graphs until 500 of each planner are proven wrong and are
/// refused, with an error that `is_expected`. `plant` returns none for a plan that has no place for
/// the fault.
fn refused(
    name: &str,
    is_expected: impl Fn(&PlanError) -> bool,
    mut plant: impl FnMut(&Graph, &mut Plan, &mut Rng) -> Option<Proof>,
) {
    const WANTED: usize = 500;
    for planner in [Planner::Pooled, Planner::Arena] {
        let (mut wrong, mut lucky, mut strict) = (0, 0, 0);
        for seed in 0..60_000 {
            if wrong == WANTED {
                break;
            }
            let mut rng = Rng::new(seed);
            let operators = 1 + rng.below(60);
            let graph = random(&mut rng, operators);
            let Some(mut plan) = planner.plan(&graph, &mut rng) else {
                continue;
            };
            let Some(proof) = plant(&graph, &mut plan, &mut rng) else {
                continue;
            };
            let result = validate(&graph, &plan);
            if proof.holds(&graph, &plan, &mut rng) {
                let Err(error) = result else {
                    panic!("{name}, {planner:?}, seed {seed}: not refused");
                };
                assert!(
                    is_expected(&error),
                    "{name}, {planner:?}, seed {seed}: {error}"
                );
                wrong += 1;
            } else {
                lucky += 1;
                strict += usize::from(result.is_err());
            }
        }
        println!(
            "{name}, {planner:?}: {wrong} refused; by luck not wrong: {lucky}, {strict} of them refused as well"
        );
        assert_eq!(wrong, WANTED, "{name}, {planner:?}: too few plans");
    }
}

/// All steps of a plan.
fn steps(plan: &Plan) -> Vec<Step> {
    let counts = [plan.compute.len(), plan.swap_in.len(), plan.swap_out.len()];
    let of = |(queue, count)| (0..count as u32).map(move |at| Step { queue, at });
    Queue::ALL.into_iter().zip(counts).flat_map(of).collect()
}

/// The waits of a step.
fn waits(plan: &mut Plan, step: Step) -> &mut [u32; 3] {
    let at = step.at as usize;
    let Waits(waits) = match step.queue {
        Queue::Compute => &mut plan.compute[at].waits,
        Queue::SwapIn => &mut plan.swap_in[at].waits,
        Queue::SwapOut => &mut plan.swap_out[at].waits,
    };
    waits
}

/// Lets steps wait for the same steps as before, now that step `at` of a queue is gone, and for
/// `instead` where they waited for it.
fn renumber(plan: &mut Plan, queue: Queue, at: usize, instead: Waits) {
    for step in steps(plan) {
        let of = waits(plan, step);
        let count = &mut of[queue as usize];
        if *count as usize == at + 1 {
            *count -= 1;
            for (count, instead) in of.iter_mut().zip(instead.0) {
                *count = instead.max(*count);
            }
        } else if *count as usize > at {
            *count -= 1;
        }
    }
}

/// Any element.
fn any<T: Clone>(of: &[T], rng: &mut Rng) -> Option<T> {
    (!of.is_empty()).then(|| of[rng.below(of.len())].clone())
}
