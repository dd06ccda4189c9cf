//! One hook for each driver function that rtswap must see, listed once in the `hooks!` table of
//! its area: the table makes the exported symbol and what `dlsym` and `cuGetProcAddress` hand out.
//! Hooks only translate: FFI here, logic in the core crate.

mod alloc;
mod array;
mod batch;
mod context;
mod copy;
mod dlsym;
mod job;
mod launch;
mod pool;
mod procaddr;
mod query;
mod real;
mod stream;

use core::ffi::{CStr, c_void};
use core::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rtswap_agent_core::agent::Agent;
use rtswap_agent_core::cancel::put_off;
use rtswap_agent_core::cuda::Status;
use rtswap_agent_core::gate::InCall;

use real::Real;

/// The address of a driver function, whatever its type.
type Address = *mut c_void;

/// A hooked function.
pub(crate) struct Hook {
    /// Its exported name.
    name: &'static CStr,
    /// Our function.
    address: unsafe extern "C" fn(),
    /// The driver's function.
    real: &'static Real,
}

/// Every hook.
fn all() -> impl Iterator<Item = &'static Hook> {
    [
        alloc::HOOKS,
        array::HOOKS,
        batch::HOOKS,
        context::HOOKS,
        copy::HOOKS,
        launch::HOOKS,
        pool::HOOKS,
        procaddr::HOOKS,
        query::HOOKS,
        stream::HOOKS,
    ]
    .into_iter()
    .flatten()
}

/// Makes the hooks of one area: `VIA: NAME, … (ARGUMENTS);`. Via `gated` a function is GPU work
/// and otherwise the driver's own; any other `VIA` is a function here that gets the real one as
/// its first argument. `NAME` also becomes a module with the function's type and its real address.
macro_rules! hooks {
    ($($via:ident: $($name:ident),+ ($($arg:ident: $ty:ty),* $(,)?);)+) => {
        pub(super) static HOOKS: &[$crate::hooks::Hook] = &[$($(
            $crate::hooks::Hook {
                name: $name::NAME,
                // SAFETY: only its address counts; nobody calls it by this type.
                address: unsafe { core::mem::transmute::<$name::Function, unsafe extern "C" fn()>($name) },
                real: &$name::REAL,
            },
        )+)+];
        $($crate::hooks::hooks!(@names $via [$($name)+] ($($arg: $ty),*));)+
    };
    (@names $via:ident [$($name:ident)+] $args:tt) => {
        $($crate::hooks::hooks!(@one $via $name $args);)+
    };
    (@one $via:ident $name:ident ($($arg:ident: $ty:ty),*)) => {
        #[expect(non_snake_case, reason = "the driver's name")]
        mod $name {
            #[allow(unused_imports, clippy::wildcard_imports, reason = "the arguments' types")]
            use super::*;
            pub(super) type Function =
                unsafe extern "C-unwind" fn($($ty),*) -> rtswap_agent_core::cuda::Status;
            pub(super) static REAL: $crate::hooks::real::Real = $crate::hooks::real::Real::new();
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
            // SAFETY: the driver's function of this name has this signature.
            let real = unsafe { core::mem::transmute::<$crate::hooks::Address, $name::Function>(address) };
            $crate::hooks::hooks!(@call $via real ($($arg),*))
        }
    };
    (@call gated $real:ident ($($arg:ident),*)) => {{
        let Some(agent) = rtswap_agent_core::agent::agent() else {
            // SAFETY: the caller's arguments for the function that it called.
            return unsafe { $real($($arg),*) };
        };
        let Some(call) = $crate::hooks::enter(agent) else {
            return rtswap_agent_core::cuda::Status::UNKNOWN;
        };
        // A thread that is cancelled in the driver unwinds this frame, which may have nothing to
        // drop; the thread's end then ends the call.
        let call = core::mem::ManuallyDrop::new(call);
        // SAFETY: as above.
        let status = unsafe { $real($($arg),*) };
        drop(core::mem::ManuallyDrop::into_inner(call));
        status
    }};
    (@call $via:ident $real:ident ($($arg:ident),*)) => {{
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

/// Enters GPU work. Nothing if the agent failed within.
#[inline]
fn enter(agent: &'static Agent) -> Option<InCall> {
    agent.try_enter().or_else(|| enter_closed(agent))
}

/// Waits at a closed gate.
#[cold]
fn enter_closed(agent: &'static Agent) -> Option<InCall> {
    let cancellation = put_off();
    let call = ManuallyDrop::new(catch_unwind(AssertUnwindSafe(|| agent.enter())).ok());
    cancellation.restore();
    ManuallyDrop::into_inner(call)
}

/// Runs a hook's body; a panic ends here, as an error of the driver.
fn contained(body: impl FnOnce() -> Status) -> Status {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(Status::UNKNOWN)
}
