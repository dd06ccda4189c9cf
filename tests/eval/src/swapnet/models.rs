//! The models of the evaluation, and the device that runs them.

use anyhow::Result;
use rtswap_planner::blocks::{Coefficients, Costs, Execution, ModelInfo};
use rtswap_planner::graph::Graph;
use rtswap_planner::machine::Roofline;

use super::MIB;
use crate::advisor::models::read;

/// Which processor of the device runs a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processor {
    /// The CPU cores.
    Cpu,
    /// The GPU, which shares the memory of the CPU.
    Gpu,
}

/// A model of the paper's applications.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// Its name in the paper.
    pub name: &'static str,
    /// The name of its graph's file.
    pub file: &'static str,
    /// Where the paper runs it.
    pub processor: Processor,
    /// Its size in MB, which are MiB in the paper.
    pub megabytes: u64,
    /// How long direct inference takes, in ms. The text gives that of ResNet-101 only; the others are assumed.
    pub direct_ms: f64,
}

/// For traffic signs and lights.
pub const VGG: Model = Model {
    name: "VGG-19",
    file: "vgg-19-inference-1",
    processor: Processor::Cpu,
    megabytes: 548,
    direct_ms: 1130.0,
};

/// For cars, natural scenes and animals. Section 8.4 has 466 ms in three blocks, which is 15 ms more than direct inference.
pub const RESNET: Model = Model {
    name: "ResNet-101",
    file: "resnet-101-inference-1",
    processor: Processor::Cpu,
    megabytes: 170,
    direct_ms: 451.0,
};

/// For objects and fires.
pub const YOLO: Model = Model {
    name: "YOLOv3",
    file: "yolov3-inference-1",
    processor: Processor::Gpu,
    megabytes: 236,
    direct_ms: 300.0,
};

/// For the segmentation of scenes.
pub const FCN: Model = Model {
    name: "FCN",
    file: "fcn-resnet-101-inference-1",
    processor: Processor::Gpu,
    megabytes: 207,
    direct_ms: 600.0,
};

/// All of them.
pub const MODELS: [Model; 4] = [VGG, RESNET, YOLO, FCN];

/// The device: a Jetson Xavier NX with an NVMe SSD.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Device {
    /// Bytes per second that storage is read with. The paper does not give it.
    pub storage: f64,
    /// Nanoseconds for each reference of an assembly: 50 to 55 µs (section 6.1).
    pub assembly_ns: f64,
    /// Nanoseconds for each reference that is reset: not published, taken to be what an assembly takes.
    pub reset_ns: f64,
    /// Nanoseconds of garbage collection for each block: not published.
    pub collection_ns: f64,
}

impl Device {
    /// The device with the constants of the paper, and a storage rate that the text does not give.
    pub const NX: Self = Self {
        storage: 2e9,
        assembly_ns: 52_500.0,
        reset_ns: 52_500.0,
        collection_ns: 0.0,
    };

    /// The coefficients of a model that takes `direct_ms` on this device, its operators in proportion to their FLOPs.
    pub fn coefficients(&self, model: &Model, graph: &Graph) -> Coefficients {
        let flops: u64 = graph.operators().iter().map(|op| op.flops).sum();
        Coefficients {
            read_ns_per_byte: 1e9 / self.storage,
            assembly_ns_per_reference: self.assembly_ns,
            execution: Execution::PerFlop(model.direct_ms * 1e6 / flops as f64),
            reset_ns_per_reference: self.reset_ns,
            collection_ns: self.collection_ns,
        }
    }
}

/// The most layers of a search.
pub const MOST_LAYERS: usize = 250;

/// A model that was read, with the costs of its blocks.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Which.
    pub model: Model,
    /// Its graph.
    pub graph: Graph,
    /// Its layers, at most [`MOST_LAYERS`].
    pub info: ModelInfo,
    /// Its blocks on the device.
    pub costs: Costs,
}

impl Prepared {
    /// Reads a model for a device.
    pub fn new(model: Model, device: &Device) -> Result<Self> {
        // Blocks take what the device's coefficients say; the times in the graph are not used.
        let graph = read(model.file, &Roofline::V100)?;
        let info = ModelInfo::of(&graph).coarsened(&graph, MOST_LAYERS);
        let costs = Costs::new(&graph, &info, &device.coefficients(&model, &graph));
        Ok(Self {
            model,
            graph,
            info,
            costs,
        })
    }

    /// The size of its parameters in MiB.
    pub fn mib(&self) -> f64 {
        self.costs.whole().bytes as f64 / MIB as f64
    }

    /// How long direct inference takes, in ms.
    pub fn direct_ms(&self) -> f64 {
        self.costs.whole().execution_ns as f64 / 1e6
    }
}
