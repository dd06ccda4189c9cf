//! The task set file: a GPU, what swapping costs on it, and realtime tasks, as TOML or as JSON with
//! the same keys. And, as TOML, what was measured on a GPU, in `calibration`, and of a program, in `profile`; as JSON,
//! the dataflow graph of a model, in `graph`, and a swap plan for it, in `plan`, both read by `rows`.
//!
//! `from_toml` and `from_json` make a `tree` of what is written, with places. `table` and `field`
//! read keys and values from it, `number`, `size` and `span` exactly from their decimal text, a span
//! in a `unit` of time; `shape` knows the keys and the rules; `advice` finds what would make a set fit
//! that has no plan.
//! docs/planning.md has the format. [`parse_size`] reads the sizes of the daemon's files, of D-Bus and of command lines, too.

mod advice;
pub mod calibration;
mod error;
mod field;
mod from_json;
mod from_toml;
pub mod graph;
mod nearest;
mod number;
pub mod plan;
pub mod profile;
mod rows;
mod shape;
mod size;
mod span;
mod table;
#[cfg(test)]
mod tests;
mod tree;
mod unit;

pub use advice::{Advice, advise, exact_millis};
pub use error::{Fault, TaskSetError};
pub use rows::MAX_TEXT;
pub use rtswap_policy::scheduler::MAX_TASKS;
pub use size::parse_size;

use rtswap_policy::admission::{Platform, Test};
use rtswap_policy::assign::{Assignment, Demand, Infeasible, Objective, assign, assign_any_chunk};
use rtswap_policy::cost::SwapCost;
use rtswap_policy::task::{Class, MemoryProfile, TaskSpec, Timing, Weight};
use rtswap_policy::units::{Bytes, Nanos, Ppm};

/// What a file is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// TOML, version 1.1.
    Toml,
    /// JSON (RFC 8259).
    Json,
}

/// The most characters of a name.
pub const MAX_NAME: usize = 255;

/// The longest period, 1,000 days: sums of hundreds of them stay within what 64 bits count.
pub const MAX_PERIOD: Nanos = Nanos(1_000 * 86_400 * 1_000_000_000);

/// The least that CUDA maps: δ is a multiple of it.
pub const GRANULARITY: Bytes = Bytes(2 << 20);

/// A checked task set: 0 < C ≤ D ≤ T ≤ [`MAX_PERIOD`] and mˢ ≤ m for each task, names not empty and
/// each used once,
/// δ a multiple of [`GRANULARITY`] and at most the capacity. Whether it is schedulable is another
/// question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSet {
    /// The GPU that the set is for.
    pub gpu: Gpu,
    /// What swapping costs on it while the other copy engine is idle.
    pub swap_cost: SwapCost,
    /// From 1 to [`MAX_TASKS`], in the order of the file.
    pub tasks: Vec<RealtimeTask>,
    /// The tasks that are planned from graphs. C and the memory of each are those of the budget that was chosen for it, and 0
    /// until one is. Their jobs copy while they run, and nothing executes their plans yet.
    pub graphs: Vec<GraphTask>,
}

/// A task that swaps inside its jobs, by a plan from a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphTask {
    /// Its place in [`TaskSet::tasks`].
    pub task: usize,
    /// The file of the graph, not empty, as it is written: relative to the folder of the task set.
    pub file: String,
    /// The GPU memory that it takes beside its tensors, in bytes, none of it swappable.
    pub context: Bytes,
}

/// The GPU that a set is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// The capacity mᴰ in bytes.
    pub capacity: Bytes,
    /// δ; none: the planner chooses.
    pub chunk: Option<Bytes>,
    /// The most host memory for backing stores and for what jobs copy inside, in bytes; none: any.
    pub host_memory: Option<Bytes>,
    /// ρ, not zero: the rate of a copy engine while the other one copies too over its rate alone.
    pub duplex: Ppm,
    /// The time within which a revoked best-effort job leaves the GPU; zero: no best-effort job runs
    /// beside realtime.
    pub drain: Nanos,
    /// ε, the time from a decision to its effect; zero in a file, whose WCETs are all there is.
    pub dispatch_latency: Nanos,
}

