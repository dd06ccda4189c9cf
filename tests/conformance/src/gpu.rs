//! A GPU with its context, and memory that cases make on it.

use std::ffi::{CString, c_int, c_uint, c_void};
use std::fmt::Write as _;
use std::ptr;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use cudarc::driver::sys::{
    CUcontext, CUdeviceptr, CUfunction, CUmemAccess_flags, CUmemAccessDesc,
    CUmemAllocationHandleType, CUmemAllocationProp, CUmemAllocationType, CUmemLocation,
    CUmemLocationType, CUmodule,
};

use crate::cuda::{Event, Handle, Stream};
use crate::{ask, expect};

/// The workload's kernels, which the simulated GPU computes too.
const PTX: &str = include_str!("../../../demo/dnn/src/kernels.ptx");
/// CU_STREAM_NON_BLOCKING.
const NON_BLOCKING: c_uint = 1;

/// A kernel's argument is a pointer to its value.
pub fn argument<T>(value: &mut T) -> *mut c_void {
    ptr::from_mut(value).cast()
}

/// GPU 0 with its primary context current.
#[derive(Debug)]
pub struct Gpu {
    /// Its CUdevice.
    pub device: c_int,
    /// The primary context.
    pub context: CUcontext,
    /// What allocations, addresses and mappings are multiples of, in bytes.
    pub granule: usize,
    module: CUmodule,
}

/// Reserved addresses with nothing mapped.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// Where.
    pub at: CUdeviceptr,
    /// How many bytes.
    pub bytes: usize,
}

impl Gpu {
    /// Takes GPU 0.
    pub fn open() -> Result<Self> {
        expect!(cuInit(0))?;
        let (mut device, mut context) = (0, ptr::null_mut());
        expect!(cuDeviceGet(&raw mut device, 0))?;
        expect!(cuDevicePrimaryCtxRetain(&raw mut context, device))?;
        expect!(cuCtxSetCurrent(context))?;
        let mut granule = 0;
        let of = properties(device);
        expect!(cuMemGetAllocationGranularity(
            &raw mut granule,
            &raw const of,
            0
        ))?;
        let image = CString::new(PTX).expect("the PTX holds no NUL");
        let mut module = ptr::null_mut();
        expect!(cuModuleLoadData(&raw mut module, image.as_ptr().cast()))?;
        Ok(Self {
            device,
            context,
            granule,
            module,
        })
    }

    /// The module with the workload's kernels.
    pub fn module(&self) -> CUmodule {
        self.module
    }

    /// The kernel of that name.
    pub fn kernel(&self, name: &str) -> Result<CUfunction> {
        let name = CString::new(name)?;
        let mut function = ptr::null_mut();
        expect!(cuModuleGetFunction(
            &raw mut function,
            self.module,
            name.as_ptr()
        ))?;
        Ok(function)
    }

    /// An attribute of the device, by its number in cuda.h.
    pub fn attribute(&self, number: c_int) -> Result<c_int> {
        let mut value = 0;
        expect!(cuDeviceGetAttribute(&raw mut value, number, self.device))?;
        Ok(value)
    }

    /// What cuMemGetInfo calls free.
    pub fn free_bytes(&self) -> Result<usize> {
        let (mut free, mut total) = (0, 0);
        expect!(cuMemGetInfo_v2(&raw mut free, &raw mut total))?;
        Ok(free)
    }

    /// An error unless two sums of bytes are the same but for less than a granule, which page tables may take.
    pub fn same(&self, what: &str, is: usize, wanted: usize) -> Result<()> {
        ensure!(
            is.abs_diff(wanted) < self.granule,
            "{what}: {is} bytes and not {wanted}"
        );
        Ok(())
    }

    /// Waits until what another process left is given back: the cases before may have ended with it.
    pub fn settle(&self) -> Result<()> {
        const QUIET: Duration = Duration::from_millis(200);
        const BOUND: Duration = Duration::from_secs(5);
        let start = Instant::now();
        let (mut since, mut before) = (start, self.free_bytes()?);
        while since.elapsed() < QUIET && start.elapsed() < BOUND {
            std::thread::sleep(Duration::from_millis(5));
            let now = self.free_bytes()?;
            if now != before {
                (since, before) = (Instant::now(), now);
            }
        }
        Ok(())
    }

    /// Physical memory of so many granules.
    pub fn create(&self, granules: usize) -> Result<Handle> {
        self.create_for(granules, CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE)
    }

    /// The same, to be exported as `kind`.
    pub fn create_for(&self, granules: usize, kind: CUmemAllocationHandleType) -> Result<Handle> {
        let mut of = properties(self.device);
        of.requestedHandleTypes = kind;
        let mut handle = 0;
        expect!(cuMemCreate(
            &raw mut handle,
            granules * self.granule,
            &raw const of,
            0
        ))?;
        Ok(handle)
    }

    /// Addresses for so many granules.
    pub fn reserve(&self, granules: usize) -> Result<Range> {
        let (mut at, bytes) = (0, granules * self.granule);
        expect!(cuMemAddressReserve(&raw mut at, bytes, 0, 0, 0))?;
        Ok(Range { at, bytes })
    }

    /// Gives them back.
    pub fn unreserve(&self, range: Range) -> Result<()> {
        expect!(cuMemAddressFree(range.at, range.bytes))
    }

    /// Where the granule of that number starts.
    pub fn granule_at(&self, range: Range, number: usize) -> CUdeviceptr {
        range.at + (number * self.granule) as u64
    }

    /// Maps a whole handle of so many granules, and lets this GPU read and write it.
    pub fn map(&self, at: CUdeviceptr, granules: usize, handle: Handle) -> Result<()> {
        let bytes = granules * self.granule;
        expect!(cuMemMap(at, bytes, 0, handle, 0))?;
        self.allow(at, bytes)
    }

