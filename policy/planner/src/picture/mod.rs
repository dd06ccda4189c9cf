//! A run of a plan, recorded step by step, and its picture.
//!
//! `memory` follows which bytes of the budget are in use, `bars` makes a few bars of very many steps, `svg` draws.

mod bars;
mod memory;
mod svg;
#[cfg(test)]
mod tests;

use alloc::string::String;
use alloc::vec::Vec;

use crate::graph::Graph;
use crate::machine::{self, Link, Run};
use crate::plan::{Plan, Queue};
use memory::Memory;

/// A run of a plan, as a machine model has it.
#[derive(Debug)]
pub struct Timeline<'a> {
    graph: &'a Graph,
    plan: &'a Plan,
    run: Run,
    /// When each step of [`Queue::ALL`] began and ended, in nanoseconds.
    spans: [Vec<Span>; 3],
    /// The bytes in use from an instant on.
    usage: Vec<(f64, u64)>,
    peak: u64,
}

/// From its beginning to its end, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Span {
    from: f64,
    until: f64,
}

impl<'a> Timeline<'a> {
    /// Runs a plan that was validated; none if its steps wait for each other.
    pub fn of(graph: &'a Graph, plan: &'a Plan, link: Link) -> Option<Self> {
        let mut spans: [Vec<Span>; 3] = Default::default();
        let mut memory = Memory::before(graph, plan);
        let run = machine::observe(graph, plan, link, |queue, at, from, until| {
            let span = Span { from, until };
            spans[queue as usize].push(span);
            memory.follow(queue, at, span);
        })?;
        let (usage, peak) = memory.usage();
        Some(Self {
            graph,
            plan,
            run,
            spans,
            usage,
            peak,
        })
    }

    /// What the run took.
    pub fn run(&self) -> Run {
        self.run
    }

    /// The most bytes of the budget that are in use at once. A tensor uses the whole of its place, from the beginning of the
    /// step that puts it there to the end of the last step that reads it there.
    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// The run as an SVG document under `title`: a lane for each queue, where the compute engine waits in red, and the memory
    /// in use. Its size has a bound: steps that are thinner than a pixel share a bar.
    pub fn svg(&self, title: &str) -> String {
        svg::draw(self, title)
    }

    /// What a step is called.
    fn name(&self, queue: Queue, at: usize) -> &str {
        let tensor = match queue {
            Queue::Compute => return &self.graph.operator(self.plan.compute[at].op).name,
            Queue::SwapIn => self.plan.swap_in[at].place.tensor,
            Queue::SwapOut => self.plan.swap_out[at].tensor,
        };
        &self.graph.tensor(tensor).name
    }
}
