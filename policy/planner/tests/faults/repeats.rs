//! Operators that run more than once: where they may, and with which inputs.

use rtswap_planner::advisor::Rng;
use rtswap_planner::graph::{Graph, Kind, OpId, Operator, TensorId};
use rtswap_planner::plan::{Compute, Extent, Place, Plan, Queue, SwapIn, SwapOut, Waits};
use rtswap_planner::validator::{PlanError, Step, validate};

use super::common::executor::execute;
use super::common::graphs::{operator, random, tensor};
use super::common::plans::Planner;
use super::common::repeats::{Target, begun_by, repeat};
use super::{Proof, any, refused};

/// The bytes of each tensor of the small graphs.
const BYTES: u64 = 8;

/// A graph of five tensors: 0 is an input, the others are made.
fn small(operators: Vec<Operator>) -> Graph {
    let kind = |at| {
        if at == 0 {
            Kind::Input
        } else {
            Kind::Activation
        }
    };
    let tensors = (0..5).map(|at| tensor(kind(at), BYTES)).collect();
    Graph::new(tensors, operators).expect("it can run")
}

/// 0 makes tensor 1 from the input, 1 makes 2 from it, 2 changes tensor 1, and 3 reads that and
/// makes tensors 3 and 4.
fn changed() -> Graph {
    small(vec![
        operator(&[0], &[], &[1], 1),
        operator(&[1], &[], &[2], 1),
        operator(&[], &[1], &[], 1),
        operator(&[1], &[], &[3, 4], 1),
    ])
}

/// The place of a tensor among five, one behind the other.
fn home(tensor: TensorId) -> Place {
    Place {
        tensor,
        first: tensor,
        count: 1,
    }
}

/// A plan that copies the input in and runs these operators, each tensor at its home.
fn plan(graph: &Graph, order: &[OpId]) -> Plan {
    let extent = |at| Extent {
        offset: at * BYTES,
        bytes: BYTES,
    };
    let mut plan = Plan {
        budget: 5 * BYTES,
        extents: (0..5).map(extent).collect(),
        swap_in: vec![SwapIn {
            place: home(0),
            waits: Waits::default(),
        }],
        ..Plan::default()
    };
    for op in order {
        plan.compute.push(Compute {
            op: *op,
            waits: Waits::on(Queue::SwapIn, 1),
            outputs: plan.outputs.len() as u32,
        });
        let outputs = graph.operator(*op).outputs.iter();
        plan.outputs.extend(outputs.map(|tensor| home(*tensor)));
    }
    plan
}

/// What the validator says of a plan, which an execution must agree with.
fn told(graph: &Graph, plan: &Plan) -> String {
    let told = validate(graph, plan);
    let ran = execute(graph, plan, |_| 1);
    assert!(told.is_err() || ran.is_ok(), "{ran:?}");
    told.map_or_else(|error| error.to_string(), |()| "right".into())
}

#[test]
fn an_operator_may_run_again_before_and_behind_others() {
    let graph = changed();
    for order in [
        &[0, 1, 2, 3][..],
        &[0, 0, 1, 2, 3],
        &[0, 1, 1, 0, 2, 3],
        &[0, 1, 2, 3, 3, 0],
        &[0, 1, 2, 3, 0, 1, 0, 1],
    ] {
        assert_eq!(told(&graph, &plan(&graph, order)), "right", "{order:?}");
    }
}

#[test]
fn what_draws_random_numbers_or_changes_tensors_runs_once() {
    let mut graph = changed();
    assert_eq!(
        told(&graph, &plan(&graph, &[0, 1, 2, 2, 3])),
        "compute[3] runs operator 2, which ran already and changes tensors in place"
    );
    let mut operators = graph.operators().to_vec();
    operators[0].is_random = true;
    graph = small(operators);
    assert_eq!(
        told(&graph, &plan(&graph, &[0, 1, 0, 2, 3])),
        "compute[2] runs operator 0, which ran already and draws other random numbers each time"
    );
    assert_eq!(told(&graph, &plan(&graph, &[0, 1, 1, 2, 3])), "right");
}

