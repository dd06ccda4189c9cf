//! Plans of random graphs are proven, run without deadlock, and compute their graph whatever their
//! steps take.

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use common::executor::execute;
use common::graphs::{largest, operator, random, schedule, tensor, trace};
use common::plans::Planner;
use rtswap_planner::advisor::{ArenaPlanner, Infeasible, Lead, OnDemand, Rng, on_demand};
use rtswap_planner::graph::{Graph, Kind, OpId, Order};
use rtswap_planner::machine::{Link, run};
use rtswap_planner::plan::Plan;
use rtswap_planner::validator::validate;

/// Proves a plan and runs it: on the machine, and on real values with random times.
fn check(graph: &Graph, plan: &Plan, rng: &mut Rng) {
    if let Err(error) = validate(graph, plan) {
        panic!("{error}\n{graph:#?}\n{plan:#?}");
    }
    let ran = run(graph, plan, Link::PCIE3).expect("a plan that is proven cannot deadlock");
    assert!(ran.total_ns >= graph.compute_ns());
    assert_eq!(ran.compute_ns, graph.compute_ns());
    let most = 1 << rng.below(16);
    let executed = execute(graph, plan, |_| rng.below(most) as u64);
    assert!(executed.is_ok(), "{executed:?}\n{graph:#?}\n{plan:#?}");
}

#[test]
fn plans_of_random_graphs_compute_them() {
    const GRAPHS: u64 = 6_000;
    let mut feasible = [0; 4];
    let mut copies = [[0; 2]; 4];
    let mut kinds = [0; 6];
    for seed in 0..GRAPHS {
        let mut rng = Rng::new(seed);
        let operators = 1 + rng.below(60);
        let graph = random(&mut rng, operators);
        for tensor in graph.tensors() {
            kinds[tensor.kind as usize] += 1;
        }
        for (at, planner) in Planner::ALL.into_iter().enumerate() {
            if let Some(plan) = planner.plan(&graph, &mut rng) {
                check(&graph, &plan, &mut rng);
                feasible[at] += 1;
                copies[at][0] += plan.swap_in.len();
                copies[at][1] += plan.swap_out.len();
            }
        }
    }
    println!(
        "of {GRAPHS} graphs: {feasible:?} plans, {copies:?} copies in and out, {kinds:?} tensors of each kind"
    );
    assert!(feasible.iter().all(|count| *count > 3_500), "{feasible:?}");
    assert!(
        copies.iter().flatten().all(|count| *count > 5_000),
        "{copies:?}"
    );
    assert!(kinds.iter().all(|count| *count > 10_000), "{kinds:?}");
}

#[test]
fn a_planner_used_again_makes_the_same_plans_as_a_new_one() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let graph = random(&mut rng, 30);
        let order = Order::of(&graph);
        let (whole, _) = largest(&graph, 4096);
        let mut used = ArenaPlanner::new(&graph, 4096);
        for _ in 0..10 {
            let schedule = schedule(&order, &mut rng);
            let budget = whole * (3 + rng.below(6) as u64) / 4;
            let lead = Lead::of(rng.below(500_000) as u64);
            let new = ArenaPlanner::new(&graph, 4096)
                .plan(&schedule, budget, &lead)
                .cloned();
            assert_eq!(used.plan(&schedule, budget, &lead).cloned(), new);
        }
    }
}

/// The least budget is that of the operator with the most chunks: chunks of one byte waste nothing.
#[test]
fn a_budget_of_the_largest_operator_suffices() {
    let mut short = 0;
    for seed in 0..1_000 {
        let mut rng = Rng::new(seed);
        let operators = 1 + rng.below(60);
        let graph = random(&mut rng, operators);
        let chunk = if seed % 2 == 0 { 1 } else { 1 << rng.below(17) };
        let (budget, _) = largest(&graph, chunk);
        let schedule = schedule(&Order::of(&graph), &mut rng);
        let lead = Lead::of(rng.below(1_000_000) as u64);
        let mut planner = ArenaPlanner::new(&graph, chunk);
        let plan = planner.plan(&schedule, budget, &lead);
        check(&graph, plan.expect("each operator fits"), &mut rng);
        if budget == 0 {
            continue;
        }
        // The first operator that needs all of it.
        let is_largest = |op: &&OpId| {
            let ids = graph.operator(**op).tensors();
            let bytes = ids.map(|id| graph.tensor(id).bytes.next_multiple_of(chunk));
            bytes.sum::<u64>() == budget
        };
        let op = *schedule
            .iter()
            .find(is_largest)
            .expect("it has an operator");
        let plan = planner.plan(&schedule, budget - 1, &lead).cloned();
        assert_eq!(plan, Err(Infeasible { op }));
        short += 1;
    }
    assert!(short > 900, "{short}");
}

/// Three tensors of 100 bytes: a parameter, its gradient, and scratch.
fn one_operator() -> Graph {
    let tensors = [Kind::Parameter, Kind::Gradient, Kind::Scratch].map(|kind| tensor(kind, 100));
    Graph::new(tensors.into(), vec![operator(&[], &[0], &[1, 2], 7)]).expect("a graph")
}

#[test]
fn one_operator_keeps_its_parameter() {
    let graph = one_operator();
    for how in [OnDemand::Passive, OnDemand::Prefetch] {
        let plan = on_demand(&graph, &[0], 300, 1, how).expect("it fits");
        check(&graph, &plan, &mut Rng::new(0));
        assert_eq!(plan.residents.len(), 1);
        assert!(plan.swap_in.is_empty() && plan.swap_out.is_empty());
        let short = on_demand(&graph, &[0], 299, 1, how);
        assert_eq!(short, Err(Infeasible { op: 0 }));
        // Chunks of 64 bytes: each tensor takes two.
        assert!(on_demand(&graph, &[0], 6 * 64, 64, how).is_ok());
        assert!(on_demand(&graph, &[0], 6 * 64 - 1, 64, how).is_err());
    }
}

/// A chain of cells with a parameter each, forth and back as in training, in the least memory.
#[test]
fn a_chain_runs_in_the_memory_of_its_largest_operator() {
    const CELLS: u32 = 50;
    let mut tensors = vec![tensor(Kind::Input, 10)];
    let mut operators = Vec::new();
    let mut activations = vec![0];
    for cell in 0..CELLS {
        let weight = tensors.len() as u32;
        tensors.push(tensor(Kind::Parameter, 20 + u64::from(cell)));
        tensors.push(tensor(Kind::Activation, 10));
        operators.push(operator(
            &[activations[cell as usize], weight],
            &[],
            &[weight + 1],
            1_000,
        ));
        activations.push(weight + 1);
    }
    let mut gradient = activations[CELLS as usize];
    for cell in (0..CELLS).rev() {
        let next = tensors.len() as u32;
        tensors.push(tensor(Kind::Gradient, 10));
        let weight = 1 + 2 * cell;
        operators.push(operator(
            &[activations[cell as usize], gradient],
            &[weight],
            &[next],
            2_000,
        ));
        gradient = next;
    }
    let graph = Graph::new(tensors, operators).expect("a graph");
    let (budget, _) = largest(&graph, 1);
    let schedule = trace(&graph);
    for lead in [0, 10_000, u64::MAX] {
        let mut planner = ArenaPlanner::new(&graph, 1);
        let plan = planner
            .plan(&schedule, budget, &Lead::of(lead))
            .expect("it fits");
        check(&graph, plan, &mut Rng::new(lead));
        // Each parameter is changed: it comes back for it, and its new value goes to the host.
        assert!(plan.swap_in.len() >= CELLS as usize && plan.swap_out.len() >= CELLS as usize);
    }
}
