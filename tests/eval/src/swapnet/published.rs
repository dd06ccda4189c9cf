//! The numbers that SwapNet's text states about its evaluation, with the place. What it only draws is not here.

use crate::figures::published::{Published, at};

/// The least and the greatest number of an application.
pub type Span = [Published; 2];

/// Section 8.2: by how many percent SwapNet needs less memory than direct inference, a compressed model, and a model
/// divided by channels, and by how many ms it takes longer than direct inference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranges {
    /// Less memory than direct inference, in percent.
    pub direct: Span,
    /// Less memory than a compressed model, in percent.
    pub compressed: Span,
    /// Less memory than a model divided by channels, in percent.
    pub channels: Span,
    /// Longer than direct inference, in ms.
    pub longer_ms: Span,
}

const fn span(source: &'static str, least: f64, greatest: f64) -> Span {
    [at(source, least), at(source, greatest)]
}

/// Self-driving.
pub const SELF_DRIVING: Ranges = Ranges {
    direct: span("Fig. 11(a)", 56.9, 82.8),
    compressed: span("Fig. 11(a)", 35.7, 65.0),
    channels: span("Fig. 11(a)", 42.0, 66.4),
    longer_ms: span("Fig. 11(b)", 26.0, 46.0),
};

/// Road-side unit.
pub const ROAD_SIDE: Ranges = Ranges {
    direct: span("Fig. 12(a)", 53.4, 77.1),
    compressed: span("Fig. 12(a)", 38.6, 59.1),
    channels: span("Fig. 12(a)", 45.6, 66.0),
    longer_ms: span("Fig. 12(b)", 14.0, 47.0),
};

/// UAV surveillance.
pub const UAV: Ranges = Ranges {
    direct: span("Fig. 13(a)", 64.4, 74.6),
    compressed: span("Fig. 13(a)", 49.2, 65.7),
    channels: span("Fig. 13(a)", 51.8, 66.9),
    longer_ms: span("Fig. 13(b)", 8.0, 37.0),
};

/// By how many percent SwapNet takes longer than direct inference on average.
pub const MEAN_LONGER: Published = at("Sec. 1", 6.2);

/// Section 6.1: µs for each assembled reference, in the middle of 50 to 55.
pub const ASSEMBLY_US: Published = at("Sec. 6.1", 52.5);

/// Fig. 14: blocks of ResNet-101 in each application, and by how many ms the road-side unit's is faster than the UAV's.
pub const RESNET_BLOCKS: [Published; 3] =
    [at("Fig. 14", 4.0), at("Fig. 14", 3.0), at("Fig. 14", 3.0)];
/// The difference of the last two in ms.
pub const ROAD_SIDE_FASTER_MS: Published = at("Fig. 14", 5.5);

/// Fig. 15: by how many percent models take longer without unified addressing.
pub const WITHOUT_UNIFIED: Span = span("Fig. 15", 26.3, 50.1);
/// The same without the skeleton.
pub const WITHOUT_SKELETON: Span = span("Fig. 15", 15.7, 29.0);
/// The same without the scheduling of section 6.2.
pub const WITHOUT_SCHEDULING: Span = span("Fig. 15", 19.0, 34.3);

/// Fig. 16: memory in MB and latency in ms of ResNet-101 in three blocks.
pub const THREE_BLOCKS: [Published; 2] = [at("Fig. 16", 111.0), at("Fig. 16", 466.0)];

/// Fig. 18: ms of both adaptations.
pub const ADAPTATION_MS: [Published; 2] = [at("Fig. 18", 74.0), at("Fig. 18", 64.0)];
/// Fig. 18: latency of ResNet-101 in ms after each.
pub const ADAPTED_MS: [Published; 2] = [at("Fig. 18", 499.0), at("Fig. 18", 511.0)];

/// Table 2: MB, references and FLOPs of the first five and the last two layers of ResNet-101.
pub const LAYERS: [(&str, f64, u64, f64); 7] = [
    ("Layer1", 0.38, 1, 26.2e6),
    ("Layer2", 1.49, 5, 0.8e3),
    ("Layer3", 1.12, 1, 123.9e6),
    ("Layer4", 5.93, 5, 4.2e3),
    ("Layer5", 4.38, 6, 316.7e6),
    ("Layer100", 23.6, 1, 30e3),
    ("Layer101", 17.45, 1, 5e3),
];

/// Table 3: MB and predicted ms of two partitions of ResNet-101 in three blocks.
pub const PARTITIONS: [[Published; 2]; 2] = [
    [at("Table 3", 105.0), at("Table 3", 496.0)],
    [at("Table 3", 109.0), at("Table 3", 488.0)],
];
