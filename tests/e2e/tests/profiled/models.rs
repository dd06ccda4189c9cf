//! Three models of the demo, and the time that a job of each takes by the configuration of the simulated GPU.

use std::process::Command;
use std::time::Duration;

use rtswap_e2e::MachineOptions;
use simgpu_core::config::GpuConfig;

const MIB: u64 = 1 << 20;
/// Words of the activations (demo/dnn/src/reference.rs).
const WIDTH: u64 = 1 << 16;

/// A network as `dnn` is told of it. Weights, layers and seeds are those of the demo's tasks (demo/runner/src/tasks.rs);
/// several passes over the layers make a job long beside the idle gap, by which the end of an undeclared job is found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    pub(crate) name: &'static str,
    /// In bytes.
    weights: u64,
    layers: u64,
    seed: u32,
    /// Over all layers in one job.
    passes: u64,
}

pub(crate) const MODELS: [Model; 3] = [
    Model {
        name: "detect",
        weights: 45 * MIB,
        layers: 8,
        seed: 1000,
        passes: 4,
    },
    Model {
        name: "depth",
        weights: 41 * MIB,
        layers: 12,
        seed: 3000,
        passes: 5,
    },
    Model {
        name: "segment",
        weights: 45 * MIB,
        layers: 16,
        seed: 4000,
        passes: 6,
    },
];

/// The GPU of the demo (demo/runner/demo.toml), on which two of the models do not fit together.
pub(crate) fn demo_gpu() -> MachineOptions {
    MachineOptions {
        memory_mib: 96,
        link_gib_per_s: 0.3775,
        h2d_gib_per_s: Some(0.3494),
        compute_gib_per_s: 2.6,
        ..MachineOptions::default()
    }
}

impl Model {
    /// The model with as short jobs as the demo runs.
    pub(crate) const fn of_one_pass(self) -> Self {
        Self { passes: 1, ..self }
    }

    /// What `dnn` is told, but for when its jobs come and how long.
    pub(crate) fn arguments(&self, command: &mut Command) {
        let numbers = [
            ("--memory", self.weights),
            ("--layers", self.layers),
            ("--seed", self.seed.into()),
            ("--work", self.passes),
        ];
        command.args(["--name", self.name]);
        for (option, value) in numbers {
            command.args([option, &value.to_string()]);
        }
    }

    /// The time that the GPU takes for a job, from its first kernel to its result on the host: the sum of what the
    /// configuration says of each call. A set of 8 bytes and a copy of 8 bytes are two of them.
    pub(crate) fn known(&self, gpu: &GpuConfig) -> Duration {
        let activations = 4 * WIDTH;
        // A layer reads its weights, and reads and writes the activations.
        let layers = self.weights + self.layers * 2 * activations;
        let touched = self.passes * layers + 2 * activations;
        let launches = self.passes * self.layers + 2;
        let micros = launches as f64 * gpu.launch_us + 2.0 * gpu.copy_us;
        let seconds = touched as f64 / (gpu.compute_gib_per_s * f64::from(1 << 30));
        Duration::from_secs_f64(micros / 1e6 + seconds)
    }
}