/// One task of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealtimeTask {
    /// Not empty, at most [`MAX_NAME`] characters, none of them invisible or for control.
    pub name: String,
    /// T, D and C.
    pub timing: Timing,
    /// m and mˢ.
    pub memory: MemoryProfile,
}

/// Reads a task set. What is finer than a nanosecond, a byte a second or a millionth is rounded to
/// the safe side: WCETs and costs up, periods, deadlines, bandwidths and ρ down.
pub fn parse(text: &str, format: Format) -> Result<TaskSet, TaskSetError> {
    let root = match format {
        Format::Toml => from_toml::read(text),
        Format::Json => from_json::read(text),
    };
    root.and_then(|root| shape::read(&root, text, format))
        .map_err(|wrong| wrong.in_text(text))
}

impl TaskSet {
    /// The same set on a GPU as it was measured: that ρ and those costs hold, and that δ where the set leaves it open.
    #[must_use]
    pub fn on(mut self, measured: &calibration::Calibration) -> Self {
        self.gpu.chunk = self.gpu.chunk.or(Some(measured.chunk));
        self.gpu.duplex = measured.duplex;
        self.swap_cost = measured.swap_cost;
        self
    }

    /// The demands for [`rtswap_policy::assign`], in the order of the tasks.
    pub fn demands(&self) -> Vec<Demand> {
        let demand = |task: &RealtimeTask| Demand {
            timing: task.timing,
            memory: task.memory,
        };
        self.tasks.iter().map(demand).collect()
    }

    /// The rate of a copy engine that a swap can count on, over its rate alone: ρ, or half of it beside jobs that copy while they
    /// run (docs/theory.md, section 11).
    pub fn rate(&self) -> Ppm {
        match self.graphs.as_slice() {
            [] => self.gpu.duplex,
            _ => Ppm((self.gpu.duplex.0 / 2).max(1)),
        }
    }

    /// What `test` assumes of the GPU, with δ = `chunk`.
    pub fn platform(&self, test: Test, chunk: Bytes) -> Platform {
        let rate = self.rate();
        let (cost, duplex) = match test {
            Test::Pipelined => (self.swap_cost, rate),
            // Also a running job's own copies load the other engine.
            Test::Demand | Test::Theorem1 => (self.swap_cost.loaded(rate), Ppm::ONE),
        };
        Platform {
            cost,
            chunk,
            drain: self.gpu.drain,
            dispatch_latency: self.gpu.dispatch_latency,
            duplex,
        }
    }

    /// The best volumes, with the best δ where the file leaves it open.
    pub fn plan(&self, test: Test, objective: Objective) -> Result<Assignment, Infeasible> {
        self.plan_for(test, objective, &self.demands())
    }

    /// What would make a set fit that has no plan.
    pub fn advice(&self, test: Test, objective: Objective) -> Advice {
        let fits = |demands: &[Demand]| {
            demands.iter().all(|d| d.timing.period <= MAX_PERIOD)
                && self.plan_for(test, objective, demands).is_ok()
        };
        advise(&self.demands(), fits)
    }

    fn plan_for(
        &self,
        test: Test,
        objective: Objective,
        demands: &[Demand],
    ) -> Result<Assignment, Infeasible> {
        let assign = match self.gpu.chunk {
            Some(_) => assign,
            None => assign_any_chunk,
        };
        let platform = self.platform(test, self.gpu.chunk.unwrap_or(GRANULARITY));
        assign(test, &platform, self.gpu.capacity, demands, objective)
    }
}

impl RealtimeTask {
    /// As it registers.
    pub fn spec(&self) -> TaskSpec {
        TaskSpec {
            name: self.name.clone(),
            class: Class::Realtime(self.timing),
            memory: self.memory,
            weight: Weight::default(),
            idle_after: None,
        }
    }
}
