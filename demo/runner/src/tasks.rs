//! The task set: four tasks of 1.9 times the GPU's memory, timed so that the plan stays below 60 %.

use std::fmt::Write as _;
use std::time::Duration;

/// Σ footprints over the GPU's memory.
const OVERSUBSCRIPTION: f64 = 1.9;
/// By how much the plan's costs are above the model's, for the host's own time.
const MARGIN: f64 = 1.2;
/// What a swap operation takes beside its chunks: request, doorbell, acknowledgement.
const SWAP_BASE_US: f64 = 2_000.0;
/// What a job takes beside its kernels: launches, the checks that it is over, the idle gap.
const JOB_BASE: Duration = Duration::from_millis(12);
/// Periods are for a GPU whose whole memory crosses its link, out and back in, in this time.
const ROUND_TRIP_S: f64 = 0.517;

/// What the plan counts with; bytes, bytes per second, µs.
pub(crate) struct GpuModel {
    /// What rtswap may hand out.
    pub memory: u64,
    /// δ.
    pub chunk: u64,
    /// What a context takes, at most.
    pub context: u64,
    /// What the contexts of all programs take beyond what their agents charge for them.
    pub reserve: u64,
    /// Kept free for best-effort.
    pub best_effort_reserve: u64,
    /// Cost of a chunk swapped out, its copy excluded.
    pub swap_out_us_per_chunk: f64,
    /// Cost of a chunk swapped in, its copy excluded.
    pub swap_in_us_per_chunk: f64,
    /// Link from the GPU.
    pub swap_out_bytes_per_s: f64,
    /// Link to the GPU.
    pub swap_in_bytes_per_s: f64,
    /// Rate at which a layer reads its weights.
    pub compute_bytes_per_s: f64,
}

/// One task: what `dnn` is told to do and what rtswap is told of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Task {
    /// Its name.
    pub name: &'static str,
    /// T, which is its deadline too.
    pub period: Duration,
    /// C.
    pub wcet: Duration,
    /// m.
    pub footprint: u64,
    /// mˢ.
    pub swappable: u64,
    /// Bytes of weights.
    pub weights: u64,
    /// Layers of the network.
    pub layers: u32,
    /// Seed of its weights.
    pub seed: u32,
}

/// A best-effort program that computes without a pause.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Guest {
    /// The name that it is registered and shown by.
    pub name: String,
    /// Bytes of weights.
    pub weights: u64,
    /// Seed of its weights.
    pub seed: u32,
}

/// How many tasks there are.
pub(crate) const TASKS: u32 = 4;

/// Name, share of all footprints, period in ms, layers.
const SET: [(&str, f64, u64, u32); TASKS as usize] = [
    ("detect", 0.26, 1400, 8),
    ("lanes", 0.24, 1600, 6),
    ("depth", 0.24, 1800, 12),
    ("segment", 0.26, 2000, 16),
];

impl GpuModel {
    /// The task set for this GPU.
    pub(crate) fn tasks(&self) -> Vec<Task> {
        let memory = self.memory as f64;
        let round_trip = memory / self.swap_out_bytes_per_s + memory / self.swap_in_bytes_per_s;
        let scale = round_trip / ROUND_TRIP_S;
        SET.iter()
            .zip(1_u32..)
            .map(|(&(name, share, period_ms, layers), number)| {
                let bytes = (memory * OVERSUBSCRIPTION * share) as u64;
                let footprint = bytes.next_multiple_of(self.chunk);
                let swappable = footprint - self.context.next_multiple_of(self.chunk);
                // Half a chunk is left to the activations and to the alignment of the layers.
                let weights = swappable - self.chunk / 2;
                let kernels = weights as f64 / self.compute_bytes_per_s * MARGIN;
                Task {
                    name,
                    period: Duration::from_millis(
                        (period_ms as f64 * scale / 10.0).round() as u64 * 10,
                    ),
                    wcet: whole_ms(kernels) + JOB_BASE,
                    footprint,
                    swappable,
                    weights,
                    layers,
                    seed: number * 1000,
                }
            })
            .collect()
    }

    /// Best-effort programs of half of its memory each.
    pub(crate) fn guests(&self, count: u32) -> Vec<Guest> {
        (1..=count)
            .map(|number| Guest {
                name: format!("endless-{number}"),
                weights: self.memory / 2,
                seed: number * 100,
            })
            .collect()
    }

    /// The daemon's configuration for this GPU.
    pub(crate) fn daemon_toml(&self, uuid: &str) -> String {
        let Self {
            memory,
            chunk,
            reserve,
            best_effort_reserve,
            ..
        } = self;
        let mut toml = format!(
            "version = 1\n\n[[gpu]]\nuuid = \"{uuid}\"\nmemory = {memory}\nreserve = {reserve}\n\
             best_effort_reserve = {best_effort_reserve}\nchunk = {chunk}\n"
        );
        for (direction, per_chunk_us, bytes_per_s) in [
            ("out", self.swap_out_us_per_chunk, self.swap_out_bytes_per_s),
            ("in", self.swap_in_us_per_chunk, self.swap_in_bytes_per_s),
        ] {
            let per_chunk_us = per_chunk_us * MARGIN;
            let gib_per_s = bytes_per_s / MARGIN / f64::from(1 << 30);
            write!(
                toml,
                "\n[gpu.swap_cost.{direction}]\nbase_us = {SWAP_BASE_US:.1}\n\
                 per_chunk_us = {per_chunk_us:.1}\ngib_per_s = {gib_per_s:.4}\n"
            )
            .expect("writing to a string does not fail");
        }
        toml
    }

