//! The macros that define exported functions, and the table of them from which
//! cuGetProcAddress answers: both come from one list, so they cannot drift.

use std::ffi::c_uint;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use simgpu_core::driver::driver;
use simgpu_core::{Error, Result};

/// One exported function.
pub(crate) struct Export {
    /// Its symbol, such as `cuMemcpyHtoDAsync_v2_ptsz`.
    pub(crate) symbol: &'static str,
    /// The version of CUDA that brought it, as 1000·major + 10·minor; 0 for what cuGetProcAddress does not know.
    pub(crate) since: i32,
    pub(crate) address: unsafe extern "C" fn(),
}

impl Export {
    /// The name it has in cuda.h's documentation: no version, no stream suffix.
    pub(crate) fn base(&self) -> &'static str {
        let name = self
            .symbol
            .trim_end_matches("_ptsz")
            .trim_end_matches("_ptds");
        match name.rsplit_once("_v") {
            Some((base, version)) if version.bytes().all(|byte| byte.is_ascii_digit()) => base,
            _ => name,
        }
    }

    /// Whether cuGetProcAddress gives its address.
    pub(crate) fn is_handed_out(&self) -> bool {
        self.since != 0
    }

    /// Whether its default stream is the calling thread's.
    pub(crate) fn is_per_thread(&self) -> bool {
        self.symbol.ends_with("_ptsz") || self.symbol.ends_with("_ptds")
    }
}

/// Which stream a stream argument of 0 means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum DefaultStream {
    Legacy,
    PerThread,
}

/// Runs a function's body: no panic crosses into C.
pub(crate) fn guard(body: impl FnOnce() -> Result<()>) -> c_uint {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => error as c_uint,
        Err(_) => Error::Unknown as c_uint,
    }
}

/// The same once the driver is initialised; before, no argument is looked at.
pub(crate) fn guard_initialized(body: impl FnOnce() -> Result<()>) -> c_uint {
    guard(|| driver().and_then(|_| body()))
}

/// A call that nothing here stands for; its name is logged once if asked for. `null` is what it says where its first
/// argument is null, initialised or not; NVIDIA's library does not support some calls whatever their arguments are.
pub(crate) fn unsupported(
    symbol: &str,
    logged: &OnceLock<()>,
    first: usize,
    null: Option<Error>,
) -> c_uint {
    logged.get_or_init(|| {
        if std::env::var_os("SIMGPU_LOG").is_some() {
            eprintln!("simgpu: {symbol} is not supported");
        }
    });
    match null.filter(|error| first == 0 || *error == Error::NotSupported) {
        Some(error) => error as c_uint,
        None => guard_initialized(|| Err(Error::NotSupported)),
    }
}

/// Defines the exported functions of an area, and `TABLE` with all of them.
///
/// `VERSION fn NAME(args) body` is one function, `VERSION fn NAME | NAME_ptsz
/// (args) |default| body` two that differ in what stream 0 means.
/// A body gives a `Result<()>`. Before
/// cuInit they say CUDA_ERROR_NOT_INITIALIZED, but for `early fn`, whose body
/// runs then too and may look at arguments first.
///
/// Each function has a section of its own: equal bodies would share one address
/// otherwise, and a probe on one name would fire for another.
macro_rules! api {
    (@items [$($table:tt)*]) => {
        pub(crate) const TABLE: &[crate::export::Export] = &[$($table)*];
    };
    (@items $table:tt $since:literal fn $($rest:tt)*) => {
        api!(@function $table guard_initialized $since $($rest)*);
    };
    (@items $table:tt $since:literal early fn $($rest:tt)*) => {
        api!(@function $table guard $since $($rest)*);
    };
    (@function [$($table:tt)*] $guard:ident $since:literal $name:ident
        ($($arg:ident: $type:ty),* $(,)?) $body:block $($rest:tt)*) => {
        #[unsafe(no_mangle)]
        #[unsafe(link_section = concat!(".text.", stringify!($name)))]
        extern "C" fn $name($($arg: $type),*) -> std::ffi::c_uint {
            crate::export::$guard(|| $body)
        }
        api!(@items [$($table)* api!(@entry $since $name fn($($type),*)),] $($rest)*);
    };
    (@function [$($table:tt)*] $guard:ident $since:literal $name:ident | $per_thread:ident
        ($($arg:ident: $type:ty),* $(,)?) |$default:ident| $body:block $($rest:tt)*) => {
        #[unsafe(no_mangle)]
        #[unsafe(link_section = concat!(".text.", stringify!($name)))]
        extern "C" fn $name($($arg: $type),*) -> std::ffi::c_uint {
            let $default = crate::export::DefaultStream::Legacy;
            crate::export::$guard(|| $body)
        }
        #[unsafe(no_mangle)]
        #[unsafe(link_section = concat!(".text.", stringify!($per_thread)))]
        extern "C" fn $per_thread($($arg: $type),*) -> std::ffi::c_uint {
            let $default = crate::export::DefaultStream::PerThread;
            crate::export::$guard(|| $body)
        }
        api!(@items [$($table)*
            api!(@entry $since $name fn($($type),*)),
            // CUDA 7.0 brought the per-thread stream.
            api!(@entry (if $since > 7000 { $since } else { 7000 }) $per_thread fn($($type),*)),
        ] $($rest)*);
    };
    (@entry $since:tt $name:ident fn($($type:ty),*)) => {
        crate::export::Export {
            symbol: stringify!($name),
            since: $since,
            // SAFETY: the table only carries the address; who calls it knows
            // the function's own type.
            address: unsafe {
                std::mem::transmute::<
                    extern "C" fn($($type),*) -> std::ffi::c_uint,
                    unsafe extern "C" fn(),
                >($name)
            },
        }
    };
    ($($items:tt)*) => {
        api!(@items [] $($items)*);
    };
}

/// Defines exported functions that nothing here stands for, and `TABLE` with all of them: `VERSION NAME;`, or `VERSION NAME
/// (ERROR);` for one with an error of its own for a null first argument.
macro_rules! unsupported {
    ($($since:literal $name:ident $(($null:ident))?;)*) => {
        $(
            #[unsafe(no_mangle)]
            #[unsafe(link_section = concat!(".text.", stringify!($name)))]
            extern "C" fn $name(first: usize) -> std::ffi::c_uint {
                static LOGGED: std::sync::OnceLock<()> = std::sync::OnceLock::new();
                let null = [$(simgpu_core::Error::$null)?].first().copied();
                crate::export::unsupported(stringify!($name), &LOGGED, first, null)
            }
        )*
        pub(crate) const TABLE: &[crate::export::Export] =
            &[$(api!(@entry $since $name fn(usize))),*];
    };
}
