//! How many bytes each query writes: all of the value and nothing behind it, since a program's variable is just as wide.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use anyhow::{Result, ensure};
use cudarc::driver::sys::CUmemAllocationHandleType;

use crate::case::Body::Shared;
use crate::case::Case;
use crate::cuda::{DEFAULT, Status, exported};
use crate::expect;
use crate::gpu::{Gpu, argument, location, properties};

pub(super) const CASES: &[Case] = &[
    Case::relied(
        "width/pointer-attributes",
        "programs give a variable of the attribute's type; booleans are 32 bits wide in NVIDIA's library",
        Shared(pointer_attributes),
    ),
    Case::documented(
        "width/device-queries",
        "Device Management and Primary Context Management, CUDA Driver API",
        Shared(device_queries),
    ),
    Case::documented(
        "width/context-queries",
        "Context, Stream and Event Management, CUDA Driver API",
        Shared(context_queries),
    ),
    Case::documented(
        "width/memory-queries",
        "Memory and Virtual Memory Management and Stream Ordered Memory Allocator, CUDA Driver API",
        Shared(memory_queries),
    ),
    Case::documented(
        "width/function-queries",
        "Module and Execution Control and Occupancy, CUDA Driver API",
        Shared(function_queries),
    ),
];

/// An argument of a query; all are passed in registers or as whole words, as the ABI has it.
#[derive(Clone, Copy)]
enum Arg {
    /// A number, a handle or a pointer.
    Word(usize),
    /// Where a result of so many bytes goes.
    Out(usize),
}
use Arg::{Out, Word};

const ROOM: usize = 256;
/// Fills of the room, the last of which no result has.
const FILLS: [u8; 2] = [0x00, 0xa5];

/// Calls a function of the driver by name; none where this driver lacks it.
fn call(name: &str, words: &[usize]) -> Option<Status> {
    type Call =
        unsafe extern "C" fn(usize, usize, usize, usize, usize, usize, usize, usize) -> Status;
    let address = exported(name);
    if address.is_null() {
        return None;
    }
    let word = |index: usize| words.get(index).copied().unwrap_or(0);
    // SAFETY: a driver's function with no more than eight arguments, all of them words; it ignores those it does not have.
    let function: Call = unsafe { std::mem::transmute(address) };
    // SAFETY: the cases below give what the function's documentation asks for, and room for every result.
    Some(unsafe {
        function(
            word(0),
            word(1),
            word(2),
            word(3),
            word(4),
            word(5),
            word(6),
            word(7),
        )
    })
}

/// Asks twice, over bytes that differ: the result must be the same, and what is behind it must stay. Whether it was asked:
/// a driver may lack the function, or refuse the query, and then writes nothing behind the result either.
fn check(name: &str, args: &[Arg]) -> Result<bool> {
    let mut results: Vec<Vec<u8>> = Vec::new();
    let mut answered = true;
    for fill in FILLS {
        let mut rooms = vec![[fill; ROOM]; args.len()];
        let words: Vec<usize> = args
            .iter()
            .zip(&mut rooms)
            .map(|(arg, room)| match arg {
                Word(word) => *word,
                Out(_) => room.as_mut_ptr() as usize,
            })
            .collect();
        let Some(status) = call(name, &words) else {
            return Ok(false);
        };
        answered &= status == Status::SUCCESS;
        for (number, (arg, room)) in args.iter().zip(&rooms).enumerate() {
            let Out(width) = arg else { continue };
            let behind = room[*width..].iter().position(|byte| *byte != fill);
            ensure!(
                behind.is_none(),
                "{name}: argument {number} is {width} bytes wide, and byte {} was written",
                width + behind.unwrap_or(0)
            );
            results.push(room[..*width].to_vec());
        }
    }
    let (first, second) = results.split_at(results.len() / 2);
    ensure!(
        !answered || first == second,
        "{name}: what was there before shows through: {first:02x?}, {second:02x?}"
    );
    Ok(answered)
}

/// Checks queries that must all be answered, if the driver has them at all.
fn check_all(queries: &[(&str, &[Arg])]) -> Result<String> {
    let mut asked = 0;
    for (name, args) in queries {
        let answered = check(name, args)?;
        ensure!(
            answered || exported(name).is_null(),
            "{name} refuses the query"
        );
        asked += usize::from(answered);
    }
    Ok(format!("{asked} of {} queries", queries.len()))
}

