//! cuDeviceGetAttribute: an RTX 3090's answers where they describe silicon,
//! this machine's where they describe what works.

use crate::config::GpuConfig;

/// Compute capability.
pub const COMPUTE_CAPABILITY: (i32, i32) = (8, 6);
/// The most threads of a block.
pub const MAX_BLOCK_THREADS: u32 = 1024;
/// The most threads of a block in x, y and z.
pub const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
/// The most blocks of a grid in x, y and z.
pub const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];
/// The last attribute of CUDA 13, CU_DEVICE_ATTRIBUTE_MAX less one.
const LAST: i32 = 150;
/// PCI bus in slot 0; the others follow. Domain, device and function are 0.
const FIRST_BUS: i32 = 1;

/// The attribute with this number in cuda.h; none beyond the last known one.
#[allow(clippy::match_same_arms, reason = "a table, in the order of cuda.h")]
pub fn attribute(gpu: &GpuConfig, slot: i32, number: i32) -> Option<i32> {
    let bandwidth = gpu.compute_gib_per_s * f64::from(1 << 30);
    Some(match number {
        1 => MAX_BLOCK_THREADS.cast_signed(),
        2..=4 => MAX_BLOCK[number as usize - 2].cast_signed(),
        5..=7 => MAX_GRID[number as usize - 5].cast_signed(),
        // Shared memory per block; constant memory; warp; pitch; registers.
        8 => 49_152,
        9 => 65_536,
        10 => 32,
        11 => i32::MAX,
        12 => 65_536,
        // Clock (kHz), texture alignment, overlap of copies, multiprocessors.
        13 => 1_695_000,
        14 => 512,
        15 => 1,
        16 => 82,
        // Stream memory operations, cooperative launches.
        92..=95 | 122 | 123 => 1,
        18 => i32::from(gpu.integrated),
        // Mapped host memory; concurrent kernels, surface alignment.
        19 => 1,
        30 => 512,
        31 => 1,
        33 => FIRST_BUS + slot,
        // Memory clock (kHz) and bus width (bits) that give the modelled rate.
        36 => (bandwidth * 8.0 / 2.0 / 384.0 / 1e3) as i32,
        37 => 384,
        38 => 6 << 20,
        39 => 1536,
        // Two copy engines; unified addressing.
        40 => 2,
        41 => 1,
        51 => 32,
        75 => COMPUTE_CAPABILITY.0,
        76 => COMPUTE_CAPABILITY.1,
        // Stream priorities; caches; shared memory and registers per multiprocessor.
        78..=80 => 1,
        81 => 102_400,
        82 => 65_536,
        // Managed memory, with host and device at once.
        83 | 89 => 1,
        85 => slot,
        87 => 32,
        // Host pointers of registered memory are device pointers; opt-in shared
        // memory; registering host memory; virtual memory management.
        91 => 1,
        97 => 101_376,
        102 => i32::from(gpu.virtual_memory),
        99 | 103 => 1,
        106 => 16,
        111 => 1024,
        // Pools; what their memory could be shared by: descriptors.
        115 | 119 => 1,
        // Events of other processes.
        125 => 1,
        // No textures, surfaces, fabrics, multicast; nothing of what came with CUDA 12.8 and 13.
        0 | 17..=LAST => 0,
        _ => return None,
    })
}

/// PCI address as cuDeviceGetPCIBusId writes it.
pub fn pci_bus_id(slot: i32) -> String {
    format!("0000:{:02x}:00.0", FIRST_BUS + slot)
}
