//! A good plan, each way to be wrong with its message, and that what is written is read as the same.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use rtswap_planner::plan::{Compute, Extent, Place, SwapIn, SwapOut, Waits};

use super::*;
use crate::MAX_TEXT;
use crate::graph::tests::samples::{chain, good as good_graph, graph, hostile, told};

const GOOD: &str = r#"{
"version": 1,
"graph": {"name":"tiny","operators":3,"tensors":5,"digest":"86fa5eb5fe284a74"},
"planner": "advisor",
"seed": 18446744073709551615,
"budget_bytes": 16384,
"chunk_bytes": 0,
"predicted": {"time_ns":80000,"ideal_ns":77000,"share":0.9625,"peak_bytes":12288,"unhidden_ns":3000},
"residents": [
{"tensor":0,"extents":[[0,4096]]}
],
"compute": [
{"operator":0,"waits":[0,1,0],"outputs":[{"tensor":2,"extents":[[8192,1024],[10240,1024]]},{"tensor":4,"extents":[[12288,512]]}]},
{"operator":1,"waits":[0,1,1],"outputs":[{"tensor":3,"extents":[[4096,4096]]}]},
{"operator":2,"waits":[0,1,1],"outputs":[]}
],
"swap_in": [
{"tensor":1,"extents":[[16128,256],[15360,768]],"waits":[0,0,0]}
],
"swap_out": [
{"tensor":2,"waits":[1,0,0]}
]
}
"#;

fn good() -> PlanFile {
    let extents = [
        (0, 4096),
        (8192, 1024),
        (10240, 1024),
        (12288, 512),
        (4096, 4096),
        (16128, 256),
        (15360, 768),
    ];
    let place = |tensor, first, count| Place {
        tensor,
        first,
        count,
    };
    let compute = |op, waits, outputs| Compute {
        op,
        waits: Waits(waits),
        outputs,
    };
    PlanFile {
        graph: GraphIdentity::of(&good_graph()),
        planner: "advisor".into(),
        seed: u64::MAX,
        predicted: Predicted {
            time_ns: 80_000,
            ideal_ns: 77_000,
            peak_bytes: 12_288,
            unhidden_ns: 3_000,
        },
        plan: Plan {
            budget: 16_384,
            chunk: 0,
            extents: extents
                .map(|(offset, bytes)| Extent { offset, bytes })
                .to_vec(),
            residents: vec![place(0, 0, 1)],
            compute: vec![
                compute(0, [0, 1, 0], 0),
                compute(1, [0, 1, 1], 2),
                compute(2, [0, 1, 1], 3),
            ],
            outputs: vec![place(2, 1, 2), place(4, 3, 1), place(3, 4, 1)],
            swap_in: vec![SwapIn {
                place: place(1, 5, 2),
                waits: Waits::default(),
            }],
            swap_out: vec![SwapOut {
                tensor: 2,
                waits: Waits([1, 0, 0]),
            }],
        },
    }
}

fn wrong(text: &str) -> String {
    told(read(text, &good_graph().graph))
}

#[test]
fn everything_can_be_said() {
    assert_eq!(write(&good()), GOOD);
    assert_eq!(read(GOOD, &good_graph().graph), Ok(good()));
}