    /// Lets this GPU read and write a range.
    pub fn allow(&self, at: CUdeviceptr, bytes: usize) -> Result<()> {
        let access = self.read_write();
        expect!(cuMemSetAccess(at, bytes, &raw const access, 1))
    }

    /// What lets this GPU read and write.
    pub fn read_write(&self) -> CUmemAccessDesc {
        CUmemAccessDesc {
            location: location(self.device),
            flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        }
    }

    /// What cuMemGetAccess says: 0 nothing, 1 read, 3 read and write.
    pub fn access(&self, at: CUdeviceptr) -> Result<u64> {
        let (mut flags, place) = (0, location(self.device));
        expect!(cuMemGetAccess(&raw mut flags, &raw const place, at))?;
        Ok(flags)
    }

    /// Memory of cuMemAlloc.
    pub fn alloc(&self, bytes: usize) -> Result<CUdeviceptr> {
        let mut at = 0;
        expect!(cuMemAlloc_v2(&raw mut at, bytes))?;
        Ok(at)
    }

    /// Gives it back.
    pub fn free(&self, at: CUdeviceptr) -> Result<()> {
        expect!(cuMemFree_v2(at))
    }

    /// Writes a pattern that no other seed has, and waits.
    pub fn write(&self, at: CUdeviceptr, bytes: usize, seed: u64) -> Result<()> {
        let host = pattern(bytes, seed);
        expect!(cuMemcpyHtoD_v2(at, host.as_ptr().cast(), bytes))?;
        expect!(cuCtxSynchronize())
    }

    /// Checks that it is there.
    pub fn check(&self, at: CUdeviceptr, bytes: usize, seed: u64) -> Result<()> {
        let (mut host, wanted) = (vec![0_u8; bytes], pattern(bytes, seed));
        expect!(cuMemcpyDtoH_v2(host.as_mut_ptr().cast(), at, bytes))?;
        let wrong = host.iter().zip(&wanted).position(|(is, was)| is != was);
        ensure!(
            wrong.is_none(),
            "byte {} is not what was written there",
            wrong.unwrap_or(0)
        );
        Ok(())
    }

    /// The byte at an address.
    pub fn byte(&self, at: CUdeviceptr) -> Result<u8> {
        let mut byte = 0_u8;
        expect!(cuMemcpyDtoH_v2((&raw mut byte).cast(), at, 1))?;
        Ok(byte)
    }

    /// A stream; one that is blocking waits for the legacy default stream and the other way round.
    pub fn stream(&self, blocking: bool) -> Result<Stream> {
        let mut stream = 0;
        let flags = if blocking { 0 } else { NON_BLOCKING };
        expect!(cuStreamCreate(&raw mut stream, flags))?;
        Ok(stream)
    }

    /// An event.
    pub fn event(&self) -> Result<Event> {
        let mut event = 0;
        expect!(cuEventCreate(&raw mut event, 0))?;
        Ok(event)
    }

    /// Keeps the GPU busy on a stream for at least so long.
    pub fn spin(&self, stream: Stream, lasting: Duration) -> Result<()> {
        let mut nanos = lasting.as_nanos() as u64;
        let mut arguments = [argument(&mut nanos)];
        let (function, none) = (self.kernel("spin")?, ptr::null_mut());
        let arguments = arguments.as_mut_ptr();
        expect!(cuLaunchKernel(
            function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, none
        ))
    }

    /// Fills so many words with the workload's kernel, without waiting.
    pub fn fill(&self, stream: Stream, at: CUdeviceptr, words: u64, seed: u32) -> Result<()> {
        let (mut at, mut words, mut seed) = (at, words, seed);
        let mut arguments = [argument(&mut at), argument(&mut words), argument(&mut seed)];
        let (function, none) = (self.kernel("fill")?, ptr::null_mut());
        let arguments = arguments.as_mut_ptr();
        expect!(cuLaunchKernel(
            function, 64, 1, 1, 256, 1, 1, 0, stream, arguments, none
        ))
    }

    /// Waits for a stream and destroys it.
    pub fn end(&self, stream: Stream) -> Result<()> {
        expect!(cuStreamSynchronize(stream))?;
        expect!(cuStreamDestroy_v2(stream))
    }

    /// Whether a stream has work that is not done.
    pub fn is_busy(&self, stream: Stream) -> bool {
        ask!(cuStreamQuery(stream)) == crate::cuda::Status::NOT_READY
    }
}

/// The device as a place.
pub fn location(device: c_int) -> CUmemLocation {
    CUmemLocation {
        type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
        id: device,
    }
}

/// Ordinary device memory, not to be exported.
pub fn properties(device: c_int) -> CUmemAllocationProp {
    CUmemAllocationProp {
        type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
        location: location(device),
        win32HandleMetaData: ptr::null_mut(),
        // SAFETY: plain flags, for which zero means none.
        allocFlags: unsafe { std::mem::zeroed() },
    }
}

/// Two digits for each byte.
pub fn hex(bytes: impl IntoIterator<Item = u8>) -> String {
    bytes.into_iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string does not fail");
        text
    })
}

/// Bytes that differ between seeds, words and pages.
pub fn pattern(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed << 1 | 1;
    let mut text = Vec::with_capacity(bytes.next_multiple_of(8));
    while text.len() < bytes {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        text.extend_from_slice(&(state ^ state >> 33).to_le_bytes());
    }
    text.truncate(bytes);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_the_length_asked_for_and_differ_by_seed() {
        assert_eq!(pattern(13, 1).len(), 13);
        assert_eq!(pattern(4096, 7), pattern(4096, 7));
        assert_ne!(pattern(4096, 7), pattern(4096, 8));
    }
}
