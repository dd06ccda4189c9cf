//! The CUDA driver calls: a device with its kernels, and memory that frees itself.

use std::ffi::{CString, c_void};
use std::fmt::Write as _;
use std::ptr;

use cudarc::driver::{DriverError, result, sys};
use serde::Serialize;

use crate::failure::{Doing, Failure};

const PTX: &str = include_str!("kernels.ptx");

/// Threads of one block; the kernels accept any.
const BLOCK: u32 = 256;
/// The most blocks of one launch: enough for any GPU, the kernels stride over the rest.
const MAX_BLOCKS: u64 = 4096;

/// One GPU as `--info` shows it.
#[derive(Debug, Serialize)]
pub(crate) struct GpuInfo {
    /// CUDA's index.
    pub index: i32,
    /// `GPU-…`, or `MIG-…` of a MIG instance, as NVML and nvidia-smi write it.
    pub uuid: String,
    /// The product.
    pub name: String,
    /// All of its memory.
    pub memory_bytes: u64,
}

/// Loads the driver; tells how many GPUs it has.
fn init() -> Result<i32, Failure> {
    // SAFETY: loading the driver library runs its constructors, which any CUDA program does.
    if !unsafe { sys::is_culib_present() } {
        return Err(Failure::NoDriver);
    }
    match result::init() {
        Err(DriverError(sys::CUresult::CUDA_ERROR_NO_DEVICE)) => return Ok(0),
        other => other.doing(|| "starting the CUDA driver".into())?,
    }
    result::device::get_count().doing(|| "counting GPUs".into())
}

/// The GPUs of this machine.
pub(crate) fn list() -> Result<Vec<GpuInfo>, Failure> {
    (0..init()?)
        .map(|index| {
            let describe = || {
                let device = result::device::get(index)?;
                // SAFETY: `device` is a handle that the driver just gave.
                let memory_bytes = unsafe { result::device::total_mem(device)? } as u64;
                let name = result::device::get_name(device)?;
                let uuid = uuid_text(&name, get_uuid(device)?.bytes.map(|b| b as u8));
                Ok(GpuInfo {
                    index,
                    uuid,
                    name,
                    memory_bytes,
                })
            };
            describe().doing(|| format!("reading GPU {index}"))
        })
        .collect()
}

/// Of an instance its own: the first version of the call gives its GPU's.
fn get_uuid(device: sys::CUdevice) -> Result<sys::CUuuid, DriverError> {
    let mut uuid = sys::CUuuid { bytes: [0; 16] };
    // SAFETY: `uuid` has room for what the call writes.
    unsafe { sys::cuDeviceGetUuid_v2(&raw mut uuid, device) }.result()?;
    Ok(uuid)
}

/// The driver gives an instance the name of its GPU with its profile behind, as `… MIG 1g.5gb`.
fn uuid_text(name: &str, bytes: [u8; 16]) -> String {
    let is_instance = name.contains(" MIG ");
    let mut text = String::from(if is_instance { "MIG" } else { "GPU" });
    for (i, byte) in bytes.into_iter().enumerate() {
        if matches!(i, 0 | 4 | 6 | 8 | 10) {
            text.push('-');
        }
        write!(text, "{byte:02x}").expect("writing to a string does not fail");
    }
    text
}

/// A GPU with a context, a stream and the kernels loaded. One per process, on one thread.
pub(crate) struct Gpu {
    device: sys::CUdevice,
    stream: sys::CUstream,
    module: sys::CUmodule,
    fill: sys::CUfunction,
    layer: sys::CUfunction,
    checksum: sys::CUfunction,
}

impl Gpu {
    /// Takes GPU `index`.
    pub(crate) fn open(index: u32) -> Result<Self, Failure> {
        let count = init()? as u32;
        if index >= count {
            return Err(Failure::NoGpu { index, count });
        }
        let image = CString::new(PTX).expect("the PTX holds no NUL");
        let open = || {
            let device = result::device::get(index.cast_signed())?;
            // SAFETY: `device` comes from the driver; the context is retained until drop and made
            // current on the one thread that uses it, before what needs a context.
            unsafe { result::ctx::set_current(result::primary_ctx::retain(device)?)? };
            let stream = result::stream::create(result::stream::StreamKind::NonBlocking)?;
            // SAFETY: `image` is PTX text that ends in NUL and outlives the call.
            let module = unsafe { result::module::load_data(image.as_ptr().cast())? };
            let function = |name: &str| {
                let name = CString::new(name).expect("kernel names hold no NUL");
                // SAFETY: `module` was just loaded.
                unsafe { result::module::get_function(module, name) }
            };
            Ok(Self {
                device,
                stream,
                module,
                fill: function("fill")?,
                layer: function("layer")?,
                checksum: function("checksum")?,
            })
        };
        open().doing(|| format!("opening GPU {index}"))
    }

    /// Its number in the driver.
    pub(crate) fn device(&self) -> sys::CUdevice {
        self.device
    }

