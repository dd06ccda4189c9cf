//! How long an operator takes on a GPU that nobody measured it on.

/// Which of a GPU's limits an operator's arithmetic meets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arithmetic {
    /// Each value that is read is used often enough: matrix products, dense convolutions, and all that moves bytes only.
    #[default]
    Dense,
    /// A convolution of each channel by itself: kernels for it reach a small part of what dense ones do.
    Depthwise,
}

/// The roofline model (Williams, Waterman and Patterson, CACM 2009) with a fixed time for each launch: an operator takes the
/// longer of its arithmetic and its memory traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roofline {
    /// Floating-point operations per second of dense arithmetic.
    pub dense: f64,
    /// Floating-point operations per second of depthwise convolutions.
    pub depthwise: f64,
    /// Bytes per second from and to GPU memory.
    pub bandwidth: f64,
    /// Nanoseconds that each operator takes beside its work.
    pub launch_ns: f64,
}

impl Roofline {
    /// NVIDIA's V100 SXM2 with 16 GB, in 32-bit floating point under MXNet 1.2.
    ///
    /// The data sheet gives 15.7 TFLOP/s and 900 GB/s. `dense` is 1.1 times the former, because cuDNN's Winograd kernels do
    /// 3×3 convolutions with fewer multiplications than are counted; with that and 28 µs per operator, inference of
    /// ResNet-152 takes what SwapAdvisor's Table 2 says for batches of 1, 16 and 64, within 10 %.
    ///
    /// `depthwise` is what MobileNets leave for it: MXNet's own kernels train MobileNet v1 at 163 images/s on a Titan X
    /// (apache/mxnet pull request 7393), cuDNN 7 trains v2 at 135 images/s on an M40 (pull request 11076). Less all other
    /// operators by this roofline, and scaled by memory bandwidth to a V100, depthwise convolutions reach 56 and 64
    /// GFLOP/s.
    pub const V100: Self = Self {
        dense: 17.3e12,
        depthwise: 60e9,
        bandwidth: 900e9,
        launch_ns: 28_000.0,
    };

    /// A GPU on which all arithmetic, all memory traffic and each launch is `factor` times as fast.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            dense: self.dense * factor,
            depthwise: self.depthwise * factor,
            bandwidth: self.bandwidth * factor,
            launch_ns: self.launch_ns / factor,
        }
    }

    /// How long an operator with so many floating-point operations and bytes of traffic takes, in nanoseconds.
    pub fn time_ns(&self, arithmetic: Arithmetic, flops: u64, bytes: u64) -> u64 {
        let rate = match arithmetic {
            Arithmetic::Dense => self.dense,
            Arithmetic::Depthwise => self.depthwise,
        };
        let work = (flops as f64 / rate).max(bytes as f64 / self.bandwidth);
        // A cast from f64 saturates.
        (self.launch_ns + work * 1e9 + 0.5) as u64
    }
}