fn pointer_attributes(gpu: &Gpu) -> Result<String> {
    let (mut asked, mut host) = (0, ptr::null_mut());
    let (range, handle) = (gpu.reserve(1)?, gpu.create(1)?);
    gpu.map(range.at, 1, handle)?;
    expect!(cuMemHostAlloc(&raw mut host, 4096, 0))?;
    let plain = gpu.alloc(4096)?;
    let own = Box::new(0_u64);
    let width = |number: usize| match number {
        2 | 6 | 8..=10 | 13 | 15 | 16 => 4,
        _ => 8,
    };
    for at in [range.at, plain, host as u64, (&raw const *own) as u64] {
        // 5 is a pair of tokens for GPUs that are long gone.
        for number in (1..=20).filter(|number| *number != 5) {
            let args = [Out(width(number)), Word(number), Word(at as usize)];
            let single = check("cuPointerGetAttribute", &args)?;
            let many = check_one_of_many(number, width(number), at)?;
            asked += usize::from(single) + usize::from(many);
        }
    }
    gpu.free(plain)?;
    expect!(cuMemFreeHost(host))?;
    expect!(cuMemUnmap(range.at, range.bytes))?;
    expect!(cuMemRelease(handle))?;
    gpu.unreserve(range)?;
    ensure!(asked > 100, "only {asked} were answered");
    Ok(format!("{asked} answers"))
}

/// cuPointerGetAttributes for one attribute, as [`check`]; it must answer wherever the attribute is known.
fn check_one_of_many(number: usize, width: usize, at: u64) -> Result<bool> {
    let attribute = number as u32;
    let mut seen = Vec::new();
    for fill in FILLS {
        let mut room = [fill; ROOM];
        let place: *mut c_void = room.as_mut_ptr().cast();
        let status = crate::ask!(cuPointerGetAttributes(
            1,
            &raw const attribute,
            &raw const place,
            at
        ));
        if status != Status::SUCCESS {
            return Ok(false);
        }
        ensure!(
            room[width..].iter().all(|byte| *byte == fill),
            "cuPointerGetAttributes wrote behind attribute {number}"
        );
        seen.push(room[..width].to_vec());
    }
    ensure!(
        seen[0] == seen[1],
        "cuPointerGetAttributes left a part of attribute {number}"
    );
    Ok(true)
}

fn device_queries(gpu: &Gpu) -> Result<String> {
    let device = Word(gpu.device as usize);
    let mut attributes = 0;
    for number in 1..=160 {
        let args = [Out(4), Word(number), device];
        attributes += usize::from(check("cuDeviceGetAttribute", &args)?);
    }
    ensure!(attributes > 100, "only {attributes} attributes");
    let mut id = [0_u8; 32];
    expect_text("cuDeviceGetPCIBusId", &mut id, gpu.device)?;
    let told = check_all(&[
        ("cuDriverGetVersion", &[Out(4)]),
        ("cuDeviceGet", &[Out(4), Word(0)]),
        ("cuDeviceGetCount", &[Out(4)]),
        ("cuDeviceGetName", &[Out(9), Word(9), device]),
        ("cuDeviceGetPCIBusId", &[Out(13), Word(13), device]),
        (
            "cuDeviceGetByPCIBusId",
            &[Out(4), Word(id.as_ptr() as usize)],
        ),
        ("cuDeviceGetUuid", &[Out(16), device]),
        ("cuDeviceGetUuid_v2", &[Out(16), device]),
        ("cuDeviceTotalMem_v2", &[Out(8), device]),
        ("cuDeviceComputeCapability", &[Out(4), Out(4), device]),
        ("cuDevicePrimaryCtxGetState", &[device, Out(4), Out(4)]),
        ("cuDeviceCanAccessPeer", &[Out(4), device, device]),
        ("cuDeviceGetDefaultMemPool", &[Out(8), device]),
        ("cuDeviceGetMemPool", &[Out(8), device]),
        ("cuDeviceGetGraphMemAttribute", &[device, Word(0), Out(8)]),
        ("cuDeviceGetGraphMemAttribute", &[device, Word(3), Out(8)]),
    ])?;
    Ok(format!("{told}, {attributes} attributes"))
}

fn expect_text(name: &str, room: &mut [u8; 32], device: c_int) -> Result<()> {
    let status = call(name, &[room.as_mut_ptr() as usize, 32, device as usize]);
    ensure!(status == Some(Status::SUCCESS), "{name}: {status:?}");
    ensure!(
        CStr::from_bytes_until_nul(room).is_ok(),
        "{name} wrote no NUL"
    );
    Ok(())
}

