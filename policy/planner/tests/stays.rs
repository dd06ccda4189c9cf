//! Decisions made at random become plans that are proven and compute their graph in the memory that the decisions say.

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use common::executor::execute;
use common::graphs::{random, schedule};
use rtswap_planner::advisor::Rng;
use rtswap_planner::graph::{Graph, Order, TensorId};
use rtswap_planner::machine::{Link, run};
use rtswap_planner::stays::{Gap, Stays};
use rtswap_planner::validator::validate;

/// Decides at random for each gap; also for some that swap nothing.
fn decide(stays: &mut Stays<'_>, graph: &Graph, rng: &mut Rng) {
    let end = stays.end();
    let between =
        |from: u32, to: u32, rng: &mut Rng| from + rng.below((to - from + 1) as usize) as u32;
    for id in 0..graph.tensors().len() as TensorId {
        let uses = stays.uses(id).to_vec();
        let kind = graph.tensor(id).kind;
        if kind.is_kept() && !uses.is_empty() && rng.below(3) == 0 {
            let leaves = between(uses[uses.len() - 1] + 1, end, rng);
            let comes = between(1, uses[0], rng);
            stays.set_absent(id, leaves, comes);
        }
        for number in 0..=uses.len() as u32 {
            let is_head = number == 0;
            let is_tail = number as usize == uses.len();
            let is_at_an_end = is_head || is_tail;
            let is_swappable = if is_at_an_end {
                kind.is_kept() && stays.is_resident(id)
            } else {
                true
            };
            if !is_swappable || rng.below(2) == 0 {
                continue;
            }
            let from = number.checked_sub(1).map_or(0, |at| uses[at as usize] + 1);
            let to = uses.get(number as usize).copied().unwrap_or(end);
            let leaves = between(from, to, rng);
            let comes = between(leaves, to, rng);
            stays.set(id, number, Gap::Swaps { leaves, comes });
        }
    }
}

#[test]
fn random_decisions_become_plans_that_compute_the_graph() {
    const GRAPHS: u64 = 3_000;
    let mut copies = [0; 2];
    for seed in 0..GRAPHS {
        let mut rng = Rng::new(seed);
        let operators = 1 + rng.below(60);
        let graph = random(&mut rng, operators);
        let schedule = schedule(&Order::of(&graph), &mut rng);
        let mut stays = Stays::new(&graph, schedule, 4096);
        decide(&mut stays, &graph, &mut rng);
        let (_, budget) = stays.peak();
        let plan = stays.plan(budget).unwrap();
        if let Err(error) = validate(&graph, &plan) {
            panic!("seed {seed}: {error}\n{graph:#?}\n{stays:#?}\n{plan:#?}");
        }
        run(&graph, &plan, Link::PCIE3).expect("a plan that is proven cannot deadlock");
        let most = 1 << rng.below(16);
        let executed = execute(&graph, &plan, |_| rng.below(most) as u64);
        assert!(executed.is_ok(), "seed {seed}: {executed:?}");
        assert!(budget == 0 || stays.plan(budget - 1).is_err());
        copies[0] += plan.swap_in.len();
        copies[1] += plan.swap_out.len();
    }
    assert!(copies.iter().all(|count| *count > 20_000), "{copies:?}");
}