#[test]
fn the_share_is_that_of_the_times() {
    let share = |ideal_ns, time_ns| {
        let predicted = Predicted {
            time_ns,
            ideal_ns,
            ..Predicted::default()
        };
        predicted.share()
    };
    assert_eq!(share(2, 3), Ppm(666_666));
    assert_eq!(share(0, 3), Ppm(0));
    assert_eq!(share(0, 0), Ppm::ONE);
    assert_eq!(share(4, 3), Ppm::ONE);
    assert_eq!(share(u64::MAX, u64::MAX), Ppm::ONE);
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    for (from, to, expected) in [
        (
            "\"version\": 1",
            "\"version\": 3",
            "2:12: version: version 3 is not known; write \"version\": 1",
        ),
        (
            "86fa5eb5fe284a74",
            "0123456789abcdef",
            "3:10: graph: the plan is for another graph, \"tiny\" with the digest 0123456789abcdef, and this graph has \
             86fa5eb5fe284a74; give the graph of the plan, or make a plan for this graph",
        ),
        (
            "86fa5eb5fe284a74",
            "86FA5EB5FE284A74",
            "3:60: graph.digest: \"86FA5EB5FE284A74\" is not a digest; write 16 hex digits, for example \
             \"0123456789abcdef\"",
        ),
        (
            "\"operators\":3",
            "\"operators\":4",
            "3:37: graph.operators: 4 is not the number of the graph's operators; write 3",
        ),
        (
            "\"planner\"",
            "\"planer\"",
            "1:1: planner: missing; write, for example, \"planner\": \"advisor\"\n\
             4:1: planer: unknown key; did you mean planner?",
        ),
        (
            "18446744073709551615",
            "-1",
            "5:9: seed: -1 is not a whole number from 0 to 18446744073709551615; write one",
        ),
        (
            "0.9625",
            "0.96",
            "8:56: predicted.share: 0.96 is not the share that ideal_ns has of time_ns; write 0.9625",
        ),
        (
            "0.9625",
            "1e400",
            "8:56: predicted.share: 1e400 is not the share that ideal_ns has of time_ns; write 0.9625",
        ),
        (
            "0.9625",
            "null",
            "8:56: predicted.share: null where a number belongs; write, for example, 0.8",
        ),
        (
            "{\"tensor\":0,",
            "{\"tensor\":5,",
            "10:11: residents[0].tensor: 5 is not the number of a tensor from 0 to 4; write one",
        ),
        (
            "[0,4096]",
            "[0,16385]",
            "10:27: residents[0].extents[0][1]: 16385 is not a number of bytes in the budget from 1 to 16384; write one",
        ),
        (
            "[0,4096]",
            "[0,0]",
            "10:27: residents[0].extents[0][1]: 0 is not a number of bytes in the budget from 1 to 16384; write one",
        ),
        (
            "[0,4096]",
            "[12289,4096]",
            "10:24: residents[0].extents[0]: the extent ends beyond the budget of 16384 bytes; write a smaller offset, or \
             fewer bytes",
        ),
        (
            "[0,4096]",
            "[18446744073709551615,1]",
            "10:25: residents[0].extents[0][0]: 18446744073709551615 is not an offset in the budget from 0 to 16384; write \
             one",
        ),
        (
            "[0,4096]",
            "[0,4096,1]",
            "10:24: residents[0].extents[0]: 3 in this list, where 2 belong; write, for example, [0, 2097152]",
        ),
        (
            "[[0,4096]]",
            "7",
            "10:23: residents[0].extents: a number where an array belongs; write, for example, [[0, 2097152]]",
        ),
        (
            "{\"operator\":1",
            "{\"operator\":3",
            "14:13: compute[1].operator: 3 is not the number of an operator from 0 to 2; write one",
        ),
        (
            "\"tensor\":3,",
            "\"tensor\":9,",
            "14:52: compute[1].outputs[0].tensor: 9 is not the number of a tensor from 0 to 4; write one",
        ),
        (
            ",\"outputs\":[]",
            "",
            "15:1: compute[2].outputs: missing; write, for example, \"outputs\": [{ … }]",
        ),
        (
            "{\"operator\":2",
            "{},{\"operator\":1",
            "15:1: compute[2].operator: missing; write, for example, \"operator\": 0\n\
             15:1: compute[2].waits: missing; write, for example, \"waits\": [0, 0, 0]\n\
             15:1: compute[2].outputs: missing; write, for example, \"outputs\": [{ … }]",
        ),
        (
            "[1,0,0]",
            "[1,0]",
            "21:21: swap_out[0].waits: 2 in this list, where 3 belong; write, for example, [0, 0, 0]",
        ),
        (
            "[1,0,0]",
            "[4,2,0]",
            "21:22: swap_out[0].waits[0]: 4 is not a number of compute steps from 0 to 3; write one\n\
             21:24: swap_out[0].waits[1]: 2 is not a number of swap_in steps from 0 to 1; write one",
        ),
        (
            "[0,1,1],\"outputs\":[]",
            "[0,1,4294967296],\"outputs\":[]",
            "15:28: compute[2].waits[2]: 4294967296 is not a number of steps from 0 to 4294967295; write one",
        ),
        (
            "[0,1,1],\"outputs\":[]",
            "[0,1,2],\"outputs\":[]",
            "15:28: compute[2].waits[2]: 2 is not a number of swap_out steps from 0 to 1; write one",
        ),
    ] {
        assert!(GOOD.contains(from), "{from}");
        assert_eq!(wrong(&GOOD.replacen(from, to, 1)), expected, "{to}");
    }
}

