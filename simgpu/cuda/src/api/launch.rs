//! Launches, and how many blocks fit.

use std::ffi::{c_int, c_uint, c_void};

use simgpu_core::driver::attributes::{MAX_BLOCK, MAX_BLOCK_THREADS, MAX_GRID};
use simgpu_core::driver::{Kernel, driver};
use simgpu_core::{Error, Result};

use super::module::function;
use crate::abi::{In, LaunchConfig, Out, stream};
use crate::export::DefaultStream;

/// Threads a multiprocessor holds.
const RESIDENT_THREADS: c_int = 1536;
/// Multiprocessors.
const MULTIPROCESSORS: c_int = 82;

api! {
    4000 fn cuLaunchKernel | cuLaunchKernel_ptsz(
        handle: usize,
        grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint,
        _shared_bytes: c_uint,
        on: usize,
        params: In<In<u8>>,
        extra: In<usize>,
    ) |default| {
        let grid = [grid_x, grid_y, grid_z];
        launch(handle, grid, [block_x, block_y, block_z], on, default, params, extra)
    }

    11060 early fn cuLaunchKernelEx | cuLaunchKernelEx_ptsz(
        config: In<LaunchConfig>,
        handle: usize,
        params: In<In<u8>>,
        extra: In<usize>,
    ) |default| {
        let LaunchConfig { grid, block, stream, .. } = config.get()?;
        launch(handle, grid, block, stream, default, params, extra)
    }

    9000 fn cuLaunchCooperativeKernel | cuLaunchCooperativeKernel_ptsz(
        handle: usize,
        grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint,
        _shared_bytes: c_uint,
        on: usize,
        params: In<In<u8>>,
    ) |default| {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        // All blocks have to be resident at once.
        let blocks = grid.iter().map(|dim| u64::from(*dim)).product::<u64>();
        let threads = block.iter().map(|dim| u64::from(*dim)).product::<u64>();
        let threads = c_int::try_from(threads).map_err(|_| Error::InvalidValue)?;
        let most = resident_blocks(handle, threads)? * MULTIPROCESSORS;
        if blocks > most as u64 {
            return Err(Error::CooperativeLaunchTooLarge);
        }
        launch(handle, grid, block, on, default, params, In::null())
    }

    6050 fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: Out<c_int>,
        handle: usize,
        block: c_int,
        _shared_bytes: usize,
    ) {
        blocks.set(resident_blocks(handle, block)?)
    }

    7000 fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: Out<c_int>,
        handle: usize,
        block: c_int,
        _shared_bytes: usize,
        _flags: c_uint,
    ) {
        blocks.set(resident_blocks(handle, block)?)
    }

    6050 fn cuOccupancyMaxPotentialBlockSize(
        grid: Out<c_int>,
        block: Out<c_int>,
        handle: usize,
        _shared_bytes_of: In<c_void>,
        _shared_bytes: usize,
        limit: c_int,
    ) {
        let most = MAX_BLOCK_THREADS as c_int;
        let best = if limit > 0 { limit.min(most) } else { most };
        grid.set(resident_blocks(handle, best)? * MULTIPROCESSORS)?;
        block.set(best)
    }
}

fn resident_blocks(handle: usize, block: c_int) -> Result<c_int> {
    function(handle)?;
    if block <= 0 {
        return Err(Error::InvalidValue);
    }
    Ok((RESIDENT_THREADS / block).min(16))
}

fn launch(
    handle: usize,
    grid: [c_uint; 3],
    block: [c_uint; 3],
    on: usize,
    default: DefaultStream,
    params: In<In<u8>>,
    extra: In<usize>,
) -> Result<()> {
    let (context, stream) = stream(on, default)?;
    match checked(handle, grid, block, params, extra)? {
        Some((kernel, args)) => context.launch(&stream, kernel, args),
        None => Ok(()),
    }
}

/// A kernel and its arguments, if it can be launched so; none for one that is let do nothing.
pub(super) fn checked(
    handle: usize,
    grid: [c_uint; 3],
    block: [c_uint; 3],
    params: In<In<u8>>,
    extra: In<usize>,
) -> Result<Option<(Kernel, Vec<u64>)>> {
    let function = function(handle)?;
    let within = |dims: [c_uint; 3], most: [u32; 3]| {
        dims.iter()
            .zip(most)
            .all(|(dim, most)| (1..=most).contains(dim))
    };
    let threads = block.iter().map(|dim| u64::from(*dim)).product::<u64>();
    if !within(grid, MAX_GRID)
        || !within(block, MAX_BLOCK)
        || threads > u64::from(MAX_BLOCK_THREADS)
    {
        return Err(Error::InvalidValue);
    }
    let Some(kernel) = function.kernel else {
        driver()?.launch_foreign(&function.name)?;
        return Ok(None);
    };
    Ok(Some((kernel, arguments(kernel, params, extra)?)))
}

/// The arguments, from an array of pointers or from one packed buffer.
fn arguments(kernel: Kernel, params: In<In<u8>>, extra: In<usize>) -> Result<Vec<u64>> {
    let read = |at: In<u8>, size: usize| match size {
        // SAFETY: a parameter of the kernel has this size.
        4 => unsafe { at.cast::<u32>() }.get().map(u64::from),
        // SAFETY: the others have this one.
        _ => unsafe { at.cast::<u64>() }.get(),
    };
    let sizes = kernel.params();
    if !params.is_null() {
        // SAFETY: a program gives as many as the kernel has.
        let params = unsafe { params.list(sizes.len()) }.zip(sizes);
        return params.map(|(at, size)| read(at?, *size)).collect();
    }
    let (buffer, len) = packed(extra)?;
    let fits = |index: usize| {
        let offset = kernel.param_offset(index)?;
        (offset + sizes[index] <= len).then_some(offset)
    };
    (0..sizes.len())
        .map(|index| {
            let offset = fits(index).ok_or(Error::InvalidValue)?;
            // SAFETY: it ends within the buffer.
            read(unsafe { buffer.add_bytes(offset) }, sizes[index])
        })
        .collect()
}

/// The packed buffer and its size, from the list of `extra`.
fn packed(extra: In<usize>) -> Result<(In<u8>, usize)> {
    let (mut buffer, mut len) = (None, None);
    // Two pairs and an end are all that a list can hold.
    for pair in 0..2 {
        // SAFETY: the end of the list has not come yet, and after a name comes what it stands for.
        unsafe {
            match extra.at(pair * 2)? {
                1 => buffer = Some(extra.cast::<In<u8>>().at(pair * 2 + 1)?),
                2 => len = Some(extra.cast::<In<usize>>().at(pair * 2 + 1)?.get()?),
                _ => break,
            }
        }
    }
    buffer.zip(len).ok_or(Error::InvalidValue)
}
