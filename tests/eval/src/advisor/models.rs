//! The models of the evaluation, as graphs that were recorded from PyTorch.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use flate2::read::GzDecoder;
use rtswap_planner::graph::Graph;
use rtswap_planner::machine::Roofline;
use rtswap_taskset::graph::read_graph;

/// A model that the paper trains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// Its name in the paper.
    pub name: &'static str,
    /// The name of its graphs' files.
    pub file: &'static str,
    /// Its batches in Fig. 6 or 7, the largest last.
    pub batches: [u32; 3],
}

/// The models of Table 1 and Fig. 6.
pub const TRAINED: [Model; 5] = [
    model("WResNet-152-10", "wresnet-152-10", [16, 32, 64]),
    model("Inception-4", "inception-4", [16, 32, 64]),
    model("NasNet-25", "nasnet-25", [16, 32, 64]),
    model("RNN-8-8K", "rnn-8-8k", [64, 128, 256]),
    model("BRNN-4-8K", "brnn-4-8k", [32, 64, 128]),
];

/// The model of Fig. 7. The text does not give its batches; these are those of the other CNNs.
pub const NARROWER: Model = model("WResNet-152-4", "wresnet-152-4", [16, 32, 64]);

/// Batches of ResNet-152 in Table 2.
pub const INFERENCE_BATCHES: [u32; 3] = [1, 16, 64];

const fn model(name: &'static str, file: &'static str, batches: [u32; 3]) -> Model {
    Model {
        name,
        file,
        batches,
    }
}

impl Model {
    /// One training iteration with a batch of [`Self::batches`].
    pub fn graph(&self, batch: u32, roofline: &Roofline) -> Result<Graph> {
        let [.., largest] = self.batches;
        let name = if batch == largest {
            self.file.to_owned()
        } else {
            format!("{}-b{batch}", self.file)
        };
        read(&name, roofline)
    }
}

/// One inference of ResNet-152 with a batch of [`INFERENCE_BATCHES`].
pub fn inference(batch: u32, roofline: &Roofline) -> Result<Graph> {
    read(&format!("resnet-152-inference-{batch}"), roofline)
}

/// The committed graph of this name, its operators timed by a roofline.
pub fn read(name: &str, roofline: &Roofline) -> Result<Graph> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("graphs");
    let path = folder.join(format!("{name}.json.gz"));
    let compressed =
        File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut text = String::new();
    GzDecoder::new(compressed).read_to_string(&mut text)?;
    let file = read_graph(&text, roofline);
    let file = file.map_err(|errors| anyhow!("{}: {}", path.display(), errors[0]))?;
    Ok(file.graph)
}
