//! One hook for each driver function that rtswap must see, listed once in the `hooks!` table of
//! its area: the table makes the exported symbol and what `dlsym` and `cuGetProcAddress` hand out.
//! Hooks only translate: FFI here, logic in the core crate.

mod alloc;
mod argument;
mod array;
mod batch;
mod context;
mod copy;
mod destination;
mod dlsym;
mod former;
mod graph;
mod green;
mod handed;
mod host;
mod ipc;
mod job;
mod launch;
mod nvml;
mod peer;
mod pool;
mod procaddr;
mod query;
#[cfg(debug_assertions)]
mod ran;
mod real;
mod stream;
mod tables;
mod vmm;

use core::ffi::{CStr, c_void};
use core::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rtswap_agent_core::agent::Agent;
use rtswap_agent_core::cancel::put_off;
use rtswap_agent_core::cuda::{Status, Stream};
use rtswap_agent_core::enter::Clues;
use rtswap_agent_core::gate::{self, InCall, Unasked};

use real::Real;

/// The address of a library's function, whatever its type.
type Address = *mut c_void;

/// A hooked function.
pub(crate) struct Hook {
    /// Its exported name.
    name: &'static CStr,
    /// Our function.
    address: unsafe extern "C" fn(),
    /// The library's function.
    real: &'static Real,
}

/// Every hook of the driver's functions.
fn all() -> impl Iterator<Item = &'static Hook> {
    [
        alloc::HOOKS,
        array::HOOKS,
        batch::HOOKS,
        context::HOOKS,
        copy::HOOKS,
        former::HOOKS,
        graph::HOOKS,
        green::HOOKS,
        handed::HOOKS,
        host::HOOKS,
        ipc::HOOKS,
        launch::HOOKS,
        peer::HOOKS,
        pool::HOOKS,
        procaddr::HOOKS,
        query::HOOKS,
        stream::HOOKS,
        tables::HOOKS,
        vmm::HOOKS,
    ]
    .into_iter()
    .flatten()
}