/// Places with extents of their own, in the order of the text, as a reader makes them.
fn plan(file: &GraphFile, budget: u64) -> impl Strategy<Value = Plan> + use<> {
    let (operators, tensors) = (
        file.graph.operators().len() as u32,
        file.graph.tensors().len() as u32,
    );
    let extent = (0..budget).prop_flat_map(move |offset| {
        (1..=budget - offset).prop_map(move |bytes| Extent { offset, bytes })
    });
    let place = (0..tensors, prop::collection::vec(extent, 0..4));
    let places = prop::collection::vec(place.clone(), 0..4);
    let count = 0_u32..100;
    let step = (
        0..operators,
        places.clone(),
        [count.clone(), count.clone(), count.clone()],
    );
    let compute = prop::collection::vec(step, 0..=2 * operators as usize);
    let swap_in =
        prop::collection::vec((place, [count.clone(), count.clone(), count.clone()]), 0..6);
    let swap_out = prop::collection::vec((0..tensors, [count.clone(), count.clone(), count]), 0..6);
    (places, compute, swap_in, swap_out, 0..=budget).prop_map(
        move |(residents, compute, swap_in, swap_out, chunk)| {
            let mut plan = Plan {
                budget,
                chunk,
                ..Plan::default()
            };
            let counts = [compute.len(), swap_in.len(), swap_out.len()].map(|count| count as u32);
            let waits = |[a, b, c]: [u32; 3]| {
                Waits([
                    a % (counts[0] + 1),
                    b % (counts[1] + 1),
                    c % (counts[2] + 1),
                ])
            };
            let put = |extents: &mut Vec<Extent>, (tensor, own): (u32, Vec<Extent>)| {
                let (first, count) = (extents.len() as u32, own.len() as u32);
                extents.extend(own);
                Place {
                    tensor,
                    first,
                    count,
                }
            };
            for resident in residents {
                let place = put(&mut plan.extents, resident);
                plan.residents.push(place);
            }
            for (op, places, after) in compute {
                let outputs = plan.outputs.len() as u32;
                for output in places.into_iter().take(tensors as usize) {
                    let place = put(&mut plan.extents, output);
                    plan.outputs.push(place);
                }
                plan.compute.push(Compute {
                    op,
                    waits: waits(after),
                    outputs,
                });
            }
            for (place, after) in swap_in {
                let place = put(&mut plan.extents, place);
                plan.swap_in.push(SwapIn {
                    place,
                    waits: waits(after),
                });
            }
            for (tensor, after) in swap_out {
                plan.swap_out.push(SwapOut {
                    tensor,
                    waits: waits(after),
                });
            }
            plan
        },
    )
}

