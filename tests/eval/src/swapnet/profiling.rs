//! Fig. 9: the coefficients of the device, from blocks that were measured.

use rtswap_planner::advisor::Rng;
use rtswap_planner::blocks::{Coefficients, Sample, fit};

use super::models::{Device, Prepared};

/// The coefficients that fit `count` blocks of a model, and those of the device. The blocks are drawn with their measured
/// times: what the device takes, with a normal deviation of `noise`, a share of it. None where they do not tell the
/// coefficients apart.
pub fn profile(
    model: &Prepared,
    device: &Device,
    noise: f64,
    count: usize,
    seed: u64,
) -> Option<[Coefficients; 2]> {
    let mut rng = Rng::new(seed);
    let layers = model.costs.layers();
    let mut sample = || {
        let from = rng.below(layers);
        let to = from + 1 + rng.below(layers - from);
        let block = model.costs.block(from, to);
        let flops = model.info.layers()[from..to]
            .iter()
            .map(|layer| layer.flops);
        let mut noisy = |ns: u64| ns as f64 * (1.0 + noise * rng.normal());
        Sample {
            bytes: block.bytes,
            references: block.references,
            flops: flops.sum(),
            input_ns: noisy(block.input_ns),
            execution_ns: noisy(block.execution_ns),
            output_ns: noisy(block.output_ns),
        }
    };
    let samples: Vec<Sample> = (0..count).map(|_| sample()).collect();
    Some([
        fit(&samples)?,
        device.coefficients(&model.model, &model.graph),
    ])
}