#[test]
fn an_operator_is_missing_though_another_runs_twice() {
    let graph = changed();
    assert_eq!(
        validate(&graph, &plan(&graph, &[0, 1, 1, 2])),
        Err(PlanError::OperatorCount {
            found: 3,
            expected: 4,
            missing: 3
        })
    );
}

#[test]
fn a_repeat_finds_its_inputs_as_at_the_first_run() {
    let graph = changed();
    assert_eq!(
        told(&graph, &plan(&graph, &[0, 1, 2, 1, 3])),
        "compute[3] uses tensor 1 with a value that is not the graph's: \
         what is in GPU memory is an earlier or later version"
    );
    // Tensor 3 takes the place of tensor 1.
    let mut freed = plan(&graph, &[0, 1, 2, 3, 1]);
    freed.outputs[2].first = 1;
    assert_eq!(
        told(&graph, &freed),
        "compute[3] puts tensor 3 where tensor 1 still is: compute[3] may not have ended"
    );
    let graph = small(vec![
        operator(&[0], &[], &[1], 1),
        operator(&[1], &[], &[2], 1),
        operator(&[2], &[], &[3, 4], 1),
    ]);
    let mut freed = plan(&graph, &[0, 1, 2, 1]);
    freed.outputs[2].first = 1;
    assert_eq!(
        told(&graph, &freed),
        "compute[3] uses tensor 1, which was overwritten"
    );
}

#[test]
fn what_others_changed_is_lost_unless_it_was_copied_to_the_host() {
    let graph = changed();
    let mut stale = plan(&graph, &[0, 1, 2, 0, 1, 3]);
    assert_eq!(
        told(&graph, &stale),
        "compute[5] uses tensor 1 with a value that is not the graph's: \
         what is in GPU memory is an earlier or later version"
    );
    stale.swap_out.push(SwapOut {
        tensor: 1,
        waits: Waits::on(Queue::Compute, 3),
    });
    stale.compute[3].waits = Waits([0, 1, 1]);
    stale.swap_in.push(SwapIn {
        place: home(1),
        waits: Waits([5, 0, 1]),
    });
    stale.compute[5].waits = Waits::on(Queue::SwapIn, 2);
    assert_eq!(told(&graph, &stale), "right");
    // The repeat does not wait for the copy of what it overwrites.
    stale.compute[3].waits = Waits::on(Queue::SwapIn, 1);
    assert_eq!(
        told(&graph, &stale),
        "swap_out[0] uses tensor 1, which may not be in GPU memory yet"
    );
}

#[test]
fn an_old_version_from_the_host_is_for_repeats_only() {
    let graph = changed();
    let old = |order: &[OpId]| {
        let mut plan = plan(&graph, order);
        plan.swap_out.push(SwapOut {
            tensor: 1,
            waits: Waits::on(Queue::Compute, 1),
        });
        for step in &mut plan.compute[1..] {
            step.waits = Waits([0, 1, 1]);
        }
        plan
    };
    let restore = |plan: &mut Plan, behind: u32| {
        plan.swap_in.push(SwapIn {
            place: home(1),
            waits: Waits([behind, 0, 1]),
        });
        for step in &mut plan.compute[behind as usize..] {
            step.waits = Waits([0, 2, 1]);
        }
    };
    let mut repeated = old(&[0, 1, 2, 3, 1]);
    restore(&mut repeated, 4);
    assert_eq!(told(&graph, &repeated), "right");
    let mut first = old(&[0, 2, 1, 3]);
    restore(&mut first, 2);
    assert_eq!(
        told(&graph, &first),
        "compute[2] uses tensor 1 with a value that is not the graph's: \
         it was changed too often or not often enough before"
    );
}

#[test]
fn a_repeat_over_its_own_input() {
    let graph = changed();
    let mut over = plan(&graph, &[0, 1, 0, 2, 3]);
    over.outputs[2].first = 0;
    assert_eq!(
        told(&graph, &over),
        "compute[2] puts tensor 1 where tensor 0 still is: compute[2] may not have ended"
    );
}

/// A compute step, and an operator that ran by then: more often one of the latest.
fn place(plan: &Plan, rng: &mut Rng) -> (OpId, usize) {
    let at = rng.below(plan.compute.len());
    let span = if rng.chance(0.5) {
        4.min(at + 1)
    } else {
        at + 1
    };
    (plan.compute[at - rng.below(span)].op, at)
}

