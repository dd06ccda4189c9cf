//! cuMemFree while a stream captures.
//!
//! A free waits for its context, which would break the capture. The driver allows it to a thread that
//! captures in the relaxed mode (cuThreadExchangeStreamCaptureMode), so it must work: the memory stays
//! until no stream captures any more.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::agent::Agent;
use crate::cuda::{Context, Status};
use crate::device::Device;
use crate::gate::lock;
use crate::ops::Detour;

/// What was freed during a capture, and is still there.
#[derive(Debug, Default)]
pub struct Late {
    any: AtomicBool,
    objects: Mutex<BTreeSet<u64>>,
}

impl Late {
    fn add(&self, at: u64) -> Result<(), Status> {
        let mut objects = lock(&self.objects);
        self.any.store(true, Ordering::Release);
        if objects.insert(at) {
            Ok(())
        } else {
            Err(Status::INVALID_VALUE)
        }
    }

    fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Acquire)
    }

    fn take(&self) -> BTreeSet<u64> {
        let mut objects = lock(&self.objects);
        self.any.store(false, Ordering::Release);
        std::mem::take(&mut *objects)
    }

    /// Whoever ends a context frees its objects: others may have their addresses then.
    pub(crate) fn forget_all_of(&self, device: &Device, context: Context) {
        if !self.is_empty() {
            let gone = device.memory().objects_of(context);
            lock(&self.objects).retain(|at| !gone.contains(at));
        }
    }
}

impl Agent {
    /// cuMemFree.
    pub fn free(&self, at: u64) -> Detour<()> {
        self.free_late();
        self.free_ordered(at).or_else(|| {
            self.devices.iter().find_map(|device| {
                if self.work.captures() {
                    let (start, _) = device.memory().object_at(at)?;
                    return Some(if start == at {
                        self.late.add(at)
                    } else {
                        Err(Status::INVALID_VALUE)
                    });
                }
                device.free(self.driver, at)
            })
        })
    }

    /// Frees what a capture held up, if none goes on any more.
    pub(crate) fn free_late(&self) {
        if self.late.is_empty() || self.work.captures() {
            return;
        }
        for at in self.late.take() {
            // A context that fails keeps its memory, as it would have then.
            let mut devices = self.devices.iter();
            let _ = devices.find_map(|device| device.free(self.driver, at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::tests::{CHUNK, CONTEXT, bench};
    use crate::cuda::Stream;

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
        assert_eq!(used(), before - CHUNK);
        assert_eq!(bench.agent.free(other), Some(Ok(())));
        assert_eq!(used(), CONTEXT);
    }
}
