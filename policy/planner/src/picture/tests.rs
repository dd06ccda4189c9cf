use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::Timeline;
use crate::advisor::{ArenaPlanner, Lead, OnDemand, on_demand};
use crate::graph::{Graph, Kind, OpId, Operator, Tensor};
use crate::machine::Link;
use crate::plan::Plan;
use crate::validator::validate;

const MIB: u64 = 1 << 20;

/// Makes `count` tensors of a MiB and reads them again, the last one first.
fn graph(count: u32, time_ns: u64) -> Graph {
    let tensors = (0..count).map(|at| Tensor {
        name: alloc::format!("tensor {at}"),
        kind: Kind::Activation,
        bytes: MIB,
    });
    let operators = (0..2 * count).map(|at| {
        let (made, read) = (at < count, 2 * count - 1 - at.max(count));
        Operator {
            name: "<op>".to_string(),
            inputs: (!made).then_some(read).into_iter().collect(),
            outputs: made.then_some(at).into_iter().collect(),
            updates: Vec::new(),
            flops: 0,
            bytes: 0,
            time_ns,
            is_random: false,
        }
    });
    Graph::new(tensors.collect(), operators.collect()).unwrap()
}

fn planned(graph: &Graph, budget: u64) -> Plan {
    let schedule: Vec<OpId> = (0..graph.operators().len() as OpId).collect();
    let mut planner = ArenaPlanner::new(graph, MIB);
    let plan = planner
        .plan(&schedule, budget, &Lead::of(0))
        .unwrap()
        .clone();
    validate(graph, &plan).unwrap();
    plan
}

fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

#[test]
fn the_peak_is_what_is_in_use_at_once() {
    let graph = graph(10, 1_000_000);
    for (budget, peak) in [(64, 10), (10, 10), (6, 6), (3, 3)] {
        let plan = planned(&graph, budget * MIB);
        let timeline = Timeline::of(&graph, &plan, Link::PCIE3).unwrap();
        assert_eq!(timeline.peak(), peak * MIB, "{budget} MiB");
    }
}

#[test]
fn what_lies_unused_in_its_place_is_not_in_use() {
    // Each tensor is read by the operator behind its own: two at once, wherever they lie.
    let tensors = (0..8).map(|_| Tensor {
        name: String::new(),
        kind: Kind::Activation,
        bytes: MIB,
    });
    let operators = (0..8_u32).map(|at| Operator {
        name: "op".to_string(),
        inputs: at.checked_sub(1).into_iter().collect(),
        outputs: [at].into(),
        updates: Vec::new(),
        flops: 0,
        bytes: 0,
        time_ns: 5,
        is_random: false,
    });
    let graph = Graph::new(tensors.collect(), operators.collect()).unwrap();
    let plan = planned(&graph, 8 * MIB);
    assert_eq!(
        Timeline::of(&graph, &plan, Link::PCIE3).unwrap().peak(),
        2 * MIB
    );
}

#[test]
fn a_picture_shows_each_step_and_each_wait() {
    let graph = graph(10, 1_000_000);
    let schedule: Vec<OpId> = (0..20).collect();
    let plan = on_demand(&graph, &schedule, 6 * MIB, MIB, OnDemand::Passive).unwrap();
    let timeline = Timeline::of(&graph, &plan, Link::PCIE3).unwrap();
    let svg = timeline.svg("a <title> & more");
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    assert!(svg.contains("a &lt;title&gt; &amp; more"));
    assert_eq!(count(&svg, "<title>compute["), 20);
    assert_eq!(count(&svg, "<title>swap_in["), plan.swap_in.len());
    assert_eq!(count(&svg, "<title>swap_out["), plan.swap_out.len());
    assert!(svg.contains("&lt;op&gt;: 1 ms") && svg.contains("tensor 3"));
    // Each copy from the host is waited for.
    assert_eq!(count(&svg, "<title>waits "), plan.swap_in.len());
    assert!(svg.contains("at most 6291456 of 6291456 bytes"), "{svg}");
    assert!(svg.contains("stroke-dasharray"));
    // Far from its budget it has no line for it.
    let plan = planned(&graph, 1 << 40);
    let svg = Timeline::of(&graph, &plan, Link::PCIE3).unwrap().svg("");
    assert!(!svg.contains("stroke-dasharray") && count(&svg, "<title>waits ") == 0);
}

#[test]
fn a_picture_has_a_bound_whatever_the_plan_has() {
    let graph = graph(20_000, 20_000);
    let plan = planned(&graph, 64 * MIB);
    let timeline = Timeline::of(&graph, &plan, Link::PCIE3).unwrap();
    let svg = timeline.svg("large");
    // At most two bars a pixel in each of three lanes, and the gaps between those.
    assert!(
        count(&svg, "<rect") <= 1_600 * 7,
        "{}",
        count(&svg, "<rect")
    );
    assert!(svg.len() < 1 << 20, "{} bytes", svg.len());
}
