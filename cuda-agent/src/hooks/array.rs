//! Arrays: the driver's, in a layout that only it knows, so never swapped. Counted.

use core::ffi::{c_uint, c_void};

use rtswap_agent_core::agent::agent;
use rtswap_agent_core::cuda::{Status, given};
use rtswap_agent_core::outside::{ArrayShape, Held};

use super::hooks;

hooks! {
    create: cuArrayCreate_v2 (made: *mut *mut c_void, shape: *const Flat);
    create_3d: cuArray3DCreate_v2 (made: *mut *mut c_void, shape: *const Solid);
    create_v1: cuArrayCreate (made: *mut *mut c_void, shape: *const FlatV1);
    create_3d_v1: cuArray3DCreate (made: *mut *mut c_void, shape: *const SolidV1);
    create_mipmapped: cuMipmappedArrayCreate (
        made: *mut *mut c_void, shape: *const Solid, levels: c_uint);
    destroy: cuArrayDestroy (array: *mut c_void);
    destroy_mipmapped: cuMipmappedArrayDestroy (array: *mut c_void);
}

/// CUDA_ARRAY_DESCRIPTOR, with a number for the format: a newer driver has more of them.
#[repr(C)]
pub(super) struct Flat {
    width: usize,
    height: usize,
    format: c_uint,
    channels: c_uint,
}

/// CUDA_ARRAY3D_DESCRIPTOR, likewise.
#[repr(C)]
pub(super) struct Solid {
    width: usize,
    height: usize,
    depth: usize,
    format: c_uint,
    channels: c_uint,
    flags: c_uint,
}

/// As [`Flat`] before CUDA 3.2.
#[repr(C)]
pub(super) struct FlatV1 {
    width: c_uint,
    height: c_uint,
    format: c_uint,
    channels: c_uint,
}

/// As [`Solid`] before CUDA 3.2.
#[repr(C)]
pub(super) struct SolidV1 {
    width: c_uint,
    height: c_uint,
    depth: c_uint,
    format: c_uint,
    channels: c_uint,
    flags: c_uint,
}

impl From<&Flat> for ArrayShape {
    fn from(flat: &Flat) -> Self {
        Self {
            extent: [flat.width as u64, flat.height as u64, 0],
            format: flat.format,
            channels: flat.channels,
            flags: 0,
        }
    }
}

impl From<&Solid> for ArrayShape {
    fn from(solid: &Solid) -> Self {
        Self {
            extent: [solid.width, solid.height, solid.depth].map(|side| side as u64),
            format: solid.format,
            channels: solid.channels,
            flags: solid.flags,
        }
    }
}

impl From<&FlatV1> for ArrayShape {
    fn from(flat: &FlatV1) -> Self {
        Self {
            extent: [flat.width.into(), flat.height.into(), 0],
            format: flat.format,
            channels: flat.channels,
            flags: 0,
        }
    }
}

impl From<&SolidV1> for ArrayShape {
    fn from(solid: &SolidV1) -> Self {
        Self {
            extent: [solid.width, solid.height, solid.depth].map(u64::from),
            format: solid.format,
            channels: solid.channels,
            flags: solid.flags,
        }
    }
}

/// # Safety
/// `made` is null or what `call` fills; `shape` is null or valid.
unsafe fn make<T>(
    made: *mut *mut c_void,
    shape: *const T,
    levels: u32,
    held: fn(usize) -> Held,
    mut call: impl FnMut() -> Status,
) -> Status
where
    for<'a> ArrayShape: From<&'a T>,
{
    // SAFETY: by the caller's promise.
    let shape = unsafe { given(shape) }.map(ArrayShape::from);
    let (Some(agent), Some(shape)) = (agent(), shape) else {
        return call();
    };
    // SAFETY: as above.
    let handle = || unsafe { made.as_ref() }.map(|array| held(array.addr()));
    agent.hold(shape.bytes(levels), false, call, handle)
}

unsafe fn create(
    real: cuArrayCreate_v2::Function,
    made: *mut *mut c_void,
    shape: *const Flat,
) -> Status {
    // SAFETY: the caller's arguments.
    unsafe { make(made, shape, 1, Held::Array, || real(made, shape)) }
}

unsafe fn create_3d(
    real: cuArray3DCreate_v2::Function,
    made: *mut *mut c_void,
    shape: *const Solid,
) -> Status {
    // SAFETY: the caller's arguments.
    unsafe { make(made, shape, 1, Held::Array, || real(made, shape)) }
}

unsafe fn create_v1(
    real: cuArrayCreate::Function,
    made: *mut *mut c_void,
    shape: *const FlatV1,
) -> Status {
    // SAFETY: the caller's arguments.
    unsafe { make(made, shape, 1, Held::Array, || real(made, shape)) }
}

unsafe fn create_3d_v1(
    real: cuArray3DCreate::Function,
    made: *mut *mut c_void,
    shape: *const SolidV1,
) -> Status {
    // SAFETY: the caller's arguments.
    unsafe { make(made, shape, 1, Held::Array, || real(made, shape)) }
}

unsafe fn create_mipmapped(
    real: cuMipmappedArrayCreate::Function,
    made: *mut *mut c_void,
    shape: *const Solid,
    levels: c_uint,
) -> Status {
    // SAFETY: the caller's arguments.
    unsafe {
        make(made, shape, levels, Held::Mipmapped, || {
            real(made, shape, levels)
        })
    }
}

fn let_go(held: Held, status: Status) -> Status {
    if status == Status::SUCCESS
        && let Some(agent) = agent()
    {
        agent.let_go(held);
    }
    status
}

unsafe fn destroy(real: cuArrayDestroy::Function, array: *mut c_void) -> Status {
    // SAFETY: the caller's arguments.
    let_go(Held::Array(array.addr()), unsafe { real(array) })
}

unsafe fn destroy_mipmapped(real: cuMipmappedArrayDestroy::Function, array: *mut c_void) -> Status {
    // SAFETY: the caller's arguments.
    let_go(Held::Mipmapped(array.addr()), unsafe { real(array) })
}
