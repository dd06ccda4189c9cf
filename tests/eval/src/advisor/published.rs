//! The numbers that SwapAdvisor's text states about its evaluation, with the place. What it only draws is not here.

use crate::figures::published::{Published, at};

/// Table 1: memory in GB, operators, distinct tensor sizes of [`super::models::TRAINED`].
pub const TABLE_1: [[Published; 3]; 5] = [
    [
        at("Table 1", 180.0),
        at("Table 1", 882.0),
        at("Table 1", 26.0),
    ],
    [
        at("Table 1", 71.0),
        at("Table 1", 830.0),
        at("Table 1", 64.0),
    ],
    [
        at("Table 1", 193.0),
        at("Table 1", 5533.0),
        at("Table 1", 65.0),
    ],
    [
        at("Table 1", 118.0),
        at("Table 1", 8594.0),
        at("Table 1", 7.0),
    ],
    [
        at("Table 1", 99.0),
        at("Table 1", 9034.0),
        at("Table 1", 9.0),
    ],
];

/// Section 6.2: the share of the ideal throughput that SwapAdvisor reaches, in percent. The text says "95 %" of
/// WResNet-152-10, "not more than 65 %" of Inception-4 and "only 53 %" of NasNet-25 with a batch of 64, and "70-80 %" of both
/// RNNs.
pub const SHARES: [Published; 5] = [
    at("Sec. 6.2", 95.0),
    at("Sec. 6.2", 65.0),
    at("Sec. 6.2", 53.0),
    at("Sec. 6.2", 75.0),
    at("Sec. 6.2", 75.0),
];

/// Section 6.2: the share of ODSwap in percent, where the text states it.
pub const ON_DEMAND_SHARES: [Option<Published>; 5] = [
    Some(at("Sec. 6.2", 80.0)),
    None,
    None,
    // "less than 1 %"
    Some(at("Sec. 6.2", 1.0)),
    Some(at("Sec. 6.2", 1.0)),
];

/// Table 2: seconds of one inference of ResNet-152 with batches of 1, 16 and 64; nothing where it does not run.
pub const TABLE_2: [(u64, [Option<f64>; 3]); 5] = [
    (64, [Some(0.024), None, None]),
    (128, [Some(0.022), Some(0.077), None]),
    (192, [Some(0.018), Some(0.044), None]),
    (512, [Some(0.017), Some(0.040), Some(0.238)]),
    (640, [Some(0.017), Some(0.040), Some(0.123)]),
];