    /// Σ footprints over the GPU's memory.
    pub(crate) fn oversubscription(&self, tasks: &[Task]) -> f64 {
        tasks.iter().map(|task| task.footprint).sum::<u64>() as f64 / self.memory as f64
    }
}

fn whole_ms(seconds: f64) -> Duration {
    Duration::from_millis((seconds * 1e3).ceil() as u64)
}

impl Task {
    /// Jobs that fit `span`.
    pub(crate) fn jobs_in(&self, span: Duration) -> u64 {
        (span.as_nanos() / self.period.as_nanos()) as u64
    }

    /// What `dnn` is told, but for how many jobs.
    pub(crate) fn dnn_arguments(&self) -> Vec<String> {
        let period = format!("{}ms", self.period.as_millis());
        [
            ("--name", self.name.to_owned()),
            ("--memory", self.weights.to_string()),
            ("--layers", self.layers.to_string()),
            ("--seed", self.seed.to_string()),
            ("--period", period),
        ]
        .into_iter()
        .flat_map(|(option, value)| [option.to_owned(), value])
        .collect()
    }

    /// What `rtswapctl run` is told, up to the program.
    pub(crate) fn run_arguments(&self, gpu: &str) -> Vec<String> {
        let ms = |time: Duration| format!("{}ms", time.as_millis());
        [
            ("--name", self.name.to_owned()),
            ("--class", "realtime".to_owned()),
            ("--gpu", gpu.to_owned()),
            ("--period", ms(self.period)),
            ("--deadline", ms(self.period)),
            ("--wcet", ms(self.wcet)),
            ("--footprint", self.footprint.to_string()),
            ("--swappable", self.swappable.to_string()),
        ]
        .into_iter()
        .flat_map(|(option, value)| [option.to_owned(), value])
        .collect()
    }
}

impl Guest {
    /// What `dnn` is told, but for how long.
    pub(crate) fn dnn_arguments(&self) -> Vec<String> {
        let (memory, seed) = (self.weights.to_string(), self.seed.to_string());
        ["--memory", &memory, "--seed", &seed, "--period", "1ms"]
            .map(String::from)
            .to_vec()
    }

    /// What `rtswapctl run` is told, up to the program.
    pub(crate) fn run_arguments(&self, gpu: &str) -> Vec<String> {
        ["--name", &self.name, "--gpu", gpu]
            .map(String::from)
            .to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: f64 = 1_073_741_824.0;

    fn demo() -> GpuModel {
        GpuModel {
            memory: 96 << 20,
            chunk: 2 << 20,
            context: 2 << 20,
            reserve: 2 << 20,
            best_effort_reserve: 3 << 20,
            swap_out_us_per_chunk: 73.6,
            swap_in_us_per_chunk: 79.5,
            swap_out_bytes_per_s: 0.3775 * GIB,
            swap_in_bytes_per_s: 0.3494 * GIB,
            compute_bytes_per_s: 2.6 * GIB,
        }
    }

    #[test]
    fn the_set_is_what_the_demo_promises() {
        let gpu = demo();
        let tasks = gpu.tasks();
        let oversubscription = gpu.oversubscription(&tasks);
        assert!(
            (1.85..2.0).contains(&oversubscription),
            "{oversubscription}"
        );
        for task in &tasks {
            assert!(task.period >= Duration::from_millis(400), "{task:?}");
            assert!(task.wcet < task.period / 10, "{task:?}");
            assert!(task.footprint <= gpu.memory && task.footprint.is_multiple_of(gpu.chunk));
            // Weights, activations and checksum lie in the swappable chunks.
            assert!(
                task.weights + (256 << 10) + 1024 * 64 <= task.swappable,
                "{task:?}"
            );
            assert!(task.swappable + gpu.context <= task.footprint, "{task:?}");
        }
        // Swaps of a third of the overflow each, and execution.
        let overflow = (gpu.oversubscription(&tasks) - 1.0) * gpu.memory as f64;
        let per_byte = 1.0 / gpu.swap_out_bytes_per_s + 1.0 / gpu.swap_in_bytes_per_s;
        let swap = overflow / 3.0 * per_byte * MARGIN;
        let used = |task: &Task| (swap + task.wcet.as_secs_f64()) / task.period.as_secs_f64();
        let utilisation: f64 = tasks.iter().map(used).sum();
        assert!(utilisation < 0.62, "{utilisation}");
    }

    #[test]
    fn a_bigger_gpu_gets_longer_periods() {
        let big = GpuModel {
            memory: 192 << 20,
            ..demo()
        };
        let (small, big) = (demo().tasks(), big.tasks());
        let ratio = big[0].period.as_secs_f64() / small[0].period.as_secs_f64();
        assert!((1.9..2.1).contains(&ratio), "{ratio}");
    }

    #[test]
    fn arguments_carry_units_that_all_programs_read() {
        let task = &demo().tasks()[0];
        assert!(task.dnn_arguments().contains(&"--memory".to_owned()));
        let run = task.run_arguments("0").join(" ");
        assert!(
            run.contains(&format!("--period {}ms", task.period.as_millis())),
            "{run}"
        );
    }

    #[test]
    fn jobs_fill_the_span() {
        let task = &demo().tasks()[0];
        assert_eq!(task.jobs_in(task.period * 7 + Duration::from_millis(1)), 7);
    }
}
