//! Stream memory operations.

use std::ffi::c_uint;

use simgpu_core::driver::{Action, Until, ValueOp};
use simgpu_core::{Error, Result};

use crate::abi::{In, MemOp, stream};
use crate::export::DefaultStream;

/// CU_STREAM_WAIT_VALUE_FLUSH: writes of others are always seen here.
const FLUSH: c_uint = 1 << 30;
/// CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER: there is one nevertheless.
const NO_BARRIER: c_uint = 1;
/// The most operations in a batch.
const BATCH_MAX: c_uint = 256;

/// Defines a function in the four forms that it has.
macro_rules! word_calls {
    ($($since:literal $name:ident | $per_thread:ident
        ($value:ty, $wide:literal, $action:ident);)*) => {
        api! {$(
            $since fn $name | $per_thread(
                on: usize, address: u64, value: $value, flags: c_uint,
            ) |default| {
                submit(on, default, &[op(address, u64::from(value), $wide, $action(flags)?)])
            }
        )*
            8000 fn cuStreamBatchMemOp | cuStreamBatchMemOp_ptsz(
                on: usize, count: c_uint, ops: In<MemOp>, flags: c_uint,
            ) |default| {
                batch(on, default, count, ops, flags)
            }

            11070 fn cuStreamBatchMemOp_v2 | cuStreamBatchMemOp_v2_ptsz(
                on: usize, count: c_uint, ops: In<MemOp>, flags: c_uint,
            ) |default| {
                batch(on, default, count, ops, flags)
            }
        }
    };
}

word_calls! {
    8000 cuStreamWaitValue32 | cuStreamWaitValue32_ptsz(u32, false, wait);
    11070 cuStreamWaitValue32_v2 | cuStreamWaitValue32_v2_ptsz(u32, false, wait);
    9000 cuStreamWaitValue64 | cuStreamWaitValue64_ptsz(u64, true, wait);
    11070 cuStreamWaitValue64_v2 | cuStreamWaitValue64_v2_ptsz(u64, true, wait);
    8000 cuStreamWriteValue32 | cuStreamWriteValue32_ptsz(u32, false, write);
    11070 cuStreamWriteValue32_v2 | cuStreamWriteValue32_v2_ptsz(u32, false, write);
    9000 cuStreamWriteValue64 | cuStreamWriteValue64_ptsz(u64, true, write);
    11070 cuStreamWriteValue64_v2 | cuStreamWriteValue64_v2_ptsz(u64, true, write);
}

fn wait(flags: c_uint) -> Result<Action> {
    Ok(Action::Wait(match flags & !FLUSH {
        0 => Until::AtLeast,
        1 => Until::Equal,
        2 => Until::And,
        3 => Until::Nor,
        _ => return Err(Error::InvalidValue),
    }))
}

fn write(flags: c_uint) -> Result<Action> {
    if flags & !NO_BARRIER == 0 {
        Ok(Action::Write)
    } else {
        Err(Error::InvalidValue)
    }
}

fn op(address: u64, value: u64, is_wide: bool, action: Action) -> ValueOp {
    ValueOp {
        address,
        value,
        is_wide,
        action,
    }
}

fn submit(on: usize, default: DefaultStream, ops: &[ValueOp]) -> Result<()> {
    let (context, stream) = stream(on, default)?;
    context.value_ops(&stream, ops)
}

fn batch(
    on: usize,
    default: DefaultStream,
    count: c_uint,
    ops: In<MemOp>,
    flags: c_uint,
) -> Result<()> {
    if flags != 0 || count > BATCH_MAX {
        return Err(Error::InvalidValue);
    }
    let mut wanted = Vec::new();
    // SAFETY: as many operations as the program says.
    for next in unsafe { ops.list(count as usize) } {
        let MemOp {
            operation,
            address,
            value,
            flags,
            ..
        } = next?;
        let narrow = value & u64::from(u32::MAX);
        match operation {
            1 => wanted.push(op(address, narrow, false, wait(flags)?)),
            2 => wanted.push(op(address, narrow, false, write(flags)?)),
            4 => wanted.push(op(address, value, true, wait(flags)?)),
            5 => wanted.push(op(address, value, true, write(flags)?)),
            // Flushing remote writes, barriers: everything is seen here anyway.
            3 | 6 => {}
            _ => return Err(Error::InvalidValue),
        }
    }
    submit(on, default, &wanted)
}
