//! How many bytes an array takes. Drivers do not tell, so this is an estimate from above: the texels in
//! tiles of 64 bytes by 8 rows, as GPUs lay textures, in pages of 64 KiB. The agent's is the same but for mipmap
//! levels, which it sums one by one: the verifier would go through each for each format.

use crate::user::read;

/// CUDA_ARRAY_DESCRIPTOR. In its first form (CUDA_ARRAY_DESCRIPTOR_v1) the sides are of 32 bits.
#[derive(Clone, Copy)]
#[repr(C)]
struct Flat {
    width: u64,
    height: u64,
    format: u32,
    channels: u32,
}

/// CUDA_ARRAY3D_DESCRIPTOR, likewise.
#[derive(Clone, Copy)]
#[repr(C)]
struct Solid {
    width: u64,
    height: u64,
    depth: u64,
    format: u32,
    channels: u32,
    flags: u32,
    padding: u32,
}

/// CUDA_ARRAY3D_SPARSE and CUDA_ARRAY3D_DEFERRED_MAPPING: memory is mapped later, by the program.
const MAPPED_LATER: u32 = 0x40 | 0x80;
/// No side is longer, on any GPU; so the products below fit.
const LONGEST: u64 = 1 << 17;
/// No array has more levels: a side has no more bits.
const LEVELS: u64 = 18;
const PAGE: u64 = 64 << 10;

/// Bytes of the array that a CUDA_ARRAY_DESCRIPTOR at this address describes, or one of the `first` form.
#[inline(always)]
pub fn flat_bytes(at: u64, first: bool) -> Option<u64> {
    let flat = if first {
        let [width, height, format, channels] = read::<[u32; 4]>(at)?;
        Flat {
            width: width.into(),
            height: height.into(),
            format,
            channels,
        }
    } else {
        read::<Flat>(at)?
    };
    let solid = Solid {
        width: flat.width,
        height: flat.height,
        depth: 0,
        format: flat.format,
        channels: flat.channels,
        flags: 0,
        padding: 0,
    };
    Some(bytes(&solid, 1))
}

/// As [`flat_bytes`] of a CUDA_ARRAY3D_DESCRIPTOR, with so many mipmap levels.
#[inline(always)]
pub fn solid_bytes(at: u64, first: bool, levels: u64) -> Option<u64> {
    let solid = if first {
        let [width, height, depth, format, channels, flags] = read::<[u32; 6]>(at)?;
        Solid {
            width: width.into(),
            height: height.into(),
            depth: depth.into(),
            format,
            channels,
            flags,
            padding: 0,
        }
    } else {
        read::<Solid>(at)?
    };
    Some(bytes(&solid, levels))
}

#[inline(always)]
fn bytes(shape: &Solid, levels: u64) -> u64 {
    if shape.flags & MAPPED_LATER != 0 {
        return 0;
    }
    let side = |texels: u64| texels.clamp(1, LONGEST);
    let (block, block_bytes) = block(shape.format, u64::from(shape.channels.clamp(1, 4)));
    let row = ((side(shape.width) + block - 1) >> (block / 2)) * block_bytes;
    let rows = (side(shape.height) + block - 1) >> (block / 2);
    let (row, depth) = ((row + 63) & !63, side(shape.depth));
    let smaller = levels.clamp(1, LEVELS) - 1;
    // Further levels: each a half, or a quarter, of the one before, in whole tiles.
    let all = if shape.height == 0 {
        let first = row.wrapping_mul(depth);
        first + first * u64::from(smaller > 0) + smaller * 64 * depth
    } else {
        let first = row.wrapping_mul((rows + 7) & !7).wrapping_mul(depth);
        first + first / 3 * u64::from(smaller > 0) + smaller * 512 * depth
    };
    (all + PAGE - 1) & !(PAGE - 1)
}

/// Texels along a side of the unit of the format (1 or 4), and its bytes (CUarray_format).
#[inline(always)]
fn block(format: u32, channels: u64) -> (u64, u64) {
    match format {
        // 8-bit integers.
        0x01 | 0x08 => (1, channels),
        // 16-bit integers and half precision.
        0x02 | 0x09 | 0x10 => (1, 2 * channels),
        // Normalised 8-bit and 16-bit, whose channels are in the format.
        0xc0 | 0xc6 => (1, 1),
        0xc1 | 0xc7 | 0xc3 | 0xc9 => (1, 2),
        0xc2 | 0xc8 | 0xc4 | 0xca => (1, 4),
        0xc5 | 0xcb => (1, 8),
        // Block compressed: BC1 and BC4 in 8 bytes for 4 by 4 texels, the others in 16.
        0x91 | 0x92 | 0x97 | 0x98 => (4, 8),
        0x93..=0x96 | 0x99..=0x9e => (4, 16),
        // 32-bit values, and for what is unknown as much.
        _ => (1, 4 * channels),
    }
}
