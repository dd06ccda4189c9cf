//! Plans of blocks compute their graphs, and no partition is faster than the one that is found.

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use common::executor::execute;
use common::graphs::{operator, random, tensor};
use rtswap_planner::advisor::Rng;
use rtswap_planner::blocks::{
    BlockPlanner, Coefficients, Costs, Execution, LookupTable, MORE_BLOCKS, ModelInfo, Partition,
    partition, partition_into,
};
use rtswap_planner::graph::{Graph, Kind, Operator, TensorId};
use rtswap_planner::machine::{Link, run};
use rtswap_planner::plan::Plan;
use rtswap_planner::validator::validate;

const DEVICE: Coefficients = Coefficients {
    read_ns_per_byte: 0.5,
    assembly_ns_per_reference: 3_000.0,
    execution: Execution::Recorded,
    reset_ns_per_reference: 2_000.0,
    collection_ns: 10_000.0,
};

/// A device that releases blocks in no time, which is what a plan's machine does.
const RELEASES_AT_ONCE: Coefficients = Coefficients {
    reset_ns_per_reference: 0.0,
    collection_ns: 0.0,
    ..DEVICE
};

const LINK: Link = Link {
    alone: 2.0,
    duplex: 1.0,
    latency_ns: 3_000.0,
};

/// A chain of layers, each an operator with up to three parameters of its own and one that makes nothing new.
fn chain(rng: &mut Rng, layers: usize) -> Graph {
    let mut tensors = vec![tensor(Kind::Input, 64)];
    let mut add = |kind, bytes| {
        tensors.push(tensor(kind, bytes));
        tensors.len() as TensorId - 1
    };
    let mut operators: Vec<Operator> = Vec::new();
    let mut last = 0;
    for _ in 0..layers {
        let mut inputs = vec![last];
        for _ in 0..=rng.below(3) {
            inputs.push(add(Kind::Parameter, 1 + rng.below(200_000) as u64));
        }
        last = add(Kind::Activation, 64);
        operators.push(operator(&inputs, &[], &[last], rng.below(200_000) as u64));
        operators.push(operator(&[], &[last], &[], rng.below(10_000) as u64));
    }
    Graph::new(tensors, operators).unwrap()
}

fn check(graph: &Graph, plan: &Plan, rng: &mut Rng) {
    if let Err(error) = validate(graph, plan) {
        panic!("{error}\n{graph:#?}\n{plan:#?}");
    }
    let most = 1 << rng.below(16);
    let executed = execute(graph, plan, |_| rng.below(most) as u64);
    assert!(executed.is_ok(), "{executed:?}\n{graph:#?}\n{plan:#?}");
}

/// Tensors of every kind, parameters that several layers share, and kept ones that change.
#[test]
fn plans_of_random_graphs_compute_them() {
    const GRAPHS: u64 = if cfg!(debug_assertions) { 1_000 } else { 6_000 };
    let (mut blocks, mut swaps, mut cut) = (0, 0, 0);
    for seed in 0..GRAPHS {
        let mut rng = Rng::new(seed);
        let operators = 1 + rng.below(60);
        let graph = if seed % 2 == 0 {
            random(&mut rng, operators)
        } else {
            chain(&mut rng, operators / 4 + 1)
        };
        let info = ModelInfo::of(&graph);
        let info = info.coarsened(&graph, 1 + rng.below(40));
        let costs = Costs::new(&graph, &info, &DEVICE);
        assert_eq!(costs.whole().bytes, info.bytes(&graph));
        let least = costs.least_budget();
        let planner = BlockPlanner::new(&graph, &info);
        let span = costs.whole().bytes - least;
        for budget in [least, least + span * (1 + rng.below(8) as u64) / 8] {
            let partition = partition(&costs, budget).expect("the least budget suffices");
            assert!(partition.peak_bytes <= budget);
            let plan = planner.plan(&partition);
            assert!(plan.budget <= budget + planner.reserve_bytes());
            assert!(plan.footprint() <= plan.budget && plan.swap_out.is_empty());
            check(&graph, &plan, &mut rng);
            blocks += partition.count();
            swaps += plan.swap_in.len();
            cut += usize::from(partition.count() > 1);
        }
        if least > 0 {
            assert_eq!(partition(&costs, least - 1), None);
        }
    }
    println!(
        "{GRAPHS} graphs: {blocks} blocks, {swaps} swap-ins, {cut} plans of more than one block"
    );
    assert!(
        cut as u64 > GRAPHS / 2 && blocks > 3 * cut,
        "{cut} {blocks}"
    );
}

/// All cuts of a model with so many layers, in blocks of any number.
fn cuts(layers: usize) -> impl Iterator<Item = Vec<u32>> {
    (0..1_u32 << (layers - 1)).map(move |cut| {
        let points = (1..layers as u32).filter(|at| cut & (1 << (at - 1)) != 0);
        points.collect()
    })
}