fn context_queries(gpu: &Gpu) -> Result<String> {
    let context = Word(gpu.context as usize);
    let mut limits = 0;
    for limit in 0..=8 {
        limits += usize::from(check("cuCtxGetLimit", &[Out(8), Word(limit)])?);
    }
    ensure!(limits >= 5, "only {limits} limits");
    let (stream, first, last) = (gpu.stream(false)?, gpu.event()?, gpu.event()?);
    expect!(cuEventRecord(first, stream))?;
    expect!(cuEventRecord(last, stream))?;
    expect!(cuStreamSynchronize(stream))?;
    let on = Word(stream);
    let told = check_all(&[
        ("cuCtxGetCurrent", &[Out(8)]),
        ("cuCtxGetDevice", &[Out(4)]),
        ("cuCtxGetFlags", &[Out(4)]),
        ("cuCtxGetId", &[context, Out(8)]),
        ("cuCtxGetApiVersion", &[context, Out(4)]),
        ("cuCtxGetCacheConfig", &[Out(4)]),
        ("cuCtxGetSharedMemConfig", &[Out(4)]),
        ("cuCtxGetStreamPriorityRange", &[Out(4), Out(4)]),
        ("cuStreamGetFlags", &[on, Out(4)]),
        ("cuStreamGetPriority", &[on, Out(4)]),
        ("cuStreamGetId", &[on, Out(8)]),
        ("cuStreamGetCtx", &[on, Out(8)]),
        ("cuStreamGetDevice", &[on, Out(4)]),
        ("cuStreamIsCapturing", &[on, Out(4)]),
        ("cuStreamGetCaptureInfo", &[on, Out(4), Out(8)]),
        (
            "cuStreamGetCaptureInfo_v2",
            &[on, Out(4), Out(8), Out(8), Out(8), Out(8)],
        ),
        ("cuEventElapsedTime", &[Out(4), Word(first), Word(last)]),
    ]);
    expect!(cuEventDestroy_v2(first))?;
    expect!(cuEventDestroy_v2(last))?;
    gpu.end(stream)?;
    Ok(format!("{}, {limits} limits", told?))
}

fn memory_queries(gpu: &Gpu) -> Result<String> {
    let (mut host, mut pool) = (ptr::null_mut(), ptr::null_mut());
    let (range, plain) = (gpu.reserve(1)?, gpu.alloc(4096)?);
    let handle = gpu.create_for(1, CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE)?;
    gpu.map(range.at, 1, handle)?;
    // CU_MEMHOSTALLOC_DEVICEMAP.
    expect!(cuMemHostAlloc(&raw mut host, 4096, 2))?;
    expect!(cuDeviceGetDefaultMemPool(&raw mut pool, gpu.device))?;
    let (of, place) = (properties(gpu.device), location(gpu.device));
    let of = Word((&raw const of) as usize);
    let place = Word((&raw const place) as usize);
    let (at, host_at) = (Word(plain as usize), Word(host as usize));
    for number in 1..=8 {
        // Three switches, and sums of bytes.
        let width = if number <= 3 { 4 } else { 8 };
        let args = [Word(pool as usize), Word(number), Out(width)];
        let answered = check("cuMemPoolGetAttribute", &args)?;
        ensure!(answered, "attribute {number} of a pool");
    }
    let told = check_all(&[
        ("cuMemGetInfo_v2", &[Out(8), Out(8)]),
        ("cuMemGetAddressRange_v2", &[Out(8), Out(8), at]),
        ("cuMemHostGetDevicePointer_v2", &[Out(8), host_at, Word(0)]),
        ("cuMemHostGetFlags", &[Out(4), host_at]),
        ("cuMemGetAccess", &[Out(8), place, Word(range.at as usize)]),
        ("cuMemPoolGetAccess", &[Out(4), Word(pool as usize), place]),
        ("cuMemGetAllocationGranularity", &[Out(8), of, Word(0)]),
        (
            "cuMemGetAllocationPropertiesFromHandle",
            &[Out(32), Word(handle as usize)],
        ),
        ("cuIpcGetMemHandle", &[Out(64), at]),
    ]);
    expect!(cuMemFreeHost(host))?;
    expect!(cuMemUnmap(range.at, range.bytes))?;
    expect!(cuMemRelease(handle))?;
    gpu.unreserve(range)?;
    gpu.free(plain)?;
    told
}

fn function_queries(gpu: &Gpu) -> Result<String> {
    let function = Word(gpu.kernel("fill")? as usize);
    let mut attributes = 0;
    for number in 0..=15 {
        let args = [Out(4), Word(number), function];
        attributes += usize::from(check("cuFuncGetAttribute", &args)?);
    }
    ensure!(attributes >= 8, "only {attributes} attributes");
    let name = c"cuMemAlloc".as_ptr() as usize;
    let mut mode = 0_u32;
    let told = check_all(&[
        ("cuFuncGetModule", &[Out(8), function]),
        ("cuFuncGetName", &[Out(8), function]),
        ("cuFuncGetParamInfo", &[function, Word(0), Out(8), Out(8)]),
        ("cuModuleGetLoadingMode", &[Out(4)]),
        (
            "cuOccupancyMaxActiveBlocksPerMultiprocessor",
            &[Out(4), function, Word(256), Word(0)],
        ),
        (
            "cuOccupancyMaxPotentialBlockSize",
            &[Out(4), Out(4), function, Word(0), Word(0), Word(0)],
        ),
        ("cuGetErrorName", &[Word(1), Out(8)]),
        ("cuGetErrorString", &[Word(1), Out(8)]),
        (
            "cuGetProcAddress_v2",
            &[Word(name), Out(8), Word(12_000), Word(0), Out(4)],
        ),
        (
            "cuThreadExchangeStreamCaptureMode",
            &[Word(argument(&mut mode) as usize)],
        ),
    ])?;
    expect!(cuStreamSynchronize(DEFAULT))?;
    Ok(format!("{told}, {attributes} attributes"))
}
