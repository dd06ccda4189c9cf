//! What the paper published.

/// A method's ratios: memory saved, extra time, and the one over the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratios {
    /// MSR.
    pub saved: f64,
    /// EOR.
    pub extra: f64,
    /// CBR.
    pub benefit: f64,
}

const fn ratios(saved: f64, extra: f64, benefit: f64) -> Ratios {
    Ratios {
        saved,
        extra,
        benefit,
    }
}

/// Table 1, VGG: vDNN, Capuchin and TENSILE. The text names five workloads, and the table has this one.
pub const TABLE_1: [Ratios; 3] = [
    ratios(0.2733, 0.8580, 0.3185),
    ratios(0.1003, 0.8971, 0.1118),
    ratios(0.2241, 0.0971, 2.3006),
];

/// Table 2: one, two and three VGG, each by vDNN, Capuchin and TENSILE.
pub const TABLE_2: [[Ratios; 3]; 3] = [
    [
        ratios(0.2822, 0.8507, 0.3317),
        ratios(0.1003, 0.8921, 0.1124),
        ratios(0.2001, 0.0838, 2.5112),
    ],
    [
        ratios(0.2368, 0.9103, 0.2602),
        ratios(0.0056, 0.9208, 0.006),
        ratios(0.2295, 0.1016, 3.2256),
    ],
    [
        ratios(0.2613, 0.9202, 0.2840),
        ratios(0.1109, 0.9215, 0.1204),
        ratios(0.2767, 0.2793, 1.0478),
    ],
];
