//! Curves of a job's time over its memory: each point holds, and none is beaten by another one.

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use common::graphs;
use rtswap_planner::advisor::Rng;
use rtswap_planner::budget::{Machine, Maker, Point, budgets, curve};
use rtswap_planner::graph::Graph;
use rtswap_planner::machine::{Link, run};
use rtswap_planner::stays::Stays;
use rtswap_planner::validator::validate;

const CHUNK: u64 = 64;

/// Slow, so that swapping is seen.
const LINK: Link = Link {
    alone: 0.5,
    duplex: 0.5,
    latency_ns: 30.0,
};

const MACHINE: Machine = Machine {
    chunk: CHUNK,
    link: LINK,
};

fn graph(seed: u64) -> Graph {
    let mut rng = Rng::new(seed);
    let operators = 2 + rng.below(40);
    graphs::random(&mut rng, operators)
}

#[test]
fn budgets_go_from_the_largest_operator_to_the_peak() {
    for seed in 0..200 {
        let graph = graph(seed);
        let budgets = budgets(&graph, CHUNK, u64::MAX, 9);
        assert_eq!(budgets.first(), Some(&graph.largest(CHUNK).bytes));
        assert_eq!(budgets.last(), Some(&graph.peak(CHUNK)));
        assert!(budgets.len() <= 9 && budgets.is_sorted_by(|one, next| one < next));
        assert!(budgets.iter().all(|budget| budget.is_multiple_of(CHUNK)));
    }
}

#[test]
fn points_of_curves_hold_and_none_is_beaten() {
    let (mut points_of_all, mut longest) = (0, 0.0_f64);
    for seed in 0..if cfg!(debug_assertions) { 100 } else { 1_000 } {
        let graph = graph(seed);
        let budgets = budgets(&graph, CHUNK, u64::MAX, 9);
        let points = curve(&graph, &MACHINE, &budgets).unwrap();
        for pair in points.windows(2) {
            let [one, next] = pair else { unreachable!() };
            assert!(one.budget < next.budget && one.time_ns > next.time_ns);
        }
        for point in &points {
            assert_eq!(validate(&graph, &point.plan), Ok(()));
            assert!(point.plan.footprint() <= point.budget && point.budget.is_multiple_of(CHUNK));
            let steps = [
                point.plan.compute.len(),
                point.plan.swap_in.len(),
                point.plan.swap_out.len(),
            ];
            let steps = steps.iter().sum::<usize>() as u64;
            let time = run(&graph, &point.plan, LINK).unwrap().total_ns;
            assert_eq!(point.time_ns, time + steps + 1);
        }
        // With room for everything no plan is slower than one that copies inputs only. A swap helps where a faster order of
        // operators needs more than the graph's own order.
        let (fewest, most) = (points.first().unwrap(), points.last().unwrap());
        let own = (0..graph.operators().len() as u32).collect();
        let whole = Stays::new(&graph, own, CHUNK);
        let whole = whole.plan(whole.peak().1).unwrap();
        let whole = Point::of(&graph, &MACHINE, Maker::Advisor, whole).unwrap();
        assert!(most.time_ns <= whole.time_ns, "seed {seed}");
        assert!(most.plan.swap_out.is_empty() || most.time_ns < whole.time_ns);
        points_of_all += points.len();
        longest = longest.max(fewest.time_ns as f64 / most.time_ns as f64);
    }
    println!("{points_of_all} points, up to {longest:.2} times as long");
    assert!(longest > 1.5);
}
