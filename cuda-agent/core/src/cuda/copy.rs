//! Copies as C describes them, with a number for the kind of memory: cudarc's enum has no value for a
//! number that it does not list, and a program may pass any.

use crate::mapped::End;

/// One end of a CUDA_MEMCPY2D.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct End2D {
    /// The first byte of its rows.
    pub x: usize,
    /// Its first row.
    pub y: usize,
    /// The kind of memory, a CUmemorytype.
    pub kind: u32,
    /// Of memory of the host.
    pub host: usize,
    /// Of memory of a GPU.
    pub device: u64,
    /// A CUarray.
    pub array: usize,
    /// Bytes from row to row.
    pub pitch: usize,
}

/// A CUDA_MEMCPY2D.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Memcpy2D {
    /// The source.
    pub src: End2D,
    /// The destination.
    pub dst: End2D,
    /// Bytes of a row.
    pub width: usize,
    /// The number of rows.
    pub height: usize,
}

impl Memcpy2D {
    /// The kinds and the addresses of both ends.
    #[inline]
    pub fn ends(&self) -> [End; 2] {
        [&self.src, &self.dst].map(|end| (end.kind, end.device))
    }
}

/// One end of a CUDA_MEMCPY3D, or of a CUDA_MEMCPY3D_PEER, which has a context where the other has a
/// reserved word.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct End3D {
    /// The first byte of its rows.
    pub x: usize,
    /// Its first row.
    pub y: usize,
    /// Its first slice.
    pub z: usize,
    /// Of a mipmapped array.
    pub level: usize,
    /// The kind of memory, a CUmemorytype.
    pub kind: u32,
    /// Of memory of the host.
    pub host: usize,
    /// Of memory of a GPU.
    pub device: u64,
    /// A CUarray.
    pub array: usize,
    /// A CUcontext, or reserved.
    pub context: usize,
    /// Bytes from row to row.
    pub pitch: usize,
    /// Rows from slice to slice.
    pub height: usize,
}

/// A CUDA_MEMCPY3D.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Memcpy3D {
    /// The source.
    pub src: End3D,
    /// The destination.
    pub dst: End3D,
    /// Bytes of a row.
    pub width: usize,
    /// The number of rows.
    pub height: usize,
    /// Slices.
    pub depth: usize,
}

impl Memcpy3D {
    /// The kinds and the addresses of both ends.
    #[inline]
    pub fn ends(&self) -> [End; 2] {
        [&self.src, &self.dst].map(|end| (end.kind, end.device))
    }
}

/// A CUDA_MEMCPY3D_PEER, of the same layout.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Memcpy3DPeer(pub Memcpy3D);

const _: () = {
    use core::mem::offset_of;
    use cudarc::driver::sys::{CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER};

    assert!(size_of::<Memcpy2D>() == size_of::<CUDA_MEMCPY2D>());
    assert!(offset_of!(Memcpy2D, src.kind) == offset_of!(CUDA_MEMCPY2D, srcMemoryType));
    assert!(offset_of!(Memcpy2D, dst.device) == offset_of!(CUDA_MEMCPY2D, dstDevice));
    assert!(offset_of!(Memcpy2D, height) == offset_of!(CUDA_MEMCPY2D, Height));
    assert!(size_of::<Memcpy3D>() == size_of::<CUDA_MEMCPY3D>());
    assert!(size_of::<Memcpy3D>() == size_of::<CUDA_MEMCPY3D_PEER>());
    assert!(offset_of!(Memcpy3D, dst.kind) == offset_of!(CUDA_MEMCPY3D, dstMemoryType));
    assert!(offset_of!(Memcpy3D, dst.device) == offset_of!(CUDA_MEMCPY3D, dstDevice));
    assert!(offset_of!(Memcpy3D, src.context) == offset_of!(CUDA_MEMCPY3D_PEER, srcContext));
    assert!(offset_of!(Memcpy3D, dst.context) == offset_of!(CUDA_MEMCPY3D_PEER, dstContext));
    assert!(offset_of!(Memcpy3D, depth) == offset_of!(CUDA_MEMCPY3D, Depth));
};
