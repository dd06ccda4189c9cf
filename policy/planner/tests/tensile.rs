//! TENSILE's decisions for random jobs become plans that are proven, need what they say, and never wait in the expected times.

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use common::executor::execute;
use common::graphs::{random, schedule};
use rtswap_planner::advisor::Rng;
use rtswap_planner::graph::{Graph, Order};
use rtswap_planner::machine::{Link, run};
use rtswap_planner::stays::Stays;
use rtswap_planner::tensile::{Job, Settings, early, plan};
use rtswap_planner::validator::validate;

const CHUNK: u64 = 4096;

fn settings(rng: &mut Rng, memory: Option<u64>) -> Settings {
    let alone = 0.05 + rng.below(100) as f64 / 10.0;
    Settings {
        chunk: CHUNK,
        link: Link {
            alone,
            duplex: alone,
            latency_ns: rng.below(2_000) as f64,
        },
        is_across: rng.below(2) == 0,
        memory,
    }
}

fn job<'a>(graph: &'a Graph, most: f64, rng: &mut Rng) -> Job<'a> {
    let schedule = if rng.below(2) == 0 {
        schedule(&Order::of(graph), rng)
    } else {
        early(graph)
    };
    Job {
        graph,
        schedule,
        times: graph.operators().iter().map(|op| op.time_ns).collect(),
        most,
    }
}

/// Proves the plan of decisions and runs it on real values with random times.
fn check(graph: &Graph, stays: &Stays<'_>, rng: &mut Rng) {
    let (_, budget) = stays.peak();
    let plan = stays.plan(budget).unwrap();
    if let Err(error) = validate(graph, &plan) {
        panic!("{error}\n{graph:#?}\n{stays:#?}\n{plan:#?}");
    }
    run(graph, &plan, Link::PCIE3).expect("a plan that is proven cannot deadlock");
    let most = 1 << rng.below(16);
    let executed = execute(graph, &plan, |_| rng.below(most) as u64);
    assert!(executed.is_ok(), "{executed:?}");
}

#[test]
fn plans_of_random_jobs_compute_them() {
    const GRAPHS: u64 = 6_000;
    let (mut before, mut after, mut copies, mut again) = (0, 0, 0, 0);
    for seed in 0..GRAPHS {
        let mut rng = Rng::new(seed);
        let operators = 1 + rng.below(60);
        let graph = random(&mut rng, operators);
        let job = job(&graph, 1.0, &mut rng);
        let whole = Stays::new(&graph, job.schedule.clone(), CHUNK).peak().1;
        let memory = (rng.below(2) == 0).then_some(whole / 2);
        let planned = plan(&[job], &settings(&mut rng, memory));
        let [stays] = &planned[..] else {
            panic!("one job has one plan");
        };
        assert!(stays.peak().1 <= whole);
        check(&graph, stays, &mut rng);
        let plan = stays.plan(whole).unwrap();
        before += whole;
        after += stays.peak().1;
        copies += plan.swap_in.len();
        again += plan.compute.len() - graph.operators().len();
    }
    println!("{before} bytes became {after}, with {copies} copies in and {again} operators again");
    assert!(after * 10 < before * 9, "{before} {after}");
    assert!(copies > 20_000 && again > 1_000, "{copies} {again}");
}
