//! What few generations of the searches find: docs/evaluation.md has what many do.

use rtswap_eval::advisor::inference;
use rtswap_eval::advisor::models::{Model, TRAINED};
use rtswap_eval::advisor::progress::{Kind, progress};
use rtswap_eval::advisor::search::Effort;
use rtswap_eval::advisor::serving::{Served, Sharing, latency_p99};
use rtswap_eval::advisor::shares::{Shares, shares};
use rtswap_planner::machine::Roofline;

const fn generations(generations: u32) -> Effort {
    Effort {
        generations,
        threads: 2,
        seed: 1,
    }
}

fn few(model: &Model) -> Shares {
    let [.., batch] = model.batches;
    shares(
        model,
        batch,
        &Roofline::V100,
        generations(1),
        generations(4),
    )
    .unwrap()
}

/// In percent: ODSwap in PyTorch's order, ours from random orders, ours from PyTorch's order.
fn percent(shares: &Shares) -> [f64; 3] {
    let runs = [Some(shares.on_demand), shares.random, shares.trace];
    runs.map(|run| 100.0 * shares.of(run.unwrap()))
}

#[test]
fn few_generations_beat_swapping_on_demand() {
    // NasNet-25 takes longer than all others together.
    for (at, floor) in [(0, 90.0), (1, 80.0), (3, 75.0), (4, 50.0)] {
        let model = TRAINED[at];
        let [on_demand, random, trace] = percent(&few(&model));
        println!("{}: {on_demand:.1} {random:.1} {trace:.1}", model.name);
        assert!(random > on_demand && trace > on_demand, "{}", model.name);
        assert!(
            random.min(trace) >= floor,
            "{}: {random} {trace}",
            model.name
        );
    }
}

/// SwapAdvisor's Table 2: 64 MB suffice for a batch of one, at less than the published 0.024 s with more generations.
#[test]
fn inference_runs_in_little_memory() {
    let time = |batch, megabytes: u64| {
        let run = inference::time(batch, megabytes * 1_000_000, generations(6)).unwrap();
        run.map(|run| run.total_ns as f64 / 1e9)
    };
    assert!(time(1, 64).unwrap() < 0.027);
    assert!(time(1, 512).unwrap() < 0.017);
    assert!(time(16, 192).unwrap() < 0.047);
    assert_eq!([time(16, 64), time(64, 192)], [None, None]);
}

#[test]
fn a_search_finds_the_same_on_any_number_of_threads() {
    let inception = TRAINED[1];
    let with = |threads| {
        let effort = Effort {
            threads,
            ..generations(3)
        };
        progress(&inception, Kind::Ours, effort).unwrap()
    };
    let one = with(1);
    assert!(one.iter().all(Option::is_some), "{one:?}");
    assert!(
        one.windows(2)
            .all(|pair| pair[1].unwrap().best <= pair[0].unwrap().best),
        "{one:?}"
    );
    assert_eq!([with(2), with(3)], [one.clone(), one]);
}

#[test]
fn a_mapping_of_sizes_without_restriction_can_be_searched() {
    let found = progress(&TRAINED[1], Kind::Unrestricted, generations(2)).unwrap();
    assert_eq!(found.len(), 2);
}

#[test]
fn time_shared_memory_costs_latency() {
    let served = Served {
        parameters: 240_000_000,
        footprint: 500_000_000,
        whole_ns: 40_000_000,
        part_ns: 41_000_000,
    };
    let at_rate = |rate, sharing, models, budget| {
        latency_p99(sharing, models, served, budget, rate, 20_000, 1)
    };
    let p99 = |sharing, models, budget| at_rate(10.0, sharing, models, budget).unwrap();
    let alone = p99(Sharing::Alone, 1, 16_000_000_000);
    // Nothing waits less than its own batch.
    assert!(alone >= served.whole_ns);
    // All 16 models fit: each swaps in once.
    assert!(p99(Sharing::Whole, 16, 16_000_000_000) < alone * 102 / 100);
    assert!(p99(Sharing::Parts, 16, 16_000_000_000) > alone);
    let time = p99(Sharing::Time, 16, 16_000_000_000);
    assert!(time > p99(Sharing::Time, 2, 16_000_000_000) && time > alone * 3 / 2);
    // Four of 16 fit.
    assert!(p99(Sharing::Whole, 16, 2_000_000_000) > alone);
    // 40 ms each: 25 requests a second.
    assert_eq!(at_rate(26.0, Sharing::Alone, 1, 16_000_000_000), None);
}