/// Makes the hooks of one area: `VIA: NAME, … (ARGUMENTS);`. Via `gated` a function is GPU work on
/// the stream and the memory that its arguments' types tell (see `argument`), and otherwise the
/// driver's own; `writes` after the arguments says what it writes (see `destination`), which else
/// may be anything. Any other `VIA` is a function here that gets the real one as its first argument;
/// it is not asked in a thread that is inside the agent (see `gate`), unless `reentrant` before it
/// says that it wants no lock of the agent's there. `NAME` also becomes a module with the function's type and its real address.
macro_rules! hooks {
    ($($($via:ident)+: $($name:ident),+ ($($arg:ident: $ty:ty),* $(,)?)
        $(writes $destination:expr)?;)+) => {
        pub(super) static HOOKS: &[$crate::hooks::Hook] = &[$($(
            $crate::hooks::Hook {
                name: $name::NAME,
                // SAFETY: only its address counts; nobody calls it by this type.
                address: unsafe { core::mem::transmute::<$name::Function, unsafe extern "C" fn()>($name) },
                real: &$name::REAL,
            },
        )+)+];
        $($crate::hooks::hooks!(@names [$($via)+] [$($name)+] ($($arg: $ty),*) [$($destination)?]);)+
    };
    (@names $via:tt [$($name:ident)+] $args:tt $destination:tt) => {
        $($crate::hooks::hooks!(@one $via $name $args $destination);)+
    };
    (@one $via:tt $name:ident ($($arg:ident: $ty:ty),*) $destination:tt) => {
        #[expect(non_snake_case, reason = "the driver's name")]
        mod $name {
            #[allow(unused_imports, clippy::wildcard_imports, reason = "the arguments' types")]
            use super::*;
            pub(super) type Function =
                unsafe extern "C-unwind" fn($($ty),*) -> rtswap_agent_core::cuda::Status;
            pub(super) static REAL: $crate::hooks::real::Real =
                $crate::hooks::real::Real::new(&$crate::hooks::real::CUDA);
            pub(super) const NAME: &core::ffi::CStr =
                $crate::hooks::c_name(concat!(stringify!($name), "\0"));
        }
        #[allow(clippy::too_many_arguments, reason = "the driver's arguments")]
        #[unsafe(no_mangle)]
        pub(super) unsafe extern "C-unwind" fn $name($($arg: $ty),*) -> rtswap_agent_core::cuda::Status {
            let address = $name::REAL.get($name::NAME);
            if address.is_null() {
                return rtswap_agent_core::cuda::Status::NOT_FOUND;
            }
            #[cfg(debug_assertions)]
            $crate::hooks::ran::note(&$name::REAL, $name::NAME);
            // SAFETY: the driver's function of this name has this signature.
            let real = unsafe { core::mem::transmute::<$crate::hooks::Address, $name::Function>(address) };
            $crate::hooks::hooks!(@call $via $name real ($($arg),*) $destination)
        }
    };
    (@call [gated] $name:ident $real:ident ($($arg:ident),*) $destination:tt) => {{
        let Some(agent) = rtswap_agent_core::agent::agent() else {
            // SAFETY: the caller's arguments for the function that it called.
            return unsafe { $real($($arg),*) };
        };
        // SAFETY: the caller's arguments are valid for the function that it called.
        if false $(|| unsafe { $crate::hooks::argument::Argument::is_refused($arg, agent) })* {
            return rtswap_agent_core::cuda::Status::INVALID_VALUE;
        }
        let stream = None$(.or($crate::hooks::argument::Argument::stream($arg)))*;
        let stream = rtswap_agent_core::cuda::Stream::meant_by(
            stream,
            const { $crate::hooks::is_per_thread($name::NAME) },
        );
        let call = match rtswap_agent_core::gate::InCall::enter(stream.0) {
            Ok(call) => call,
            // The arguments are copied here, so that they stay in registers where all goes well.
            Err(_) => match $crate::hooks::enter_asking(agent, stream, &move |tell| {
                // SAFETY: the caller's arguments are valid for the function that it called.
                $(unsafe { $crate::hooks::argument::Argument::clues($arg, &mut *tell) };)*
            }) {
                Ok(call) => call,
                Err(status) => return status,
            },
        };
        let destination = $crate::hooks::hooks!(@destination $destination);
        // SAFETY: as above.
        if !unsafe { $crate::hooks::destination::note(agent, destination) } {
            return rtswap_agent_core::cuda::Status::UNKNOWN;
        }
        // A thread that is cancelled in the driver unwinds this frame, which may have nothing to
        // drop; the thread's end then ends the call.
        let call = core::mem::ManuallyDrop::new(call);
        // SAFETY: as above.
        let status = unsafe { $real($($arg),*) };
        drop(core::mem::ManuallyDrop::into_inner(call));
        status
    }};
    (@destination []) => { $crate::hooks::destination::Anything };
    (@destination [$destination:expr]) => { $destination };
    (@call [$via:ident] $name:ident $real:ident ($($arg:ident),*) []) => {{
        if rtswap_agent_core::gate::is_inside() {
            // SAFETY: the caller's arguments for the function that it called.
            return unsafe { $real($($arg),*) };
        }
        $crate::hooks::hooks!(@call [reentrant $via] $name $real ($($arg),*) [])
    }};
    (@call [reentrant $via:ident] $name:ident $real:ident ($($arg:ident),*) []) => {{
        let cancellation = rtswap_agent_core::cancel::put_off();
        let status = $crate::hooks::contained(|| {
            // SAFETY: the caller's arguments for the function that it called.
            unsafe { $via($real, $($arg),*) }
        });
        cancellation.restore();
        status
    }};
}
use hooks;

const fn c_name(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("one zero, at the end"),
    }
}

/// Whether NULL means the per-thread stream to a function of this name.
const fn is_per_thread(name: &CStr) -> bool {
    matches!(
        name.to_bytes(),
        [.., b'_', b'p', b't', b'd' | b's', b's' | b'z']
    )
}

/// Enters GPU work on a stream. An error where it may not go on.
#[inline]
fn enter_on(agent: &'static Agent, stream: Stream, clues: Clues<'_>) -> Result<InCall, Status> {
    match InCall::enter(stream.0) {
        Ok(call) => Ok(call),
        Err(Unasked) => enter_asking(agent, stream, clues),
    }
}

#[cold]
fn enter_asking(agent: &'static Agent, stream: Stream, clues: Clues<'_>) -> Result<InCall, Status> {
    if gate::is_inside() {
        return agent.enter_inside(stream);
    }
    let cancellation = put_off();
    let call = catch_unwind(AssertUnwindSafe(|| agent.enter_asking(stream, clues)));
    // The agent failed within.
    let call = ManuallyDrop::new(call.map_err(|_| Status::UNKNOWN));
    cancellation.restore();
    ManuallyDrop::into_inner(call)
}

/// Runs a hook's body; a panic ends here, as an error of the driver.
fn contained(body: impl FnOnce() -> Status) -> Status {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(Status::UNKNOWN)
}
