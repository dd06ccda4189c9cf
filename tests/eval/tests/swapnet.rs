//! SwapNet's figures at its published budgets: docs/evaluation.md has all of them.

use std::fs;
use std::time::Instant;

use rtswap_eval::advisor::models::read;
use rtswap_eval::swapnet::ablation::{blocks, without_skeleton_ns};
use rtswap_eval::swapnet::adaptation::{adapt, budgets};
use rtswap_eval::swapnet::applications::{
    APPLICATIONS, Outcome, SELF_DRIVING, divided, mean_longer, of, prepare, run,
};
use rtswap_eval::swapnet::memory::{copies, reduction};
use rtswap_eval::swapnet::models::{Device, MODELS, Prepared, RESNET, VGG};
use rtswap_eval::swapnet::published::PARTITIONS;
use rtswap_eval::swapnet::{MIB, mib};
use rtswap_planner::blocks::{
    BlockPlanner, Coefficients, Costs, Execution, LookupTable, MOST_LAYERS, ModelInfo, partition,
    partition_into,
};
use rtswap_planner::machine::Roofline;
use rtswap_planner::validator::validate;

/// Of every task of the three applications; each plan is proven.
fn outcomes(device: &Device) -> Vec<Outcome> {
    let prepared = prepare(device).unwrap();
    let tasks = APPLICATIONS.iter().flat_map(|one| one.tasks);
    tasks.map(|task| run(&prepared, task).unwrap()).collect()
}

#[test]
fn the_published_budgets_cost_little_time() {
    let all = outcomes(&Device::NX);
    for one in &all {
        let (name, budget) = (one.task.model.name, one.task.budget);
        println!(
            "{name} {budget}: {:+.1} ms, {} blocks of {:.1} MiB, reserve {:.1} MiB",
            one.longer_ms(),
            one.partition.count(),
            one.peak(),
            one.reserve
        );
        assert!(
            one.longer_ms() >= 0.0 && one.longer_ms() <= 47.0,
            "{name} {budget}"
        );
        assert!(one.peak() <= budget as f64, "{name} {budget}");
        assert!(one.memory <= budget as f64 + one.reserve, "{name} {budget}");
        // The model is the paper's.
        assert!(
            (one.size - one.task.model.megabytes as f64).abs() < 1.0,
            "{name}"
        );
    }
    let mean = mean_longer(&all);
    println!("{mean:.2} % longer on average");
    assert!(mean <= 6.2, "{mean}");
}

/// Neither a slower storage nor any time of the swap-out that the text allows decides; the direct latencies, which the paper only draws for
/// three of the models, would: what runs faster hides less.
#[test]
fn other_constants_keep_the_published_mean() {
    for (storage, reset_ns, collection_ns) in [
        (2e9, 0.0, 0.0),
        (1.5e9, 52_500.0, 20_900_000.0),
        (2e9, 0.0, 30_000_000.0),
    ] {
        let device = Device {
            storage,
            reset_ns,
            collection_ns,
            ..Device::NX
        };
        let all = outcomes(&device);
        let mean = mean_longer(&all);
        let most = all.iter().map(Outcome::longer_ms).fold(0.0, f64::max);
        println!(
            "{storage:e} B/s, {reset_ns} {collection_ns} ns: {mean:.2} %, at most {most:.1} ms"
        );
        assert!(mean <= 6.2, "{device:?}: {mean}");
    }
}

#[test]
fn every_committed_graph_has_a_plan() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/graphs");
    let mut cut = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let Some(name) = file.strip_suffix(".json.gz") else {
            continue;
        };
        let graph = read(name, &Roofline::V100).unwrap();
        let info = ModelInfo::of(&graph).coarsened(&graph, MOST_LAYERS);
        let device = Coefficients {
            execution: Execution::Recorded,
            ..Device::NX.coefficients(&RESNET, &graph)
        };
        let costs = Costs::new(&graph, &info, &device);
        let planner = BlockPlanner::new(&graph, &info);
        let budget = costs.least_budget().midpoint(costs.whole().bytes);
        let found = partition(&costs, budget).unwrap();
        let plan = planner.plan(&found);
        if let Err(error) = validate(&graph, &plan) {
            panic!("{name}: {error}");
        }
        assert!(plan.budget <= budget + planner.reserve_bytes());
        cut += usize::from(found.count() > 1 && name.contains("inference"));
    }
    assert!(cut >= 7, "{cut}");
}

