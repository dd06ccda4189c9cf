//! How many bytes an array takes. Drivers do not tell, so this is an estimate from above: the
//! texels in tiles of 64 bytes by 8 rows, as GPUs lay textures, in pages of 64 KiB.

/// What a program says of an array; CUDA_ARRAY3D_DESCRIPTOR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayShape {
    /// Width, height and depth in texels; 0 where there is no such dimension.
    pub extent: [u64; 3],
    /// CUarray_format.
    pub format: u32,
    /// Values per texel.
    pub channels: u32,
    /// CUDA_ARRAY3D_*.
    pub flags: u32,
}

/// CUDA_ARRAY3D_LAYERED: the depth counts layers.
const LAYERED: u32 = 0x01;
/// CUDA_ARRAY3D_SPARSE and CUDA_ARRAY3D_DEFERRED_MAPPING: memory is mapped later, by the program.
const MAPPED_LATER: u32 = 0x40 | 0x80;
/// A tile: bytes of a row, and rows.
const TILE: (u64, u64) = (64, 8);
const PAGE: u64 = 64 << 10;

impl ArrayShape {
    /// Bytes of an array with so many mipmap levels.
    pub fn bytes(&self, levels: u32) -> u64 {
        if self.flags & MAPPED_LATER != 0 {
            return 0;
        }
        let [width, height, depth] = self.extent.map(|side| side.max(1));
        let (block, block_bytes) = self.block();
        // No array has more levels than a side has bits.
        let levels = (0..levels.clamp(1, 64)).map(|level| {
            let at = |side: u64| side.checked_shr(level).unwrap_or(0).max(1);
            let deep = if self.flags & LAYERED == 0 {
                at(depth)
            } else {
                depth
            };
            let row = at(width).div_ceil(block).saturating_mul(block_bytes);
            let rows = at(height).div_ceil(block);
            let tiled = |side: u64, tile: u64| side.checked_next_multiple_of(tile);
            let row = tiled(row, TILE.0).unwrap_or(u64::MAX);
            let rows = match self.extent[1] {
                0 => 1,
                _ => tiled(rows, TILE.1).unwrap_or(u64::MAX),
            };
            row.saturating_mul(rows).saturating_mul(deep)
        });
        let bytes = levels.fold(0, u64::saturating_add);
        bytes.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX)
    }

    /// Texels along a side of the unit of the format, and its bytes (CUarray_format).
    fn block(&self) -> (u64, u64) {
        let channels = u64::from(self.channels.max(1));
        match self.format {
            // 8-bit integers.
            0x01 | 0x08 => (1, channels),
            // 16-bit integers and half precision.
            0x02 | 0x09 | 0x10 => (1, 2 * channels),
            // Normalised 8-bit and 16-bit, whose channels are in the format.
            0xc0..=0xc2 | 0xc6..=0xc8 => (1, 1 << ((self.format - 0xc0) % 3)),
            0xc3..=0xc5 | 0xc9..=0xcb => (1, 2 << ((self.format - 0xc0) % 3)),
            // Block compressed: BC1 and BC4 in 8 bytes for 4 by 4 texels, the others in 16.
            0x91 | 0x92 | 0x97 | 0x98 => (4, 8),
            0x93..=0x96 | 0x99..=0x9e => (4, 16),
            // 32-bit values, and for what is unknown as much.
            _ => (1, 4 * channels),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(extent: [u64; 3], format: u32, channels: u32, flags: u32) -> ArrayShape {
        ArrayShape {
            extent,
            format,
            channels,
            flags,
        }
    }

    #[test]
    fn sizes_cover_the_texels() {
        // 1000 floats in a row; 1024 x 1024 of four bytes; layers do not shrink with levels.
        assert_eq!(shape([1000, 0, 0], 0x20, 1, 0).bytes(1), PAGE);
        assert_eq!(shape([1024, 1024, 0], 0x08, 4, 0).bytes(1), 4 << 20);
        let flat = shape([1024, 1024, 0], 0x20, 1, 0);
        assert_eq!(flat.bytes(2), (4 << 20) + (1 << 20));
        let layers = shape([1024, 1024, 8], 0x20, 1, LAYERED);
        assert_eq!(layers.bytes(2), 8 * flat.bytes(2));
        let solid = shape([1024, 1024, 8], 0x20, 1, 0);
        assert_eq!(solid.bytes(2), (32 << 20) + (4 << 20));
        // 4 by 4 texels in 8 bytes.
        assert_eq!(shape([1024, 1024, 0], 0x91, 4, 0).bytes(1), 512 << 10);
        assert_eq!(shape([1024, 1024, 0], 0xc5, 4, 0).bytes(1), 8 << 20);
    }

    #[test]
    fn nothing_overflows_and_what_is_mapped_later_takes_nothing_now() {
        assert_eq!(shape([u64::MAX; 3], 0x20, 4, 0).bytes(u32::MAX), u64::MAX);
        assert_eq!(shape([4096, 4096, 0], 0x20, 4, 0x40).bytes(1), 0);
    }
}
