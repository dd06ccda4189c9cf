//! Launches: kernels, and memory operations in stream order.

use core::ffi::{c_int, c_uint, c_void};

use rtswap_agent_core::cuda::{CUDA_LAUNCH_PARAMS, CUdeviceptr, CUlaunchConfig, CUstream};

use super::hooks;

hooks! {
    gated: cuLaunch (function: *mut c_void) writes ();
    gated: cuLaunchGrid (function: *mut c_void, width: c_int, height: c_int) writes ();
    gated: cuLaunchGridAsync (
        function: *mut c_void, width: c_int, height: c_int, stream: CUstream) writes ();
    gated: cuLaunchKernel, cuLaunchKernel_ptsz (
        function: *mut c_void, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint,
        block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream,
        params: *mut *mut c_void, extra: *mut *mut c_void) writes ();
    gated: cuLaunchKernelEx, cuLaunchKernelEx_ptsz (
        config: *const CUlaunchConfig, function: *mut c_void, params: *mut *mut c_void,
        extra: *mut *mut c_void) writes ();
    gated: cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz (
        function: *mut c_void, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint,
        block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream,
        params: *mut *mut c_void) writes ();
    gated: cuLaunchCooperativeKernelMultiDevice (
        list: *mut CUDA_LAUNCH_PARAMS, count: c_uint, flags: c_uint) writes ();
    gated: cuStreamWaitValue32, cuStreamWaitValue32_ptsz, cuStreamWaitValue32_v2,
        cuStreamWaitValue32_v2_ptsz, cuStreamWriteValue32, cuStreamWriteValue32_ptsz,
        cuStreamWriteValue32_v2, cuStreamWriteValue32_v2_ptsz (
        stream: CUstream, at: CUdeviceptr, value: u32, flags: c_uint);
    gated: cuStreamWaitValue64, cuStreamWaitValue64_ptsz, cuStreamWaitValue64_v2,
        cuStreamWaitValue64_v2_ptsz, cuStreamWriteValue64, cuStreamWriteValue64_ptsz,
        cuStreamWriteValue64_v2, cuStreamWriteValue64_v2_ptsz (
        stream: CUstream, at: CUdeviceptr, value: u64, flags: c_uint);
    gated: cuStreamBatchMemOp, cuStreamBatchMemOp_ptsz, cuStreamBatchMemOp_v2,
        cuStreamBatchMemOp_v2_ptsz (
        stream: CUstream, count: c_uint, ops: *mut c_void, flags: c_uint);
}
