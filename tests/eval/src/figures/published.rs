//! Every number that the paper's text states about its evaluation, with the place. What it only
//! draws is not here.

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// The number.
    pub value: f64,
    /// Where in the paper.
    pub source: &'static str,
}

pub(crate) const fn at(source: &'static str, value: f64) -> Published {
    Published { value, source }
}

/// Fig. 4(b): 300 MB out in ms at this δ in MB, with pinned memory that is kept.
pub const OUT_BY_CHUNK: [(u64, Published); 3] = [
    (2, at("Fig. 4(b), Sec. IV-A", 35.3)),
    (64, at("Fig. 4, Sec. IV-A", 26.2)),
    (256, at("Fig. 4(b), Sec. IV-A", 41.6)),
];
/// Fig. 4(a): 300 MB in, in ms, at δ = 64 MB.
pub const IN_64: Published = at("Fig. 4(a), Sec. IV-A", 28.3);
/// Fig. 4(a): the same out with pageable memory.
pub const PAGEABLE_OUT_64: Published = at("Fig. 4(a), Sec. IV-A", 192.6);
/// Fig. 4(a): the same in with pageable memory.
pub const PAGEABLE_IN_64: Published = at("Fig. 4(a), Sec. IV-A", 93.9);

/// Table II: what ResNet, DenseNet, ResNext and YOLOv3 take with an allocation per object, in GB.
pub const PER_OBJECT_GB: [Published; 4] = [
    at("Table II", 3.5),
    at("Table II", 4.0),
    at("Table II", 4.2),
    at("Table II", 3.5),
];
/// Table II: what packing into chunks wastes, in GB.
pub const PACKED_WASTE_GB: [Published; 4] = [
    at("Table II", 0.000),
    at("Table II", 0.001),
    at("Table II", 0.000),
    at("Table II", 0.001),
];

/// Fig. 7(a): sets admitted by RT-Swap over those of MIN, MO-VMM, Pageable and Base.
pub const RATIOS: [Published; 4] = [
    at("Sec. VII-B: 72% more", 1.72),
    at("Sec. VII-B: 139% more", 2.39),
    at("Sec. VII-B: 221% more", 3.21),
    at("Sec. VII-B: 383% more", 4.83),
];
/// Fig. 7(a): the mean overflow in GB of the sets of this many tasks.
pub const OVERFLOW_GB: [(usize, Published); 3] = [
    (4, at("Sec. VII-B", 0.0)),
    (12, at("Sec. VII-B", 23.1)),
    (13, at("Sec. VII-B", 25.9)),
];
/// Fig. 7(b): the mean reduction that RT-Swap sustains, in percent.
pub const SUSTAINED: Published = at("Sec. VII-B", 36.5);
/// Fig. 7(b): the same for the others.
pub const SUSTAINED_OTHERS: Published = at("Sec. VII-B", 5.2);
/// Fig. 7(c): the mean share of tasks in high resolution under RT-Swap, in percent.
pub const ENABLED: Published = at("Sec. VII-B", 70.5);
/// Fig. 7(c): the same for the others.
pub const ENABLED_OTHERS: Published = at("Sec. VII-B", 29.4);

/// Table IV: the swap volumes of the six tasks in MB, at δ = 32 MB.
pub const VOLUMES_MB: [Published; 6] = [
    at("Sec. VII-C", 0.0),
    at("Sec. VII-C", 0.0),
    at("Table IV", 576.0),
    at("Table IV", 576.0),
    at("Table IV", 576.0),
    at("Table IV", 576.0),
];
/// Section VII-C: the footprint of the six tasks in GB.
pub const CASE_FOOTPRINT_GB: Published = at("Sec. VII-C", 25.6);
/// Section VII-C: the worst latency of τ1 and of τ3 under RT-Swap, in ms.
pub const LATENCY_MS: [(usize, Published); 2] =
    [(0, at("Sec. VII-C", 33.0)), (2, at("Sec. VII-C", 184.0))];
/// Section VII-C: the same under Base.
pub const BASE_LATENCY_MS: [(usize, Published); 2] =
    [(0, at("Sec. VII-C", 383.0)), (2, at("Sec. VII-C", 2_172.0))];
/// Section VII-C: the longest response under Base, in ms.
pub const BASE_RESPONSE_MS: Published = at("Sec. VII-C", 4_438.0);
/// Section VII-C: by what RT-Swap shortens the longest responses on average.
pub const RESPONSE_REDUCTION: Published = at("Sec. VII-C", 14.0);
