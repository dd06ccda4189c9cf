//! Copies and sets as they were before CUDA 3.2, with addresses and sizes of 32 bits. The memory is
//! never ours, but the work waits at the gate as any other.

use core::ffi::{c_uchar, c_uint, c_ushort, c_void};

use rtswap_agent_core::cuda::CUstream;

use super::hooks;

hooks! {
    gated: cuMemcpyHtoD (to: c_uint, from: *const c_void, bytes: c_uint);
    gated: cuMemcpyDtoH (to: *mut c_void, from: c_uint, bytes: c_uint);
    gated: cuMemcpyDtoD (to: c_uint, from: c_uint, bytes: c_uint);
    gated: cuMemcpyDtoA (to: *mut c_void, offset: c_uint, from: c_uint, bytes: c_uint);
    gated: cuMemcpyAtoD (to: c_uint, from: *mut c_void, offset: c_uint, bytes: c_uint);
    gated: cuMemcpyHtoA (to: *mut c_void, offset: c_uint, from: *const c_void, bytes: c_uint);
    gated: cuMemcpyAtoH (to: *mut c_void, from: *mut c_void, offset: c_uint, bytes: c_uint);
    gated: cuMemcpyAtoA (
        to: *mut c_void, to_offset: c_uint, from: *mut c_void, from_offset: c_uint, bytes: c_uint);
    gated: cuMemcpyHtoDAsync (
        to: c_uint, from: *const c_void, bytes: c_uint, stream: CUstream);
    gated: cuMemcpyDtoHAsync (to: *mut c_void, from: c_uint, bytes: c_uint, stream: CUstream);
    gated: cuMemcpyDtoDAsync (to: c_uint, from: c_uint, bytes: c_uint, stream: CUstream);
    gated: cuMemcpyHtoAAsync (
        to: *mut c_void, offset: c_uint, from: *const c_void, bytes: c_uint, stream: CUstream);
    gated: cuMemcpyAtoHAsync (
        to: *mut c_void, from: *mut c_void, offset: c_uint, bytes: c_uint, stream: CUstream);
    gated: cuMemcpy2D, cuMemcpy2DUnaligned, cuMemcpy3D (copy: *const c_void);
    gated: cuMemcpy2DAsync, cuMemcpy3DAsync (copy: *const c_void, stream: CUstream);
    gated: cuMemsetD8 (to: c_uint, value: c_uchar, count: c_uint);
    gated: cuMemsetD16 (to: c_uint, value: c_ushort, count: c_uint);
    gated: cuMemsetD32 (to: c_uint, value: c_uint, count: c_uint);
    gated: cuMemsetD2D8 (
        to: c_uint, pitch: c_uint, value: c_uchar, width: c_uint, height: c_uint);
    gated: cuMemsetD2D16 (
        to: c_uint, pitch: c_uint, value: c_ushort, width: c_uint, height: c_uint);
    gated: cuMemsetD2D32 (
        to: c_uint, pitch: c_uint, value: c_uint, width: c_uint, height: c_uint);
}
