//! Copies and sets. Those of the per-thread kind end in `_ptds` or `_ptsz`.

use core::ffi::{c_uchar, c_uint, c_ushort, c_void};

use rtswap_agent_core::cuda::{CUcontext, CUdeviceptr, CUstream, Memcpy2D, Memcpy3D, Memcpy3DPeer};

use super::hooks;

hooks! {
    gated: cuMemcpy, cuMemcpy_ptds, cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds (
        to: CUdeviceptr, from: CUdeviceptr, bytes: usize) writes (to, bytes);
    gated: cuMemcpyAsync, cuMemcpyAsync_ptsz, cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz (
        to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream) writes (to, bytes);
    gated: cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds (
        to: CUdeviceptr, from: *const c_void, bytes: usize) writes (to, bytes);
    gated: cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz (
        to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream) writes (to, bytes);
    gated: cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds (
        to: *mut c_void, from: CUdeviceptr, bytes: usize) writes (to, bytes);
    gated: cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz (
        to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream) writes (to, bytes);
    gated: cuMemcpyPeer, cuMemcpyPeer_ptds (
        to: CUdeviceptr, to_context: CUcontext, from: CUdeviceptr, from_context: CUcontext,
        bytes: usize) writes (to, bytes);
    gated: cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz (
        to: CUdeviceptr, to_context: CUcontext, from: CUdeviceptr, from_context: CUcontext,
        bytes: usize, stream: CUstream) writes (to, bytes);
    gated: cuMemcpyDtoA_v2, cuMemcpyDtoA_v2_ptds (
        to: *mut c_void, offset: usize, from: CUdeviceptr, bytes: usize) writes ();
    gated: cuMemcpyAtoD_v2, cuMemcpyAtoD_v2_ptds (
        to: CUdeviceptr, from: *mut c_void, offset: usize, bytes: usize) writes (to, bytes);
    gated: cuMemcpyHtoA_v2, cuMemcpyHtoA_v2_ptds (
        to: *mut c_void, offset: usize, from: *const c_void, bytes: usize) writes ();
    gated: cuMemcpyAtoH_v2, cuMemcpyAtoH_v2_ptds (
        to: *mut c_void, from: *mut c_void, offset: usize, bytes: usize) writes (to, bytes);
    gated: cuMemcpyAtoA_v2, cuMemcpyAtoA_v2_ptds (
        to: *mut c_void, to_offset: usize, from: *mut c_void, from_offset: usize, bytes: usize)
        writes ();
    gated: cuMemcpyHtoAAsync_v2, cuMemcpyHtoAAsync_v2_ptsz (
        to: *mut c_void, offset: usize, from: *const c_void, bytes: usize, stream: CUstream)
        writes ();
    gated: cuMemcpyAtoHAsync_v2, cuMemcpyAtoHAsync_v2_ptsz (
        to: *mut c_void, from: *mut c_void, offset: usize, bytes: usize, stream: CUstream)
        writes (to, bytes);
    gated: cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds (
        copy: *const Memcpy2D) writes copy;
    gated: cuMemcpy3D_v2, cuMemcpy3D_v2_ptds (copy: *const Memcpy3D) writes copy;
    gated: cuMemcpy3DPeer, cuMemcpy3DPeer_ptds (copy: *const Memcpy3DPeer) writes copy;
    gated: cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz (
        copy: *const Memcpy2D, stream: CUstream) writes copy;
    gated: cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz (
        copy: *const Memcpy3D, stream: CUstream) writes copy;
    gated: cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz (
        copy: *const Memcpy3DPeer, stream: CUstream) writes copy;
    gated: cuMemsetD8_v2, cuMemsetD8_v2_ptds (at: CUdeviceptr, value: c_uchar, count: usize)
        writes (at, count, 1);
    gated: cuMemsetD16_v2, cuMemsetD16_v2_ptds (at: CUdeviceptr, value: c_ushort, count: usize)
        writes (at, count, 2);
    gated: cuMemsetD32_v2, cuMemsetD32_v2_ptds (at: CUdeviceptr, value: c_uint, count: usize)
        writes (at, count, 4);
    gated: cuMemsetD8Async, cuMemsetD8Async_ptsz (
        at: CUdeviceptr, value: c_uchar, count: usize, stream: CUstream) writes (at, count, 1);
    gated: cuMemsetD16Async, cuMemsetD16Async_ptsz (
        at: CUdeviceptr, value: c_ushort, count: usize, stream: CUstream) writes (at, count, 2);
    gated: cuMemsetD32Async, cuMemsetD32Async_ptsz (
        at: CUdeviceptr, value: c_uint, count: usize, stream: CUstream) writes (at, count, 4);
    gated: cuMemsetD2D8_v2, cuMemsetD2D8_v2_ptds (
        at: CUdeviceptr, pitch: usize, value: c_uchar, width: usize, height: usize)
        writes (at, pitch, width, 1, height);
    gated: cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds (
        at: CUdeviceptr, pitch: usize, value: c_ushort, width: usize, height: usize)
        writes (at, pitch, width, 2, height);
    gated: cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds (
        at: CUdeviceptr, pitch: usize, value: c_uint, width: usize, height: usize)
        writes (at, pitch, width, 4, height);
    gated: cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz (
        at: CUdeviceptr, pitch: usize, value: c_uchar, width: usize, height: usize,
        stream: CUstream) writes (at, pitch, width, 1, height);
    gated: cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz (
        at: CUdeviceptr, pitch: usize, value: c_ushort, width: usize, height: usize,
        stream: CUstream) writes (at, pitch, width, 2, height);
    gated: cuMemsetD2D32Async, cuMemsetD2D32Async_ptsz (
        at: CUdeviceptr, pitch: usize, value: c_uint, width: usize, height: usize,
        stream: CUstream) writes (at, pitch, width, 4, height);
}