fn file() -> impl Strategy<Value = (GraphFile, PlanFile)> {
    let budget = prop_oneof![1_u64..1 << 20, Just(u64::MAX)];
    let both = (graph(), budget).prop_flat_map(|(graph, budget)| {
        let plan = plan(&graph, budget);
        (Just(graph), plan)
    });
    let numbers = (
        any::<u64>(),
        any::<u64>(),
        any::<u64>(),
        any::<u64>(),
        any::<u64>(),
    );
    (both, "[ -~é]{0,9}[a-z]", numbers).prop_map(|((graph, plan), planner, numbers)| {
        let (seed, time_ns, ideal_ns, peak_bytes, unhidden_ns) = numbers;
        let file = PlanFile {
            graph: GraphIdentity::of(&graph),
            planner,
            seed,
            predicted: Predicted {
                time_ns,
                ideal_ns,
                peak_bytes,
                unhidden_ns,
            },
            plan,
        };
        (graph, file)
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_as_the_same((graph, file) in file()) {
        let text = write(&file);
        prop_assert_eq!(read(&text, &graph.graph), Ok(file), "{}", text);
    }

    #[test]
    fn places_that_share_extents_are_read_with_their_own((graph, mut file) in file()) {
        let places = file.plan.outputs.len();
        if let Some(last) = places.checked_sub(1) {
            file.plan.outputs[0] = Place { tensor: 0, ..file.plan.outputs[last] };
        }
        let text = write(&file);
        let again = read(&text, &graph.graph).map_err(|errors| TestCaseError::fail(format!("{errors:?}")))?;
        prop_assert_eq!(write(&again), text);
        for (one, other) in file.plan.outputs.iter().zip(&again.plan.outputs) {
            prop_assert_eq!(one.tensor, other.tensor);
            prop_assert_eq!(file.plan.extents_of(*one), again.plan.extents_of(*other));
        }
    }

    #[test]
    fn no_text_panics(at in any::<prop::sample::Index>(), removed in 0_usize..9, put in "[0-9\\[\\],.]{0,4}") {
        let mut text: Vec<char> = GOOD.chars().collect();
        let from = at.index(text.len() + 1);
        let to = (from + removed).min(text.len());
        text.splice(from..to, put.chars());
        let text: String = text.into_iter().collect();
        match read(&text, &good_graph().graph) {
            Ok(file) => prop_assert_eq!(read(&write(&file), &good_graph().graph), Ok(file)),
            Err(errors) => prop_assert!(!errors.is_empty() && errors.len() <= 8),
        }
    }
}

/// A plan in which each operator swaps in a tensor of `chunks` separate chunks.
fn swapping(file: &GraphFile, chunks: u64) -> PlanFile {
    let mut plan = Plan {
        budget: 16 << 30,
        chunk: 2 << 20,
        ..Plan::default()
    };
    let put = |extents: &mut Vec<Extent>, tensor| {
        let first = extents.len() as u32;
        extents.extend((0..chunks).map(|at| Extent {
            offset: at << 22,
            bytes: 2 << 20,
        }));
        Place {
            tensor,
            first,
            count: chunks as u32,
        }
    };
    for op in 0..file.graph.operators().len() as u32 {
        plan.compute.push(Compute {
            op,
            waits: Waits([0, op, op]),
            outputs: op,
        });
        plan.outputs.push(put(&mut plan.extents, op + 1));
    }
    for tensor in 0..file.graph.operators().len() as u32 {
        let waits = Waits([tensor; 3]);
        plan.swap_in.push(SwapIn {
            place: put(&mut plan.extents, tensor),
            waits,
        });
        plan.swap_out.push(SwapOut { tensor, waits });
    }
    PlanFile {
        graph: GraphIdentity::of(file),
        plan,
        ..good()
    }
}

#[test]
#[ignore = "measures times, which mean something in a release build only"]
fn plans_are_read_in_time() {
    let measure = |name: &str, text: &str, graph: &Graph| {
        let begin = Instant::now();
        let result = read(text, graph);
        let took = begin.elapsed();
        let told = result.err().map_or(0, |errors| errors.len());
        eprintln!("{name}: {} bytes, {took:?}, {told} errors", text.len());
        assert!(took <= Duration::from_secs(1), "{name} took {took:?}");
        told
    };
    let graph = chain(20_000);
    for chunks in [2, 70] {
        let begin = Instant::now();
        let text = write(&swapping(&graph, chunks));
        eprintln!("written: {} bytes, {:?}", text.len(), begin.elapsed());
        assert!(text.len() <= MAX_TEXT);
        assert_eq!(measure("a good plan", &text, &graph.graph), 0);
        let late = text.replace("\"waits\":[1999", "\"waits\":[9999");
        assert_eq!(measure("waits for too much", &late, &graph.graph), 8);
    }
    for list in ["residents", "compute", "swap_in", "swap_out"] {
        for (name, text) in hostile(list) {
            measure(name, &text, &graph.graph);
        }
    }
}
