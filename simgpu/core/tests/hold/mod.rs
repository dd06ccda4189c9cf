//! Streams that are busy for as long as a test wants. A kernel's time runs out while the host stands
//! still; this does not.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use simgpu_core::driver::{Action, Context, Stream, Until, ValueOp};

/// By then, who waits for the stream waits in vain: the test goes on, and can tell.
const LONGEST: Duration = Duration::from_secs(20);

/// Keeps a stream busy until it is dropped.
pub(crate) struct Held(&'static AtomicU32);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.store(1, SeqCst);
    }
}

/// Lets a stream wait, with all that is submitted from now on.
pub(crate) fn hold(context: &Arc<Context>, stream: &Stream) -> Held {
    let at = context.alloc_host(4096, 0).unwrap();
    let wait = ValueOp {
        address: at as u64,
        value: 1,
        is_wide: false,
        action: Action::Wait(Until::Equal),
    };
    context.value_ops(stream, &[wait]).unwrap();
    // SAFETY: an aligned word of pinned memory that is zero, stays until the process ends and is
    // accessed atomically by all.
    let word = unsafe { AtomicU32::from_ptr(ptr::with_exposed_provenance_mut(at)) };
    thread::spawn(|| {
        thread::sleep(LONGEST);
        drop(Held(word));
    });
    Held(word)
}
