//! Choices against brute force.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::cost::{DirectionCost, SwapCost};
use crate::units::Ppm;

fn platform(chunk: u64) -> Platform {
    let direction = DirectionCost {
        base: Nanos(2),
        per_chunk: Nanos(3),
        bytes_per_second: 1_000_000_000,
    };
    Platform {
        cost: SwapCost {
            out: direction,
            in_: direction,
        },
        chunk: Bytes(chunk),
        drain: Nanos::ZERO,
        dispatch_latency: Nanos::ZERO,
        duplex: Ppm::ONE,
    }
}

fn demand(period: u64, wcet: u64, footprint: u64) -> Demand {
    Demand {
        timing: Timing {
            period: Nanos(period),
            deadline: Nanos(period),
            wcet: Nanos(wcet),
        },
        memory: MemoryProfile {
            footprint: Bytes(footprint),
            swappable: Bytes(footprint),
        },
    }
}

/// Tasks with several amounts of memory, and a WCET for each.
fn tasks(most: usize) -> impl Strategy<Value = Vec<Vec<Choice>>> {
    let way = (1_u64..12, 1_u64..40, 0_u64..30);
    let ways = (200_u64..2_000, prop::collection::vec(way, 1..5));
    let task = ways.prop_map(|(period, ways)| {
        let choice = |(footprint, wcet, host)| Choice {
            demand: demand(period, wcet * period / 60, footprint),
            host: Bytes(host),
        };
        ways.into_iter().map(choice).collect()
    });
    prop::collection::vec(task, 1..most)
}

/// The best objective over all combinations, by the definition of it; none if none has a plan.
fn best_of_all(
    choices: &Choices,
    room: Bytes,
    host: Bytes,
    objective: Objective,
) -> Option<(f64, f64)> {
    let mut combinations: Vec<Vec<Choice>> = alloc::vec![Vec::new()];
    for ways in &choices.tasks {
        let extended = combinations.iter().flat_map(|chosen| {
            ways.iter()
                .map(|way| chosen.iter().chain([way]).copied().collect())
        });
        combinations = extended.collect();
    }
    let keys = combinations.iter().filter_map(|chosen| {
        let demands: Vec<_> = chosen.iter().map(|choice| choice.demand).collect();
        if demands.iter().any(|d| d.timing.wcet > d.timing.deadline) {
            return None;
        }
        let plan = assign(Test::Demand, &choices.platform, room, &demands, objective).ok()?;
        let volume: Bytes = plan.volumes.iter().copied().sum();
        let needed: Bytes = chosen.iter().map(|choice| choice.host).sum();
        (volume + needed <= host).then(|| key(&demands, &plan, objective))
    });
    keys.min_by(|a, b| a.partial_cmp(b).unwrap())
}

fn key(demands: &[Demand], plan: &Assignment, objective: Objective) -> (f64, f64) {
    let execution = demands
        .iter()
        .map(|d| d.timing.wcet.0 as f64 / d.timing.deadline.0 as f64);
    let load = swap_load(demands, plan) + execution.sum::<f64>();
    let volume: Bytes = plan.volumes.iter().copied().sum();
    match objective {
        Objective::Time => (load, 0.0),
        Objective::Volume => (volume.0 as f64, load),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_chosen_is_the_best_of_all(
        tasks in tasks(5),
        room in 4_u64..30,
        host in 0_u64..120,
        is_volume in any::<bool>(),
    ) {
        let objective = if is_volume { Objective::Volume } else { Objective::Time };
        let (room, host) = (Bytes(room), Bytes(host));
        let choices = [1, 2].map(|chunk| Choices {
            platform: platform(chunk),
            tasks: tasks.clone(),
        });
        let chosen = assign_choices(Test::Demand, &choices, room, host, objective).unwrap();
        let all = choices.iter().filter_map(|one| best_of_all(one, room, host, objective));
        let best = all.min_by(|a, b| a.partial_cmp(b).unwrap());
        let found = chosen.result.as_ref().ok().map(|plan| {
            let ways = chosen.ways.iter().zip(&choices[chosen.at].tasks);
            let demands: Vec<_> = ways.map(|(way, of)| of[*way].demand).collect();
            key(&demands, plan, objective)
        });
        match (found, best) {
            (Some(found), Some(best)) => {
                prop_assert!((found.0 - best.0).abs() < 1e-9, "{found:?}, best {best:?}");
                prop_assert!((found.1 - best.1).abs() < 1e-9, "{found:?}, best {best:?}");
            }
            (found, best) => prop_assert_eq!(found, best),
        }
    }
}

#[test]
fn among_too_many_combinations_one_is_found_that_no_single_change_betters() {
    // Eight tasks with eight ways each: a chunk less is a hundredth of the period more.
    let ways = |task: u64| -> Vec<Choice> {
        let way = |less: u64| Choice {
            demand: demand(10_000 + task, 100 * (1 + less), 10 - less),
            host: Bytes(less),
        };
        (0..8).map(way).collect()
    };
    let choices = Choices {
        platform: platform(1),
        tasks: (0..8).map(ways).collect(),
    };
    assert!(8_usize.pow(8) > 4_096);
    let choose = |room, host| {
        let all = core::slice::from_ref(&choices);
        assign_choices(Test::Demand, all, Bytes(room), Bytes(host), Objective::Time).unwrap()
    };
    // With room for all of it, and with room for no more than one.
    let loose = choose(80, 1_000);
    assert_eq!((loose.ways, loose.result.is_ok()), ([0; 8].into(), true));
    let tight = choose(10, 1_000);
    assert!(tight.result.is_ok());
    // The copies of shrunk tasks need host memory, and so do volumes.
    let unbacked = choose(10, 5);
    assert!(matches!(unbacked.result, Err(Infeasible::NotBacked { .. })));
    assert!(choose(2, 1_000).result.is_err());
}

#[test]
fn a_task_larger_than_the_gpu_is_admitted_in_less_memory() {
    let way = |wcet, footprint| Choice {
        demand: demand(1_000, wcet, footprint),
        host: Bytes::ZERO,
    };
    let with = |ways| Choices {
        platform: platform(1),
        tasks: alloc::vec![ways],
    };
    let choose = |choices: Choices| {
        let chosen = assign_choices(
            Test::Demand,
            &[choices],
            Bytes(10),
            Bytes(100),
            Objective::Time,
        );
        chosen.unwrap()
    };
    let refused = choose(with([way(100, 15)].into()));
    assert!(matches!(refused.result, Err(Infeasible::TooLarge { .. })));
    let admitted = choose(with([way(100, 15), way(180, 9), way(170, 10)].into()));
    assert_eq!((admitted.ways, admitted.result.is_ok()), ([2].into(), true));
}
