//! Copies with attributes and in batches, and what moves or awaits the memory of others in a
//! stream's order: managed memory, graphics, external semaphores.

use core::ffi::{c_int, c_uint, c_ulonglong, c_void};

use rtswap_agent_core::cuda::{CUdeviceptr, CUstream};

use super::hooks;

hooks! {
    gated: cuMemcpyBatchAsync, cuMemcpyBatchAsync_ptsz (
        to: *mut CUdeviceptr, from: *mut CUdeviceptr, bytes: *mut usize, count: usize,
        attributes: *mut c_void, indices: *mut usize, attribute_count: usize, failed: *mut usize,
        stream: CUstream);
    gated: cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync_v2_ptsz (
        to: *mut CUdeviceptr, from: *mut CUdeviceptr, bytes: *mut usize, count: usize,
        attributes: *mut c_void, indices: *mut usize, attribute_count: usize, stream: CUstream);
    gated: cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync_ptsz (
        count: usize, list: *mut c_void, failed: *mut usize, flags: c_ulonglong, stream: CUstream);
    gated: cuMemcpy3DBatchAsync_v2, cuMemcpy3DBatchAsync_v2_ptsz (
        count: usize, list: *mut c_void, flags: c_ulonglong, stream: CUstream);
    gated: cuMemcpyWithAttributesAsync, cuMemcpyWithAttributesAsync_ptsz (
        to: CUdeviceptr, from: CUdeviceptr, bytes: usize, attributes: *mut c_void,
        stream: CUstream) writes (to, bytes);
    gated: cuMemcpy3DWithAttributesAsync, cuMemcpy3DWithAttributesAsync_ptsz (
        copy: *mut c_void, flags: c_ulonglong, stream: CUstream);
    gated: cuMemBatchDecompressAsync, cuMemBatchDecompressAsync_ptsz (
        list: *mut c_void, count: usize, flags: c_uint, failed: *mut usize, stream: CUstream);
    gated: cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz (
        at: CUdeviceptr, bytes: usize, device: c_int, stream: CUstream);
    // A CUmemLocation of eight bytes, which is passed as a number is.
    gated: cuMemPrefetchAsync_v2, cuMemPrefetchAsync_v2_ptsz (
        at: CUdeviceptr, bytes: usize, location: u64, flags: c_uint, stream: CUstream);
    gated: cuMemPrefetchBatchAsync, cuMemPrefetchBatchAsync_ptsz,
        cuMemDiscardAndPrefetchBatchAsync, cuMemDiscardAndPrefetchBatchAsync_ptsz (
        at: *mut CUdeviceptr, bytes: *mut usize, count: usize, locations: *mut c_void,
        indices: *mut usize, location_count: usize, flags: c_ulonglong, stream: CUstream);
    gated: cuMemDiscardBatchAsync, cuMemDiscardBatchAsync_ptsz (
        at: *mut CUdeviceptr, bytes: *mut usize, count: usize, flags: c_ulonglong,
        stream: CUstream);
    // What its operands name on other machines is not ours to keep.
    gated: cuFabricCpyBatchAsync, cuFabricCpyBatchAsync_ptsz (
        count: usize, list: *mut c_void, flags: c_ulonglong, stream: CUstream);
    gated: cuStreamAttachMemAsync, cuStreamAttachMemAsync_ptsz (
        stream: CUstream, at: CUdeviceptr, bytes: usize, flags: c_uint);
    gated: cuSignalExternalSemaphoresAsync, cuSignalExternalSemaphoresAsync_ptsz,
        cuWaitExternalSemaphoresAsync, cuWaitExternalSemaphoresAsync_ptsz (
        semaphores: *const c_void, params: *const c_void, count: c_uint, stream: CUstream);
    gated: cuGraphicsMapResources, cuGraphicsMapResources_ptsz, cuGraphicsUnmapResources,
        cuGraphicsUnmapResources_ptsz (
        count: c_uint, resources: *mut c_void, stream: CUstream);
}
