//! The driver's calls for virtual memory: addresses, and memory that is mapped there.

use std::ptr;

use cudarc::driver::sys;

use crate::failure::{Doing, Failure};
use crate::gpu::Gpu;

/// The sizes that a GPU can map are multiples of this, in bytes.
pub(crate) fn granularity(gpu: &Gpu) -> Result<u64, Failure> {
    let properties = properties(gpu);
    let mut granularity = 0;
    let least = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
    // SAFETY: both outlive the call, which writes the first.
    let asked = unsafe {
        sys::cuMemGetAllocationGranularity(&raw mut granularity, &raw const properties, least)
    };
    asked
        .result()
        .doing(|| "asking for the granularity of memory".into())?;
    Ok(granularity as u64)
}

/// Addresses for one chunk, which nothing reads or writes.
pub(crate) struct Range<'gpu> {
    gpu: &'gpu Gpu,
    address: sys::CUdeviceptr,
    bytes: usize,
}

/// Memory for one chunk.
pub(crate) struct Chunk(sys::CUmemGenericAllocationHandle);

impl<'gpu> Range<'gpu> {
    /// Addresses for a chunk of so many bytes, a multiple of the granularity.
    pub(crate) fn reserve(gpu: &'gpu Gpu, bytes: u64) -> Result<Self, Failure> {
        let bytes = bytes as usize;
        let mut address = 0;
        // SAFETY: `address` outlives the call, which writes it.
        unsafe { sys::cuMemAddressReserve(&raw mut address, bytes, 0, 0, 0) }
            .result()
            .doing(|| format!("reserving {bytes} bytes of addresses"))?;
        Ok(Self {
            gpu,
            address,
            bytes,
        })
    }

    /// Memory for the chunk, by cuMemCreate.
    pub(crate) fn create(&self) -> Result<Chunk, Failure> {
        let properties = properties(self.gpu);
        let mut handle = 0;
        // SAFETY: both outlive the call, which writes the first.
        unsafe { sys::cuMemCreate(&raw mut handle, self.bytes, &raw const properties, 0) }
            .result()
            .doing(|| format!("creating a chunk of {} bytes", self.bytes))?;
        Ok(Chunk(handle))
    }

    /// Puts a chunk at these addresses, by cuMemMap.
    pub(crate) fn map(&self, chunk: &Chunk) -> Result<(), Failure> {
        // SAFETY: the addresses are this object's own, and the handle lives.
        let mapped = unsafe { sys::cuMemMap(self.address, self.bytes, 0, chunk.0, 0) };
        mapped.result().doing(|| "mapping a chunk".into())
    }

    /// Lets the GPU read and write what is mapped, by cuMemSetAccess.
    pub(crate) fn set_access(&self) -> Result<(), Failure> {
        let access = sys::CUmemAccessDesc {
            location: properties(self.gpu).location,
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the addresses are this object's own, and `access` outlives the call.
        let set = unsafe { sys::cuMemSetAccess(self.address, self.bytes, &raw const access, 1) };
        set.result().doing(|| "giving access to a chunk".into())
    }

    /// Takes away what is mapped, by cuMemUnmap.
    pub(crate) fn unmap(&self) -> Result<(), Failure> {
        // SAFETY: the addresses are this object's own, and nothing uses what is mapped there.
        let unmapped = unsafe { sys::cuMemUnmap(self.address, self.bytes) };
        unmapped.result().doing(|| "unmapping a chunk".into())
    }
}

impl Drop for Range<'_> {
    fn drop(&mut self) {
        // The process is at its end: a failure here has nobody left to tell.
        // SAFETY: the addresses are this object's own, and are freed once.
        let _ = unsafe { sys::cuMemAddressFree(self.address, self.bytes) };
    }
}

impl Chunk {
    /// Gives the memory back, by cuMemRelease. What is still mapped stays until it is unmapped.
    pub(crate) fn release(self) -> Result<(), Failure> {
        // SAFETY: the handle comes from cuMemCreate and is released once.
        let released = unsafe { sys::cuMemRelease(self.0) };
        released.result().doing(|| "releasing a chunk".into())
    }
}

/// Memory of this GPU that is shared with nobody.
fn properties(gpu: &Gpu) -> sys::CUmemAllocationProp {
    sys::CUmemAllocationProp {
        type_: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
        location: sys::CUmemLocation {
            type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: gpu.device(),
        },
        win32HandleMetaData: ptr::null_mut(),
        allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: 0,
            usage: 0,
            reserved: [0; 4],
        },
    }
}
