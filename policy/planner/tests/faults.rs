//! A plan with a planted fault is refused.
mod common;
use common::{Numbers, graph, schedule};
use rtswap_planner::advisor::{Planner, Pools, Settings};
use rtswap_planner::graph::{Graph, Order};
use rtswap_planner::plan::{Plan, Queue, Waits};
use rtswap_planner::validator::validate;

fn plans(mut each: impl FnMut(&Graph, &Plan, &mut Numbers)) {
    for seed in 0..3000 {
        let mut numbers = Numbers(seed ^ 0x1234);
        let graph = graph(seed, 1 + numbers.below(60));
        let order = Order::of(&graph);
        let all = Pools::of_all(&graph);
        let budget = all.bytes() * (2 + numbers.below(5) as u64) / 8;
        let counts: Vec<u32> = all.classes().iter().map(|c| c.count).collect();
        let pools = Pools::new(&graph, all.class_of().to_vec(), &counts, budget);
        let schedule = schedule(&graph, &order, &mut numbers);
        let mut planner = Planner::new(&graph);
        if let Ok(plan) = planner.plan(&schedule, &pools, Settings::default()) {
            each(&graph, plan, &mut numbers);
        }
    }
}

/// Removes swap-in `at`, and lets whoever waited for it wait for the one before it.
fn without_swap_in(plan: &mut Plan, at: usize) {
    plan.swap_in.remove(at);
    let all = plan.compute.iter_mut().map(|s| &mut s.waits)
        .chain(plan.swap_in.iter_mut().map(|s| &mut s.waits))
        .chain(plan.swap_out.iter_mut().map(|s| &mut s.waits));
    for Waits(waits) in all {
        let count = &mut waits[Queue::SwapIn as usize];
        if *count as usize > at { *count -= 1 }
    }
}

#[test]
fn a_dropped_swap_in() {
    let mut tried = 0;
    plans(|graph, plan, numbers| {
        if plan.swap_in.is_empty() { return }
        let mut plan = plan.clone();
        let at = numbers.below(plan.swap_in.len());
        without_swap_in(&mut plan, at);
        tried += 1;
        assert!(validate(graph, &plan).is_err());
    });
    println!("{tried}");
    assert!(tried > 500);
}

#[test]
fn a_wait_less() {
    let (mut tried, mut refused) = (0, 0);
    plans(|graph, plan, numbers| {
        let mut plan = plan.clone();
        if plan.swap_in.is_empty() { return }
        // Each wait of a swap-in is there for a reason, unless another one implies it.
        let at = numbers.below(plan.swap_in.len());
        if plan.swap_in[at].waits == Waits::default() { return }
        let which: Vec<usize> = (0..3).filter(|q| plan.swap_in[at].waits.0[*q] > 0).collect();
        plan.swap_in[at].waits.0[which[numbers.below(which.len())]] -= 1;
        tried += 1;
        refused += usize::from(validate(graph, &plan).is_err());
    });
    println!("{refused} of {tried}");
}

#[test]
fn one_byte_over() {
    plans(|graph, plan, _| {
        let mut plan = plan.clone();
        let placed = plan.residents.iter().chain(&plan.outputs).chain(plan.swap_in.iter().map(|s| &s.place));
        let end = |p: &rtswap_planner::plan::Place| plan.extents_of(*p).iter().map(|e| e.offset + e.bytes).max().unwrap_or(0);
        plan.budget = placed.map(end).max().unwrap_or(0);
        let _ = graph;
        validate(graph, &plan).unwrap();
        if plan.budget > 0 {
            plan.budget -= 1;
            assert!(validate(graph, &plan).is_err());
        }
    });
}

#[test]
fn a_cycle_of_waits() {
    let mut tried = 0;
    plans(|graph, plan, _| {
        let mut plan = plan.clone();
        let count = plan.compute.len() as u32;
        let needed = plan.compute.iter().map(|s| s.waits.of(Queue::SwapIn)).max().unwrap();
        if needed == 0 { return }
        plan.swap_in[needed as usize - 1].waits.0[0] = count;
        tried += 1;
        let error = validate(graph, &plan).unwrap_err();
        assert!(error.to_string().contains("never begins"), "{error}");
    });
    assert!(tried > 500);
}