/// Where a repeat is ordered with all other steps and has memory of its own, an execution tells
/// whether it is right.
#[test]
fn repeats_are_proven_where_they_compute_the_graph() {
    let (mut right, mut wrong, mut former, mut refused) = (0, 0, 0, 0);
    for seed in 0..8_000 {
        let mut rng = Rng::new(seed);
        let operators = 1 + rng.below(40);
        let graph = random(&mut rng, operators);
        let planner = Planner::ALL[rng.below(Planner::ALL.len())];
        let Some(mut plan) = planner.plan(&graph, &mut rng) else {
            continue;
        };
        for _ in 0..3 {
            let (op, at) = place(&plan, &mut rng);
            let target = if rng.chance(0.7) {
                Target::Fresh
            } else {
                Target::Former
            };
            let mut repeated = plan.clone();
            repeat(&graph, &mut repeated, op, at, target);
            let told = validate(&graph, &repeated);
            if !graph.operator(op).is_repeatable() {
                assert!(
                    matches!(told, Err(PlanError::WrongOperator { .. })),
                    "{told:?}"
                );
                refused += 1;
                continue;
            }
            let most = 1 << rng.below(16);
            let ran = execute(&graph, &repeated, |_| rng.below(most) as u64);
            if target == Target::Fresh {
                assert_eq!(told.is_ok(), ran.is_ok(), "seed {seed}: {told:?}, {ran:?}");
                wrong += usize::from(ran.is_err());
            }
            if told.is_ok() {
                assert!(ran.is_ok(), "seed {seed}: {ran:?}");
                right += usize::from(target == Target::Fresh);
                former += usize::from(target == Target::Former);
                plan = repeated;
            }
        }
    }
    println!(
        "{right} repeats in fresh memory and {former} where the first run was are right; {wrong} find other values; \
         {refused} are of operators that run once"
    );
    assert!(right > 2_000 && former > 500 && wrong > 2_000 && refused > 2_000);
}

#[test]
fn a_repeat_that_draws_random_numbers_again() {
    let is_expected = |error: &PlanError| matches!(error, PlanError::WrongOperator { .. });
    refused("a random repeat", is_expected, |graph, plan, rng| {
        let (_, at) = place(plan, rng);
        let run = plan.compute[..=at].iter().map(|step| step.op);
        let drawn: Vec<OpId> = run.filter(|op| graph.operator(*op).is_random).collect();
        repeat(graph, plan, any(&drawn, rng)?, at, Target::Fresh);
        Some(Proof::Certain)
    });
}

#[test]
fn a_repeat_that_does_not_wait_for_its_inputs() {
    let is_expected = |error: &PlanError| {
        matches!(
            error,
            PlanError::NotThere { .. } | PlanError::Overlap { .. }
        )
    };
    refused("a hasty repeat", is_expected, |graph, plan, rng| {
        let at = rng.below(plan.compute.len());
        let awaited = plan.compute[..=at]
            .iter()
            .map(|step| step.waits.of(Queue::SwapIn));
        let awaited = awaited.max().unwrap_or_default();
        let begun = begun_by(plan, at)[Queue::SwapIn as usize];
        let coming: Vec<TensorId> = (awaited..begun)
            .map(|swap| plan.swap_in[swap as usize].place.tensor)
            .collect();
        let run = plan.compute[..=at]
            .iter()
            .map(|step| graph.operator(step.op));
        let pairs = run.zip(&plan.compute).flat_map(|(operator, step)| {
            let swaps = (awaited..).zip(&coming);
            let read = swaps.filter(|(_, tensor)| operator.inputs.contains(*tensor));
            read.map(|(swap, _)| (step.op, swap)).collect::<Vec<_>>()
        });
        let (op, swap) = any(&pairs.collect::<Vec<_>>(), rng)?;
        repeat(graph, plan, op, at, Target::Fresh);
        validate(graph, plan).ok()?;
        plan.compute[at + 1].waits = Waits::on(Queue::SwapIn, swap);
        Some(Proof::Slow(Step {
            queue: Queue::SwapIn,
            at: swap,
        }))
    });
}
