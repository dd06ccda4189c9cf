//! cuMemFree while a stream captures.
//!
//! A free waits for its context, which would break the capture. The driver allows it to a thread that
//! captures in the relaxed mode (cuThreadExchangeStreamCaptureMode), so it must work: the memory stays
//! until nothing works on the GPU, or memory lacks and no stream captures any more.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::agent::Agent;
use crate::cuda::Status;
use crate::device::Device;
use crate::gate::{InCall, lock};
use crate::memory::Object;
use crate::ops::Detour;

/// What was freed during a capture, and is still there: the address of each object, and which one it
/// was, for its context may end first and others have its address.
#[derive(Debug, Default)]
pub struct Late {
    any: AtomicBool,
    objects: Mutex<BTreeMap<u64, u64>>,
}

impl Late {
    fn add(&self, at: u64, id: u64) {
        let mut objects = lock(&self.objects);
        objects.insert(at, id);
        self.any.store(true, Ordering::Release);
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Acquire)
    }

    /// Whether the program has freed this object.
    pub fn holds(&self, at: u64, id: u64) -> bool {
        !self.is_empty() && lock(&self.objects).get(&at) == Some(&id)
    }

    fn take(&self) -> BTreeMap<u64, u64> {
        let mut objects = lock(&self.objects);
        self.any.store(false, Ordering::Release);
        std::mem::take(&mut *objects)
    }
}

impl Device {
    /// Frees what a capture held up. Nothing works on it any more.
    pub(crate) fn free_late(&self) {
        if self.late.is_empty() {
            return;
        }
        for (freed, id) in self.late.take() {
            let mut memory = self.memory();
            let is_it = |(at, object): (u64, Object)| at == freed && object.id == id;
            if memory.object_at(freed).is_some_and(is_it) {
                // What the driver does not free stays counted.
                let _ = memory.free(freed);
            }
        }
    }
}

impl Agent {
    /// cuMemFree.
    pub fn free(&self, at: u64) -> Detour<()> {
        self.free_ordered(at).or_else(|| {
            self.devices.iter().find_map(|device| {
                let (start, object) = device.memory().object_at(at)?;
                if start != at || device.late.holds(at, object.id) {
                    return Some(Err(Status::INVALID_VALUE));
                }
                if self.work.captures() {
                    device.late.add(at, object.id);
                    return Some(Ok(()));
                }
                device.free(self.driver, at)
            })
        })
    }

    /// Where memory is wanted: frees what a capture held up, if none goes on any more and this thread
    /// may wait for the GPU.
    pub(crate) fn free_late(&self, device: &Device) {
        // A thread within a host function must not wait for its own stream.
        if !device.late.is_empty() && !self.work.captures() && !InCall::begin().is_nested() {
            self.drain(device);
            device.free_late();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::tests::{CHUNK, CONTEXT, MEMORY, bench};
    use crate::cuda::Stream;
    use crate::session::fake_daemon::BOUND;

    #[test]
    fn memory_that_is_freed_in_a_capture_goes_after_it() {
        let bench = bench("late", |_| ());
        let [at, other] = [bench.alloc(CHUNK), bench.alloc(CHUNK)];
        let used = || bench.daemon.block().agent.usage().resident_bytes;
        let before = used();
        let stream = Stream(0x7a);
        bench.agent.work.add_stream(stream);
        let begun = bench.launch(|| {
            bench.agent.begin_capture(stream, || {
                bench.driver.set_capturing(stream, true);
                Status::SUCCESS
            })
        });
        assert_eq!(begun, Status::SUCCESS);
        assert_eq!(bench.agent.free(at), Some(Ok(())));
        let again = bench.agent.free(at);
        assert_eq!(again, Some(Err(Status::INVALID_VALUE)), "it is freed");
        assert_eq!(bench.agent.free(at + 1), Some(Err(Status::INVALID_VALUE)));
        assert_eq!(used(), before);
        let ended = bench.launch(|| {
            bench.agent.end_capture(stream, || {
                bench.driver.set_capturing(stream, false);
                Status::SUCCESS
            })
        });
        assert_eq!(ended, Status::SUCCESS);
        let begun = std::time::Instant::now();
        while used() != before - CHUNK {
            assert!(begun.elapsed() < BOUND, "it stays");
            std::thread::yield_now();
        }
        assert_eq!(bench.agent.free(other), Some(Ok(())));
        assert_eq!(used(), CONTEXT);
    }

    #[test]
    fn memory_that_is_freed_late_is_there_for_who_lacks_it() {
        let bench = bench("late-lacks", |_| ());
        let at = bench.alloc(MEMORY - CONTEXT);
        let stream = Stream(0x7b);
        bench.agent.work.add_stream(stream);
        let begun = bench.agent.begin_capture(stream, || {
            bench.driver.set_capturing(stream, true);
            Status::SUCCESS
        });
        assert_eq!(begun, Status::SUCCESS);
        assert_eq!(bench.agent.free(at), Some(Ok(())));
        let found = bench.agent.allocated_at(at).map(|found| found.is_ok());
        assert_eq!(found, Some(false), "it is freed");
        // It ends unseen.
        bench.driver.set_capturing(stream, false);
        assert_eq!(bench.alloc(MEMORY - CONTEXT), at);
    }

    #[test]
    fn what_has_the_address_of_one_that_went_with_its_context_stays() {
        let bench = bench("late-gone", |_| ());
        let device = &bench.agent.devices[0];
        let at = bench.alloc(CHUNK);
        let (_, object) = device.memory().object_at(at).unwrap();
        device.late.add(at, object.id + 1);
        device.free_late();
        assert!(device.memory().object_at(at).is_some());
        assert!(device.late.is_empty());
    }
}
