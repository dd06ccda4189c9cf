//! The configuration of one GPU's account.

use rtswap_policy::units::Bytes;

/// What stays the same for an account's life. All sizes are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// All memory of the GPU that rtswap may use.
    pub memory: Bytes,
    /// The part of `memory` that is never handed out.
    pub reserve: Bytes,
    /// The swap chunk size δ; unmanaged use is rounded up to whole chunks.
    pub chunk: Bytes,
}

impl Terms {
    /// The largest difference between NVML and another witness that counts as noise, 2 to 512 MiB:
    /// an agent guesses the size of its context, and the driver rounds.
    pub(super) fn tolerance(&self) -> Bytes {
        const LEAST: u64 = 2 << 20;
        const MOST: u64 = 512 << 20;
        Bytes((self.memory.0 / 64).clamp(LEAST, MOST))
    }

    /// The capacity mᴰ where nobody else uses the GPU.
    pub(super) fn capacity(&self) -> Bytes {
        self.memory.saturating_sub(self.reserve)
    }
}