#[test]
fn no_partition_is_faster_than_the_one_that_is_found() {
    let mut strict = 0;
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let layers = 2 + rng.below(9);
        let graph = if seed % 3 == 0 {
            random(&mut rng, 2 * layers)
        } else {
            chain(&mut rng, layers)
        };
        let info = ModelInfo::of(&graph).coarsened(&graph, 11);
        let costs = Costs::new(&graph, &info, &DEVICE);
        let least = costs.least_budget();
        let whole = costs.whole().bytes;
        if least == whole {
            continue;
        }
        let budget = least + (whole - least) * rng.below(8) as u64 / 8;
        let all: Vec<Partition> = cuts(costs.layers())
            .map(|points| Partition::at(&costs, points))
            .filter(|partition| partition.peak_bytes <= budget)
            .collect();
        let first = (2 * whole).div_ceil(budget).min(costs.layers() as u64) as usize;
        let fits = |count: &usize| all.iter().any(|partition| partition.count() == *count);
        let fewest = (first..=costs.layers()).find(fits).unwrap();
        let tried = fewest..=fewest + MORE_BLOCKS;
        let allowed = all.iter().filter(|one| tried.contains(&one.count()));
        let best = allowed.min_by_key(|one| one.latency_ns).unwrap();
        let found = partition(&costs, budget).unwrap();
        assert_eq!(
            found.latency_ns, best.latency_ns,
            "{costs:?}\n{found:?}\n{best:?}"
        );
        assert_eq!(found, Partition::at(&costs, found.points.clone()));

        let any = all.iter().map(|one| one.latency_ns).min().unwrap();
        let found = partition_into(&costs, budget, 2..=costs.layers()).unwrap();
        assert_eq!(found.latency_ns, any);
        strict += u32::from(any < best.latency_ns);
    }
    // The limit on the number of blocks is a limit.
    assert!(strict > 5, "{strict}");
}

/// The latency of a partition is what its plan takes on a machine that releases memory in no time.
#[test]
fn the_predicted_latency_is_that_of_the_plan() {
    let mut stalled = 0;
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let layers = 2 + rng.below(30);
        let mut graph = chain(&mut rng, layers);
        // The machine would read the input first.
        let mut tensors = graph.tensors().to_vec();
        tensors[0].kind = Kind::Activation;
        let mut operators = graph.operators().to_vec();
        operators.insert(0, operator(&[], &[], &[0], 0));
        graph = Graph::new(tensors, operators).unwrap();
        let info = ModelInfo::of(&graph);
        let costs = Costs::new(&graph, &info, &RELEASES_AT_ONCE);
        let budget = costs.least_budget().midpoint(costs.whole().bytes);
        let partition = partition(&costs, budget).unwrap();
        let plan = BlockPlanner::new(&graph, &info).plan(&partition);
        let ran = run(&graph, &plan, LINK).unwrap();
        let difference = ran.total_ns.abs_diff(partition.latency_ns);
        assert!(
            difference <= plan.swap_in.len() as u64,
            "{ran:?} {partition:?}"
        );
        stalled += u32::from(ran.stalled_ns() > ran.total_ns / 10);
    }
    assert!(stalled > 100, "{stalled}");
}

/// A search for the very budget may try one block more than that for the budget above it, and be a little faster.
#[test]
fn the_table_answers_each_budget() {
    let (mut faster, mut slower) = (0, 0);
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let layers = 2 + rng.below(25);
        let graph = chain(&mut rng, layers);
        let info = ModelInfo::of(&graph);
        let costs = Costs::new(&graph, &info, &DEVICE);
        let table = LookupTable::new(&costs, u64::MAX);
        let (least, whole) = (costs.least_budget(), costs.whole().bytes);
        assert!(table.at(least).is_some() && table.at(least - 1).is_none());
        assert_eq!(table.at(u64::MAX).unwrap().count(), 1);
        for pair in table.partitions().windows(2) {
            assert!(pair[1].peak_bytes < pair[0].peak_bytes);
            assert!(pair[1].latency_ns > pair[0].latency_ns);
        }
        for _ in 0..20 {
            let budget = least + rng.below((whole - least) as usize + 1) as u64;
            let answer = table.at(budget).unwrap();
            assert!(answer.peak_bytes <= budget);
            let found = partition(&costs, budget).unwrap();
            let bound_ns = found.latency_ns * 105 / 100;
            assert!(answer.latency_ns <= bound_ns, "{answer:?} {found:?}");
            faster += u32::from(answer.latency_ns < found.latency_ns);
            slower += u32::from(answer.latency_ns > found.latency_ns);
        }
    }
    println!("of 1200 answers {faster} are faster than a search, {slower} are slower");
    assert!(faster > 20 && slower < 120, "{faster} {slower}");
}

/// Two operators read each parameter: it is in both blocks where a cut is between them.
#[test]
fn a_shared_parameter_comes_in_again() {
    let mut tensors = vec![tensor(Kind::Parameter, 100); 3];
    tensors.push(tensor(Kind::Activation, 1));
    let operators = vec![
        operator(&[0], &[], &[3], 10),
        operator(&[1], &[3], &[], 10),
        operator(&[0, 2], &[3], &[], 10),
    ];
    let graph = Graph::new(tensors, operators).unwrap();
    let info = ModelInfo::of(&graph);
    let bytes: Vec<u64> = info.layers().iter().map(|layer| layer.bytes).collect();
    assert_eq!((bytes, info.bytes(&graph)), (vec![100, 100, 200], 300));
    let costs = Costs::new(&graph, &info, &DEVICE);
    assert_eq!(costs.whole().bytes, 300);
    // All parameters, or the last two layers by themselves, which share none.
    assert_eq!(costs.least_budget(), 300);
    assert_eq!(partition(&costs, 299), None);
    let cut = Partition::at(&costs, vec![1, 2]);
    let plan = BlockPlanner::new(&graph, &info).plan(&cut);
    assert_eq!(plan.swap_in.len(), 4);
    validate(&graph, &plan).unwrap();
}
