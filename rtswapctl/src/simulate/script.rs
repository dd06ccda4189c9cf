//! What a job does that copies while it runs, for the simulator.

use rtswap_planner::plan::{Queue, Waits};
use rtswap_policy::cost::DirectionCost;
use rtswap_policy::scheduler::Direction;
use rtswap_policy::units::{Bytes, Nanos};
use rtswap_simulator::{After, Link, Script};
use rtswap_taskset::TaskSet;

use crate::plan::InJob;

/// The steps of a job's plan, on the copy engines of the set's GPU with δ = `chunk`.
pub(super) fn of(set: &TaskSet, chunk: Bytes, in_job: &InJob) -> Script {
    let cost = set.swap_cost;
    let mut script = Script::new(Link {
        out: rate(cost.out, chunk),
        in_: rate(cost.in_, chunk),
        duplex: set.gpu.duplex,
        latency: cost.out.per_chunk.max(cost.in_.per_chunk),
    });
    let (graph, plan) = (&in_job.graph.graph, &in_job.point.plan);
    let copied = |tensor| Bytes(graph.tensor(tensor).bytes);
    for step in &plan.compute {
        let span = Nanos(graph.operator(step.op).time_ns);
        script.compute(span, after(step.waits));
    }
    for step in &plan.swap_in {
        let bytes = copied(step.place.tensor);
        script.copy(Direction::In, bytes, after(step.waits));
    }
    for step in &plan.swap_out {
        script.copy(Direction::Out, copied(step.tensor), after(step.waits));
    }
    script
}

/// In bytes per second, with the mapping of each chunk.
fn rate(cost: DirectionCost, chunk: Bytes) -> u64 {
    let rate = u128::from(chunk.0) * 1_000_000_000 / u128::from(cost.chunk_time(chunk).0.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

fn after(waits: Waits) -> After {
    After {
        compute: waits.of(Queue::Compute),
        out: waits.of(Queue::SwapOut),
        in_: waits.of(Queue::SwapIn),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::cli::{Objective, TaskSetOptions, Test};
    use crate::plan::Planned;

    /// A set with one task of a graph.
    fn set(graph: &str, memory: &str, chunk: u64, duplex: f64) -> String {
        let graphs = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/eval/graphs");
        format!(
            "version = 1\n[gpu]\nmemory = \"{memory}\"\nchunk = \"{chunk}MiB\"\nduplex = {duplex}\n\
             [swap_cost.out]\nbase_us = 900.0\nper_chunk_us = 20.0\ngib_per_s = 12.0\n\
             [swap_cost.in]\nbase_us = 950.0\nper_chunk_us = 45.0\ngib_per_s = 9.0\n\
             [[task]]\nname = \"a\"\nperiod_ms = 100000\ngraph = \"{graphs}/{graph}.json.gz\"\ncontext = 0\n"
        )
    }

    #[test]
    fn no_job_takes_longer_than_its_wcet_however_busy_the_engines_are() {
        let folder = tempfile::tempdir().unwrap();
        let mut copying = 0;
        for (graph, memory) in [
            ("resnet-50-adam", "400MiB"),
            ("resnet-50-adam", "600MiB"),
            ("resnet-101-inference-1", "150MiB"),
            ("vgg-16", "3GiB"),
        ] {
            for (chunk, duplex) in [(2, 1.0), (2, 0.51), (4, 0.8), (8, 0.67)] {
                let file = folder.path().join("set.toml");
                fs::write(&file, set(graph, memory, chunk, duplex)).unwrap();
                let options = TaskSetOptions {
                    file,
                    on: None,
                    test: Test::Demand,
                    objective: Objective::Time,
                    json: false,
                };
                let (_, planned) = Planned::read(&options).unwrap();
                let in_job = &planned.in_job[0];
                let script = of(&planned.set, Bytes(chunk << 20), in_job);
                let (loaded, wcet) = (script.loaded().unwrap(), planned.set.tasks[0].timing.wcet);
                assert!(loaded <= wcet, "{graph} {chunk} {duplex}: {loaded} {wcet}");
                let idle = script.idle().unwrap();
                assert!(idle <= loaded);
                copying += u32::from(idle.0 < wcet.0 * 9 / 10);
            }
        }
        assert!(copying > 4, "most jobs wait for copies: {copying}");
    }
}
