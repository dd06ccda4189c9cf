//! TENSILE's decisions for random jobs become plans that are proven, need what they say, and never wait in the expected times.

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use common::executor::execute;
use common::graphs::{operator, random, schedule, tensor};
use rtswap_planner::advisor::Rng;
use rtswap_planner::graph::{Graph, Kind, Order};
use rtswap_planner::machine::{Link, run};
use rtswap_planner::stays::{Gap, Stays};
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
    assert!(copies > 20_000 && again > 100, "{copies} {again}");
}

fn settings_of(alone: f64, is_across: bool, memory: Option<u64>) -> Settings {
    Settings {
        chunk: 1,
        link: Link {
            alone,
            duplex: alone,
            latency_ns: 0.0,
        },
        is_across,
        memory,
    }
}

/// Three layers forward and back: each activation is read by the next layer and by its own backward operator. An operator
/// takes 100 ns, an activation has 100 bytes, a gradient 10.
fn layers() -> Graph {
    let mut tensors = vec![tensor(Kind::Input, 10)];
    tensors.extend([100; 3].map(|bytes| tensor(Kind::Activation, bytes)));
    tensors.extend([10; 3].map(|bytes| tensor(Kind::Gradient, bytes)));
    let operators = [
        operator(&[0], &[], &[1], 100),
        operator(&[1], &[], &[2], 100),
        operator(&[2], &[], &[3], 100),
        operator(&[3], &[], &[4], 100),
        operator(&[2, 4], &[], &[5], 100),
        operator(&[1, 5], &[], &[6], 100),
    ];
    Graph::new(tensors, operators.into()).unwrap()
}

fn job_of(graph: &Graph, most: f64) -> Job<'_> {
    Job {
        graph,
        schedule: (0..graph.operators().len() as u32).collect(),
        times: graph.operators().iter().map(|op| op.time_ns).collect(),
        most,
    }
}

#[test]
fn the_tensor_at_the_peak_swaps_while_others_compute() {
    let graph = layers();
    // Without swaps all three activations are there when the first gradient is made, in slot 4.
    let whole = Stays::new(&graph, (0..6).collect(), 1);
    assert_eq!(whole.taken(), [0, 110, 200, 300, 310, 220, 120, 0]);
    assert_eq!(whole.peak(), (4, 310));
    // A copy takes 100 ns. The first activation leaves while the third is made, and comes back from 400 to 500 ns.
    let planned = plan(&[job_of(&graph, 1.0)], &settings_of(1.0, true, None));
    let swaps = Gap::Swaps {
        leaves: 4,
        comes: 5,
    };
    assert_eq!(planned[0].gap(1, 2), swaps);
    assert_eq!(planned[0].peak(), (3, 300));
    // A slower one would come too late.
    let planned = plan(&[job_of(&graph, 1.0)], &settings_of(0.99, true, None));
    assert_eq!(planned[0].peak(), (4, 310));
}

#[test]
fn a_swap_is_out_as_early_and_back_as_late_as_the_link_allows() {
    let mut tensors = vec![tensor(Kind::Input, 10), tensor(Kind::Activation, 100)];
    tensors.extend([10; 6].map(|bytes| tensor(Kind::Activation, bytes)));
    tensors[4].bytes = 200;
    let mut operators = vec![operator(&[0], &[], &[1], 100)];
    operators
        .extend((2..8).map(|at| operator(if at == 7 { &[1, 6] } else { &[] }, &[], &[at], 100)));
    operators[3].inputs = vec![3];
    operators[5].inputs = vec![5];
    let graph = Graph::new(tensors, operators).unwrap();
    // Tensor 1 is made in slot 1, and read in slot 7. The peak is slot 4, from 300 to 400 ns.
    let planned = plan(&[job_of(&graph, 1.0)], &settings_of(1.0, true, None));
    let [stays] = &planned[..] else { panic!() };
    // Out from 100 to 200 ns, back from 500 to 600 ns: away in slots 3 to 5.
    let swaps = Gap::Swaps {
        leaves: 3,
        comes: 6,
    };
    assert_eq!(stays.gap(1, 1), swaps);
    // Half the rate: out from 100 to 300, back from 400 to 600: away in slot 4 only.
    let planned = plan(&[job_of(&graph, 1.0)], &settings_of(0.5, true, None));
    let swaps = Gap::Swaps {
        leaves: 4,
        comes: 5,
    };
    assert_eq!(planned[0].gap(1, 1), swaps);
    // Slower, it does not leave before the peak.
    let planned = plan(&[job_of(&graph, 1.0)], &settings_of(0.4, true, None));
    assert_eq!(planned[0].gap(1, 1), Gap::Stays);
    // Two jobs have half the link each; one that may not swap stays whole.
    let both = [job_of(&graph, 1.0), job_of(&graph, 0.0)];
    let planned = plan(&both, &settings_of(1.0, true, None));
    assert_eq!(planned[0].gap(1, 1), swaps);
    assert_eq!(planned[1].gap(1, 1), Gap::Stays);
}

#[test]
fn what_cannot_swap_is_made_again_where_memory_is_short() {
    let graph = layers();
    let job = [job_of(&graph, 1.0)];
    let planned = plan(&job, &settings_of(0.001, true, Some(310)));
    assert_eq!(planned[0].gap(2, 2), Gap::Stays, "the memory is enough");
    let planned = plan(&job, &settings_of(0.001, true, Some(309)));
    // The second activation is made of the first, which is there before it is read again.
    assert_eq!(planned[0].gap(2, 2), Gap::IsMadeAgain);
    assert_eq!(planned[0].peak(), (3, 300));
    let plan = planned[0].plan(300).unwrap();
    validate(&graph, &plan).unwrap();
    let order: Vec<u32> = plan.compute.iter().map(|step| step.op).collect();
    assert_eq!(order, [0, 1, 2, 3, 1, 4, 5]);
}
