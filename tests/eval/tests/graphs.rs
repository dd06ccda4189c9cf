//! All committed graphs: what they are, and plans for them that are proven.

use std::fs;
use std::path::Path;

use rtswap_eval::advisor::models::{INFERENCE_BATCHES, TRAINED, inference, read};
use rtswap_eval::advisor::published::{TABLE_1, TABLE_2};
use rtswap_eval::advisor::search::Prepared;
use rtswap_eval::advisor::{BUDGET, CHUNK};
use rtswap_planner::advisor::{
    ArenaPlanner, Lead, OnDemand, PooledPlanner, on_demand, pool_founders, random_schedule,
};
use rtswap_planner::graph::Order;
use rtswap_planner::machine::{Link, Roofline, run};
use rtswap_planner::plan::Plan;
use rtswap_planner::validator::validate;

/// The names of all of them.
fn names() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("graphs");
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let names = files.filter_map(|file| Some(file.to_str()?.strip_suffix(".json.gz")?.to_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn each_graph_has_plans_that_are_proven() {
    let names = names();
    assert!(names.len() >= 41, "{names:?}");
    let mut proven = 0;
    for name in names {
        let prepared = Prepared::new(read(&name, &Roofline::V100).unwrap());
        let graph = &prepared.graph;
        let (least, peak) = (graph.largest(CHUNK).bytes, graph.peak(CHUNK));
        let mut prove = |what: &str, plan: &Plan| {
            validate(graph, plan).unwrap_or_else(|error| panic!("{name}, {what}: {error}"));
            let run = run(graph, plan, Link::PCIE3);
            let run = run.unwrap_or_else(|| panic!("{name}, {what}: waits for itself"));
            assert!(
                run.total_ns >= graph.compute_ns(),
                "{name}, {what}: {run:?}"
            );
            proven += 1;
        };
        let any = random_schedule(&Order::of(graph), 1);
        let mut planner = ArenaPlanner::new(graph, CHUNK);
        // From the least budget to one in which nothing is swapped.
        for budget in [least, least.midpoint(peak), peak] {
            for (order, schedule) in [("trace", prepared.trace()), ("random", any.clone())] {
                for ms in [0, 100] {
                    let lead = Lead::of(ms * 1_000_000);
                    let plan = planner.plan(&schedule, budget, &lead).unwrap();
                    prove(
                        &format!("{budget} bytes, {order} order, {ms} ms ahead"),
                        plan,
                    );
                }
            }
            for how in [OnDemand::Passive, OnDemand::Prefetch] {
                let plan = on_demand(graph, &prepared.trace(), budget, CHUNK, how).unwrap();
                prove(&format!("{budget} bytes, {how:?}"), &plan);
            }
        }
        for founder in pool_founders(&prepared.problem(peak / 2)) {
            let mut planner = PooledPlanner::new(graph);
            let plan = planner
                .plan(&founder.schedule, &founder.allocation)
                .unwrap();
            prove(
                &format!("{} classes", founder.allocation.classes().len()),
                plan,
            );
        }
    }
    println!("{proven} plans proven");
    assert!(proven > 41 * 18, "{proven}");
}

/// SwapAdvisor's Table 1, by the definition of docs/evaluation.md.
#[test]
fn memory_is_within_15_percent_of_the_published() {
    for (model, published) in TRAINED.iter().zip(TABLE_1) {
        let [.., batch] = model.batches;
        let graph = model.graph(batch, &Roofline::V100).unwrap();
        let bytes: u64 = graph.tensors().iter().map(|tensor| tensor.bytes).sum();
        let ratio = bytes as f64 / 1e9 / published[0].value;
        assert!((0.85..=1.15).contains(&ratio), "{}: {ratio:.3}", model.name);
        assert!(
            graph.peak(CHUNK) > BUDGET,
            "{} does not need to swap",
            model.name
        );
    }
}

/// SwapAdvisor's Table 2, with all memory.
#[test]
fn the_roofline_gives_the_published_times_within_10_percent() {
    let (_, published) = TABLE_2[4];
    for (batch, published) in INFERENCE_BATCHES.into_iter().zip(published) {
        let seconds = inference(batch, &Roofline::V100).unwrap().compute_ns() as f64 / 1e9;
        let ratio = seconds / published.unwrap();
        assert!(
            (0.9..=1.1).contains(&ratio),
            "batch {batch}: {seconds} s, {ratio:.3}"
        );
    }
}