#[test]
fn memory_falls_as_published() {
    let all = outcomes(&Device::NX);
    let driving = &all[..SELF_DRIVING.tasks.len()];
    let reductions = driving.iter().map(|one| {
        let direct = one.size * copies(one.task.model.processor) as f64;
        reduction(one.peak(), direct)
    });
    let (least, most) = reductions.fold((100.0_f64, 0.0_f64), |span, one| {
        (span.0.min(one), span.1.max(one))
    });
    println!("{least:.1} to {most:.1} % less than direct inference");
    // 56.9 and 82.8 % in the paper.
    assert!((56.0..=58.0).contains(&least), "{least}");
    assert!((78.0..=83.0).contains(&most), "{most}");
}

#[test]
fn equation_1_gives_the_largest_layer_its_room() {
    let prepared = prepare(&Device::NX).unwrap();
    for application in &APPLICATIONS {
        let shares = divided(&prepared, application).unwrap().unwrap();
        println!("{}: {shares:.1?}", application.name);
        assert!(shares.iter().sum::<f64>() <= application.memory as f64);
        if application.tasks[0].model == VGG {
            let least = mib(of(&prepared, &VGG).unwrap().costs.least_budget());
            assert!(shares[0] >= least - 0.001, "{shares:?} {least}");
        }
    }
}

#[test]
fn more_blocks_take_less_memory() {
    let model = Prepared::new(RESNET, &Device::NX).unwrap();
    let peaks: Vec<f64> = (3..=7)
        .map(|count| mib(blocks(&model, count).unwrap().peak_bytes))
        .collect();
    assert!(peaks.windows(2).all(|pair| pair[1] < pair[0]), "{peaks:?}");
    // 111 MB in three blocks in the paper.
    assert!((105.0..=120.0).contains(&peaks[0]), "{peaks:?}");
}

/// 15.7 to 29.0 % longer in the paper.
#[test]
fn a_skeleton_saves_time() {
    let prepared = prepare(&Device::NX).unwrap();
    let mut sum = 0.0;
    for task in SELF_DRIVING.tasks {
        let outcome = run(&prepared, task).unwrap();
        let model = of(&prepared, &task.model).unwrap();
        let naive_ns = without_skeleton_ns(model, &outcome.partition);
        let longer = 100.0 * (naive_ns as f64 / outcome.partition.latency_ns as f64 - 1.0);
        println!("{}: {longer:.1} % longer", task.model.name);
        assert!((10.0..40.0).contains(&longer), "{longer}");
        sum += longer;
    }
    let mean = sum / SELF_DRIVING.tasks.len() as f64;
    assert!((20.0..25.0).contains(&mean), "{mean}");
}

/// The latencies that Table 3 predicts for ResNet-101 in three blocks.
#[test]
fn three_blocks_take_what_the_paper_predicts() {
    let model = Prepared::new(RESNET, &Device::NX).unwrap();
    for [memory, published] in PARTITIONS {
        let budget = memory.value as u64 * MIB;
        let found = partition_into(&model.costs, budget, 3..=3).unwrap();
        let ms = found.latency_ns as f64 / 1e6;
        println!("{} MB: {ms:.1} ms", memory.value);
        assert!((ms / published.value - 1.0).abs() < 0.03, "{ms}");
    }
}

/// The paper needs 64 and 74 ms for a new partition with its blocks made.
#[test]
fn adaptation_is_fast() {
    for model in MODELS {
        let model = Prepared::new(model, &Device::NX).unwrap();
        let began = Instant::now();
        let least = model
            .costs
            .least_budget()
            .max(model.costs.whole().bytes / 2);
        let table = LookupTable::new(&model.costs, budgets(&model, least));
        let planner = BlockPlanner::new(&model.graph, &model.info);
        let prepared = began.elapsed();
        let whole = model.costs.whole().bytes;
        let (mut slowest, mut slowest_search) = (0.0_f64, 0.0_f64);
        for step in 0..8 {
            let budget = whole - (whole - least) * step / 8;
            let began = Instant::now();
            let (_, plan) = adapt(&table, &planner, budget).unwrap();
            slowest = slowest.max(began.elapsed().as_secs_f64() * 1e3);
            validate(&model.graph, &plan).unwrap();
            let began = Instant::now();
            partition(&model.costs, budget).unwrap();
            slowest_search = slowest_search.max(began.elapsed().as_secs_f64() * 1e3);
        }
        // Less memory, other blocks.
        let points = |budget| table.at(budget).map(|one| &one.points);
        assert_ne!(points(whole), points(least));
        println!(
            "{}: {slowest:.3} ms from the table, {slowest_search:.1} ms by a search, table of {} in {prepared:.1?}",
            model.model.name,
            table.partitions().len(),
        );
        assert!(slowest < 64.0, "{slowest}");
    }
}
