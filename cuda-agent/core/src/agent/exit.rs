//! The end of the process by `exit`. Its handlers tear the driver down, and whoever calls the driver
//! then may crash. Our handler runs before the driver's, which was registered earlier: it takes the
//! driver from the swap thread, and from the threads that pin. What runs after it, such as the
//! destructors of static objects, may still use the GPU: while the exiting thread waits at the gate
//! the driver is surely there, and the swap thread has it back for that long.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32};
use std::time::{Duration, Instant};

use super::Agent;
use crate::cancel::put_off;
use crate::futex::{TICK, wait_change, wake_all};

/// How long the end of the process waits for our own threads: copies that fly, a drain, pinning.
const BOUND: Duration = Duration::from_secs(2);

/// The thread that runs the handlers; 0 until there is one.
static EXITING: AtomicI32 = AtomicI32::new(0);
/// That thread waits at the gate.
static AT_GATE: AtomicBool = AtomicBool::new(false);
/// Whether the swap thread may be calling the driver.
static DRIVING: AtomicU32 = AtomicU32::new(0);

/// Whether our threads must leave the driver alone.
pub(crate) fn must_stop() -> bool {
    EXITING.load(SeqCst) != 0 && !AT_GATE.load(SeqCst)
}

/// The swap thread is about to call the driver: returns once it may.
pub(crate) fn take_driver() {
    loop {
        DRIVING.store(1, SeqCst);
        // Either the handler sees the store before, or we its own here.
        if !must_stop() {
            return;
        }
        leave_driver();
        wait_change(&DRIVING, 0, TICK);
    }
}

/// The swap thread calls the driver no more.
pub(crate) fn leave_driver() {
    DRIVING.store(0, SeqCst);
    if EXITING.load(SeqCst) != 0 {
        wake_all(&DRIVING);
    }
}

/// Waits until the swap thread has left the driver.
fn wait_for_driver(until: Instant) {
    while DRIVING.load(SeqCst) != 0 && Instant::now() < until {
        wait_change(&DRIVING, 1, TICK / 20);
    }
}

/// Does what needs the swap thread, such as waiting at the gate.
pub(crate) fn with_swap_thread<T>(wait: impl FnOnce() -> T) -> T {
    let exiting = EXITING.load(SeqCst);
    // No process ends for most of its life: then nobody asks the kernel who this thread is.
    if exiting == 0 || exiting != thread() {
        return wait();
    }
    AT_GATE.store(true, SeqCst);
    wake_all(&DRIVING);
    let result = wait();
    AT_GATE.store(false, SeqCst);
    wait_for_driver(Instant::now() + BOUND);
    result
}

impl Agent {
    /// The process ends: returns once our threads call the driver no more.
    pub(super) fn leave_at_exit(&self) {
        let cancellation = put_off();
        EXITING.store(thread(), SeqCst);
        let until = Instant::now() + BOUND;
        wait_for_driver(until);
        for device in &self.devices {
            while device.is_pinning() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        cancellation.restore();
    }
}

fn thread() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}
