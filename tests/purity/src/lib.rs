//! The pure crates in a program without an operating system: as a static library with a panic
//! handler and an allocator of its own. If one of them, or anything that it depends on, linked the
//! standard library, there would be two panic handlers, and rustc would refuse it (E0152).
//! `cargo xtask pure` builds it so. In a build of the whole workspace the crates around it have std.
#![cfg_attr(feature = "bare", no_std)]

pub use rtswap_engine::Engine;
pub use rtswap_planner as planner;
pub use rtswap_policy::scheduler::Scheduler;
pub use rtswap_simulator as simulator;

/// What a program without an operating system brings itself.
#[cfg(feature = "bare")]
mod bare {
    use core::alloc::{GlobalAlloc, Layout};
    use core::panic::PanicInfo;

    /// No memory at all: the library is linked, not run.
    struct Nothing;

    // SAFETY: a null pointer says that there is no memory, so nothing is ever taken back.
    unsafe impl GlobalAlloc for Nothing {
        unsafe fn alloc(&self, _: Layout) -> *mut u8 {
            core::ptr::null_mut()
        }

        unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
    }

    #[global_allocator]
    static ALLOCATOR: Nothing = Nothing;

    #[panic_handler]
    fn panic(_: &PanicInfo<'_>) -> ! {
        loop {
            core::hint::spin_loop();
        }
    }
}