    /// Allocates `words` 32-bit words; `what` names them in the error.
    pub(crate) fn allocate(&self, words: u64, what: &str) -> Result<Memory<'_>, Failure> {
        let bytes = words * 4;
        // SAFETY: a context is current since `open`.
        let address = unsafe { result::malloc_sync(bytes as usize) }
            .doing(|| format!("allocating {bytes} bytes for {what}"))?;
        Ok(Memory {
            address,
            words,
            _gpu: self,
        })
    }

    /// `memory[i] = mix(i + seed·0x9e3779b9)`.
    pub(crate) fn fill(&self, memory: &Memory, mut seed: u32) -> Result<(), Failure> {
        let (mut address, mut words) = (memory.address, memory.words);
        let params = &mut [arg(&mut address), arg(&mut words), arg(&mut seed)];
        self.launch(self.fill, memory.words, params, "fill")
    }

    /// One layer over the activations.
    pub(crate) fn layer(&self, activations: &Memory, weights: &Memory) -> Result<(), Failure> {
        let (mut act, mut width) = (activations.address, activations.words);
        let (mut from, mut words) = (weights.address, weights.words);
        let params = &mut [
            arg(&mut act),
            arg(&mut width),
            arg(&mut from),
            arg(&mut words),
        ];
        self.launch(self.layer, activations.words, params, "layer")
    }

    /// The checksum of `data`, copied to the host: waits for all work before it.
    pub(crate) fn checksum(&self, sum: &Memory, data: &Memory) -> Result<u64, Failure> {
        // SAFETY: `sum` is live device memory of 8 bytes.
        unsafe { result::memset_d8_async(sum.address, 0, 8, self.stream) }
            .doing(|| "clearing the checksum".into())?;
        let (mut out, mut from, mut words) = (sum.address, data.address, data.words);
        let params = &mut [arg(&mut out), arg(&mut from), arg(&mut words)];
        self.launch(self.checksum, data.words, params, "checksum")?;
        let mut value = [0_u64];
        // SAFETY: `sum` is live device memory of 8 bytes, and `value` outlives the copy, which is
        // waited for before it is read or dropped.
        unsafe { result::memcpy_dtoh_async(&mut value, sum.address, self.stream) }
            .doing(|| "copying the checksum".into())?;
        self.synchronize()?;
        Ok(value[0])
    }

    /// Waits for all work given so far.
    pub(crate) fn synchronize(&self) -> Result<(), Failure> {
        // SAFETY: the stream lives as long as `self`.
        unsafe { result::stream::synchronize(self.stream) }.doing(|| "waiting for the GPU".into())
    }

    fn launch(
        &self,
        function: sys::CUfunction,
        threads: u64,
        params: &mut [*mut c_void],
        name: &str,
    ) -> Result<(), Failure> {
        let blocks = threads.div_ceil(BLOCK.into()).clamp(1, MAX_BLOCKS) as u32;
        // SAFETY: the callers above give as many parameters as the kernel of that name declares in
        // kernels.ptx, of its types, pointing to live locals and to device memory that is not
        // freed before the stream is synchronised (see `Memory::drop`).
        unsafe {
            let (grid, block) = ((blocks, 1, 1), (BLOCK, 1, 1));
            result::launch_kernel(function, grid, block, 0, self.stream, params)
        }
        .doing(|| format!("launching {name}"))
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // The process is at its end: a failure here has nobody left to tell.
        // SAFETY: the handles are this object's own; all memory borrowed from it is gone.
        unsafe {
            let _ = result::module::unload(self.module);
            let _ = result::stream::destroy(self.stream);
            let _ = result::primary_ctx::release(self.device);
        }
    }
}

/// The memory that the driver says is free, in bytes; `_gpu` is open, as the driver needs.
pub(crate) fn free_bytes(_gpu: &Gpu) -> Result<u64, Failure> {
    let info = result::mem_get_info().doing(|| "asking for free memory".into());
    Ok(info?.0 as u64)
}

/// Device memory of one object.
pub(crate) struct Memory<'gpu> {
    address: sys::CUdeviceptr,
    words: u64,
    _gpu: &'gpu Gpu,
}

impl Memory<'_> {
    /// Where it is.
    pub(crate) fn address(&self) -> sys::CUdeviceptr {
        self.address
    }

    /// How many 32-bit words it has.
    pub(crate) fn words(&self) -> u64 {
        self.words
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        // SAFETY: the address comes from cuMemAlloc and is freed once; cuMemFree waits for
        // outstanding work on it.
        let _ = unsafe { result::free_sync(self.address) };
    }
}

fn arg<T>(value: &mut T) -> *mut c_void {
    ptr::from_mut(value).cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_written_as_nvml_does() {
        let bytes: [u8; 16] = std::array::from_fn(|i| i as u8);
        let digits = "00010203-0405-0607-0809-0a0b0c0d0e0f";
        assert_eq!(uuid_text("A100", bytes), format!("GPU-{digits}"));
        assert_eq!(uuid_text("A100 MIG 1g.5gb", bytes), format!("MIG-{digits}"));
    }

    #[test]
    fn the_ptx_names_every_kernel() {
        for name in ["fill", "layer", "checksum", "spin"] {
            assert!(
                PTX.contains(&format!(".visible .entry {name}(")),
                "{name} is missing"
            );
        }
    }
}
