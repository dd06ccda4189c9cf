//! The macro that defines an area's exported functions.

use std::ffi::c_uint;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::status::{Result, Status};

/// Runs a function's body: no panic crosses into C.
pub(crate) fn guard(body: impl FnOnce() -> Result<()>) -> c_uint {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(status)) => status as c_uint,
        Err(_) => Status::Unknown as c_uint,
    }
}

/// Defines the exported functions of an area: `fn NAME(args) body` each, where
/// the body gives a `Result<()>`.
macro_rules! api {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name($($arg: $type),*) -> std::ffi::c_uint {
                crate::export::guard(|| $body)
            }
        )*
    };
}

/// Defines exported functions that nothing here stands for.
macro_rules! unsupported {
    ($($name:ident)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name() -> std::ffi::c_uint {
                crate::export::guard(|| {
                    crate::view::is_initialized()?;
                    Err(crate::status::Status::NotSupported)
                })
            }
        )*
    };
}
