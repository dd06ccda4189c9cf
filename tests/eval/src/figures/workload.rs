//! The paper's Table III: four models in three resolutions.

use rtswap_policy::assign::Demand;
use rtswap_policy::task::{MemoryProfile, Timing};
use rtswap_policy::units::{Bytes, Nanos};

/// A network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Model {
    /// ResNet.
    ResNet,
    /// YOLOv3.
    YoloV3,
    /// DenseNet.
    DenseNet,
    /// ResNext.
    ResNext,
}

/// The side of its input in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resolution {
    /// 256: the paper's "low".
    Low,
    /// 416.
    Middle,
    /// 608: the paper's "high".
    High,
}

/// How what the paper leaves open is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The "GB" of Table III.
    pub gigabyte: Bytes,
    /// mᴰ: the "24GB" of the GPU.
    pub capacity: Bytes,
}

/// One row of a task set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The network.
    pub model: Model,
    /// Its input.
    pub resolution: Resolution,
    /// T = D.
    pub period: Nanos,
}

impl Model {
    /// In the order of Table III.
    pub const ALL: [Self; 4] = [Self::ResNet, Self::YoloV3, Self::DenseNet, Self::ResNext];

    /// As the paper writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ResNet => "ResNet",
            Self::YoloV3 => "YOLOv3",
            Self::DenseNet => "DenseNet",
            Self::ResNext => "ResNext",
        }
    }

    /// m and mˢ in tenths of a "GB", and C in milliseconds, each by increasing resolution.
    const fn table_3(self) -> [[u64; 3]; 3] {
        match self {
            Self::ResNet => [[14, 24, 38], [7, 14, 27], [29, 36, 48]],
            Self::YoloV3 => [[23, 36, 62], [11, 26, 52], [48, 51, 63]],
            Self::DenseNet => [[10, 16, 27], [4, 9, 18], [31, 34, 42]],
            Self::ResNext => [[16, 32, 57], [10, 22, 45], [41, 45, 63]],
        }
    }
}

impl Resolution {
    /// By increasing size.
    pub const ALL: [Self; 3] = [Self::Low, Self::Middle, Self::High];

    /// Pixels a side.
    pub const fn pixels(self) -> u32 {
        match self {
            Self::Low => 256,
            Self::Middle => 416,
            Self::High => 608,
        }
    }
}

impl Default for Reading {
    /// "GB" is GiB throughout: an RTX 3090 has 24 GiB, and the "2MB" of the driver are 2 MiB.
    fn default() -> Self {
        Self {
            gigabyte: Bytes(1 << 30),
            capacity: Bytes(24 << 30),
        }
    }
}

impl Reading {
    /// So many tenths of a "GB".
    pub const fn tenths(&self, tenths: u64) -> Bytes {
        Bytes(self.gigabyte.0 / 10 * tenths + self.gigabyte.0 % 10 * tenths / 10)
    }

    /// m and mˢ.
    pub fn memory(&self, model: Model, resolution: Resolution) -> MemoryProfile {
        let [footprint, swappable, _] = model.table_3();
        MemoryProfile {
            footprint: self.tenths(footprint[resolution as usize]),
            swappable: self.tenths(swappable[resolution as usize]),
        }
    }
}

impl Work {
    /// m in tenths of a "GB".
    pub const fn tenths(&self) -> u64 {
        self.model.table_3()[0][self.resolution as usize]
    }

    /// C.
    pub const fn wcet(&self) -> Nanos {
        Nanos(self.model.table_3()[2][self.resolution as usize] * 1_000_000)
    }

    /// T, D and C.
    pub const fn timing(&self) -> Timing {
        Timing {
            period: self.period,
            deadline: self.period,
            wcet: self.wcet(),
        }
    }

    /// As a task that is to be given a swap volume.
    pub fn demand(&self, reading: &Reading) -> Demand {
        Demand {
            timing: self.timing(),
            memory: reading.memory(self.model, self.resolution),
        }
    }

    /// Model and resolution.
    pub fn name(&self) -> String {
        format!("{} {}", self.model.name(), self.resolution.pixels())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn high_resolution_takes_about_three_times_the_memory_of_low() {
        // Section VII-B: "2.9x more memory on average".
        let sum = |resolution: Resolution| -> u64 {
            Model::ALL
                .iter()
                .map(|model| model.table_3()[0][resolution as usize])
                .sum()
        };
        let ratio = sum(Resolution::High) as f64 / sum(Resolution::Low) as f64;
        assert!((ratio - 2.9).abs() < 0.05, "{ratio}");
    }

    #[test]
    fn what_can_be_swapped_is_less_than_the_footprint() {
        let reading = Reading::default();
        for model in Model::ALL {
            for resolution in Resolution::ALL {
                let memory = reading.memory(model, resolution);
                assert!(memory.swappable < memory.footprint);
            }
        }
        assert_eq!(reading.tenths(240), reading.capacity);
    }
}
