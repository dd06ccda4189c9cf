//! How long a plan takes to make and to run: a search makes thousands. Run with `--release --
//! --ignored --nocapture`.

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use std::time::{Duration, Instant};

use common::graphs::{operator, random, schedule, tensor, trace};
use rtswap_planner::advisor::{ArenaPlanner, Lead, PooledPlanner, Pools, Rng};
use rtswap_planner::graph::{Graph, Kind, OpId, Operator, Order, Tensor};
use rtswap_planner::machine::{Link, run};
use rtswap_planner::plan::Plan;
use rtswap_planner::validator::validate;

const OPERATORS: u32 = 9_000;
const RUNS: usize = 20;
const MB: u64 = 1 << 20;
const GOAL: Duration = Duration::from_millis(5);

/// A layer that trains its weight: the forward operators of all layers, then their backward
/// operators.
fn trained(activation: impl Fn(u32) -> u32, layers: u32) -> Graph {
    let mut tensors: Vec<Tensor> = vec![tensor(Kind::Input, MB)];
    let mut operators: Vec<Operator> = Vec::new();
    // Of layer `at`: its weight, what it makes, and the gradient of that.
    let of = |at: u32| [1, 2, 3].map(|which| 3 * at + which);
    let made = |at: u32| if at == 0 { 0 } else { of(at - 1)[1] };
    for at in 0..layers {
        let bytes = (1 + u64::from(at % 5)) * MB;
        for kind in [Kind::Parameter, Kind::Activation, Kind::Gradient] {
            tensors.push(tensor(kind, bytes));
        }
        let [weight, output, _] = of(at);
        operators.push(operator(
            &[made(activation(at)), weight],
            &[],
            &[output],
            200_000,
        ));
    }
    for at in (0..layers).rev() {
        let [weight, output, gradient] = of(at);
        let next = if at + 1 == layers {
            output
        } else {
            of(at + 1)[2]
        };
        operators.push(operator(
            &[made(activation(at)), next],
            &[weight],
            &[gradient],
            400_000,
        ));
    }
    Graph::new(tensors, operators).expect("a graph")
}

/// The median and the best of some runs, after one that allocates.
fn time(mut run: impl FnMut()) -> [Duration; 2] {
    run();
    let mut times = [(); RUNS].map(|()| {
        let from = Instant::now();
        run();
        from.elapsed()
    });
    times.sort_unstable();
    [times[RUNS / 2], times[0]]
}

fn report(what: &str, graph: &Graph, plan: &Plan, [median, best]: [Duration; 2]) {
    validate(graph, plan).expect("plans are right");
    let (swap_in, swap_out) = (plan.swap_in.len(), plan.swap_out.len());
    println!(
        "{what}: {median:?}, at best {best:?}, to plan and run {swap_in} swap-ins and {swap_out} swap-outs"
    );
    assert!(best <= GOAL, "{what}");
}

fn measure(name: &str, graph: &Graph, schedule: &[OpId]) {
    let all = Pools::of_all(graph);
    let budget = all.bytes() / 5;
    let counts: Vec<u32> = all.classes().iter().map(|class| class.count).collect();
    let pools = Pools::new(graph, all.class_of().to_vec(), &counts, budget);
    let mut planner = PooledPlanner::new(graph);
    let times = time(|| {
        let plan = planner.plan(schedule, &pools).expect("it fits");
        run(graph, plan, Link::PCIE3).expect("no deadlock");
    });
    let plan = planner.plan(schedule, &pools).expect("it fits");
    report(&format!("{name}, pools"), graph, plan, times);
    let mut planner = ArenaPlanner::new(graph, 2 * MB);
    for lead in [0, 10_000_000] {
        let lead = Lead::of(lead);
        // Tensors of less than a chunk take a whole one.
        let chunks: u64 = graph
            .tensors()
            .iter()
            .map(|tensor| tensor.bytes.div_ceil(2 * MB))
            .sum();
        let budget = chunks * 2 * MB / 5;
        let times = time(|| {
            let plan = planner.plan(schedule, budget, &lead).expect("it fits");
            run(graph, plan, Link::PCIE3).expect("no deadlock");
        });
        let plan = planner.plan(schedule, budget, &lead).expect("it fits");
        report(
            &format!("{name}, arena, {} ms ahead", lead.0[0] / 1_000_000),
            graph,
            plan,
            times,
        );
    }
}

#[test]
#[ignore = "times an optimised build"]
fn nine_thousand_operators_are_planned_and_run_in_five_milliseconds() {
    let graph = random(&mut Rng::new(7), OPERATORS as usize);
    measure("random graph, as given", &graph, &trace(&graph));
    let order = Order::of(&graph);
    measure(
        "random graph, random schedule",
        &graph,
        &schedule(&order, &mut Rng::new(1)),
    );
    let chain = trained(|at| at, OPERATORS / 2);
    measure("chain", &chain, &trace(&chain));
    // Each layer reads what one of the first hundred makes, which all stay in use until the end.
    let wide = trained(|at| at.min(at % 100), OPERATORS / 2);
    measure("wide", &wide, &trace(&wide));
    let order = Order::of(&wide);
    measure(
        "wide, random schedule",
        &wide,
        &schedule(&order, &mut Rng::new(1)),
    );
}
