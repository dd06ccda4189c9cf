//! Plans of random graphs are proven.
mod common;
use common::{Numbers, graph, schedule};
use rtswap_planner::advisor::{Planner, Pools, Settings};
use rtswap_planner::graph::Order;
use rtswap_planner::machine::{Link, run};
use rtswap_planner::validator::validate;

#[test]
fn each_plan_of_a_random_graph_computes_it() {
    let (mut feasible, mut swaps) = (0, 0);
    for seed in 0..8000 {
        let mut numbers = Numbers(seed ^ 0xabcdef);
        let graph = graph(seed, 1 + numbers.below(60));
        let order = Order::of(&graph);
        let all = Pools::of_all(&graph);
        let budget = all.bytes() * (2 + numbers.below(7) as u64) / 8;
        let counts: Vec<u32> = all.classes().iter().map(|c| c.count).collect();
        let pools = Pools::new(&graph, all.class_of().to_vec(), &counts, budget);
        let schedule = schedule(&graph, &order, &mut numbers);
        assert!(order.allows(&schedule));
        let mut planner = Planner::new(&graph);
        let Ok(plan) = planner.plan(&schedule, &pools, Settings { recency: numbers.below(4) as u32 }) else { continue };
        feasible += 1;
        swaps += plan.swap_in.len();
        validate(&graph, plan).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{graph:#?}\n{plan:#?}"));
        let run = run(&graph, plan, Link::PCIE3).expect("no deadlock");
        assert!(run.total_ns >= graph.compute_ns());
    }
    println!("{feasible} feasible, {swaps} swap-ins");
    assert!(feasible > 2500, "{feasible}");
}

#[test]
#[ignore]
fn speed() {
    let graph = graph(7, 9000);
    let order = Order::of(&graph);
    let all = Pools::of_all(&graph);
    let counts: Vec<u32> = all.classes().iter().map(|c| c.count).collect();
    let pools = Pools::new(&graph, all.class_of().to_vec(), &counts, all.bytes() / 5);
    let schedule = schedule(&graph, &order, &mut Numbers(1));
    let schedule: Vec<u32> = if std::env::var("TRACE").is_ok() { (0..9000).collect() } else { schedule };
    let mut planner = Planner::new(&graph);
    for _ in 0..5 {
        let from = std::time::Instant::now();
        let plan = planner.plan(&schedule, &pools, Settings::default()).unwrap();
        let mid = from.elapsed();
        let ran = run(&graph, plan, Link::PCIE3).unwrap();
        println!("{mid:?} {:?} in {} out {} {ran:?} ideal {}", from.elapsed() - mid, plan.swap_in.len(), plan.swap_out.len(), graph.compute_ns());
    }
    let from = std::time::Instant::now();
    validate(&graph, planner.plan(&schedule, &pools, Settings::default()).unwrap()).unwrap();
    println!("validate {:?}", from.elapsed());
}

#[test]
fn each_plan_in_an_arena_computes_its_graph() {
    use rtswap_planner::advisor::arena::{ArenaPlanner, Lead};
    let (mut feasible, mut swaps) = (0, 0);
    for seed in 0..8000 {
        let mut numbers = Numbers(seed ^ 0xabcdef);
        let graph = graph(seed, 1 + numbers.below(60));
        let order = Order::of(&graph);
        let all = Pools::of_all(&graph);
        let budget = all.bytes() * (1 + numbers.below(7) as u64) / 8;
        let schedule = schedule(&graph, &order, &mut numbers);
        let mut planner = ArenaPlanner::new(&graph, 4096 << numbers.below(4));
        let lead = Lead { ns: numbers.below(3) as u64 * numbers.below(1_000_000) as u64 };
        let Ok(plan) = planner.plan(&schedule, budget, lead) else { continue };
        feasible += 1;
        swaps += plan.swap_in.len();
        validate(&graph, plan).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{graph:#?}\n{plan:#?}"));
        let run = run(&graph, plan, Link::PCIE3).expect("no deadlock");
        assert!(run.total_ns >= graph.compute_ns());
    }
    println!("{feasible} feasible, {swaps} swap-ins");
    assert!(feasible > 2500, "{feasible}");
}
