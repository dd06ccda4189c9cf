//! What the hooks ask of the agent, in types. `None` means: not ours, call the driver.

use std::sync::atomic::Ordering;

use crate::agent::{Agent, exit};
use crate::cuda::{Access, Context, MemoryPool, Status, Stream};
use crate::device::Device;
use crate::gate;
use crate::record::AllocKind;
use crate::work::{Capture, in_context};

/// An allocation of the program in the arena, or a mapping of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where it starts.
    pub at: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Start and bytes of the addresses that it lies in: its own, or what was reserved.
    pub range: (u64, u64),
    /// What the current GPU may do with it: CUmemAccess_flags.
    pub rights: u32,
    /// As what the program may export it: CUmemAllocationHandleType.
    pub handle_types: u32,
    /// Its GPU.
    pub ordinal: i32,
    /// Unlike that of any other with an owner of this kind on this GPU.
    pub id: u64,
    /// Whom it ends with.
    pub owner: Owner,
}

/// Whom an allocation ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// cuMemAlloc's context.
    Context(Context),
    /// cuMemAllocAsync's pool.
    Pool(MemoryPool),
    /// cuMemMap: the program's last reference.
    Program,
}

impl Found {
    /// CU_POINTER_ATTRIBUTE_BUFFER_ID: beside what the driver numbers itself, which it does from
    /// below.
    pub fn buffer_id(&self) -> u64 {
        let kind = match self.owner {
            Owner::Context(_) => 0,
            Owner::Pool(_) => 1 << 62,
            Owner::Program => 1 << 55,
        };
        let gpu = u64::from(self.ordinal.cast_unsigned() & 0x3f);
        1 << 63 | kind | gpu << 56 | self.id
    }
}

/// What a hook does instead of the driver's function.
pub type Detour<T> = Option<Result<T, Status>>;

impl Agent {
    /// cuMemAlloc.
    pub fn alloc(&self, bytes: u64) -> Detour<u64> {
        let (device, context) = self.current_known()?;
        Some(self.alloc_object(device, bytes, context))
    }

    fn alloc_object(&self, device: &Device, bytes: u64, context: Context) -> Result<u64, Status> {
        let at = self.under_pressure(device, || device.alloc(bytes, context))?;
        device.record_alloc(bytes, AllocKind::Arena);
        Ok(at)
    }

    /// cuMemAllocPitch: rows of `width` bytes, each aligned. The address and the pitch. None if
    /// the size does not fit into 64 bits: the driver then says what is wrong.
    pub fn alloc_pitch(&self, width: u64, height: u64, element: u32) -> Detour<(u64, u64)> {
        let (device, context) = self.current_known()?;
        if width == 0 || height == 0 || !matches!(element, 4 | 8 | 16) {
            return Some(Err(Status::INVALID_VALUE));
        }
        let sizes = width
            .checked_next_multiple_of(crate::memory::ALIGN)
            .and_then(|pitch| Some((pitch, pitch.checked_mul(height)?)));
        let (pitch, bytes) = sizes?;
        let at = self.alloc_object(device, bytes, context);
        Some(at.map(|at| (at, pitch)))
    }

    /// cuMemGetInfo: free and all.
    pub fn memory_info(&self) -> Option<(u64, u64)> {
        Some(self.current()?.0.memory_info())
    }

    /// Free and total bytes of the managed GPU with this UUID, as cuMemGetInfo shows them.
    pub fn memory_info_of(&self, uuid: [u8; 16]) -> Option<(u64, u64)> {
        let mut devices = self.devices.iter();
        let device = devices.find(|device| device.uuid == uuid)?;
        Some(device.memory_info())
    }

    /// cuDeviceTotalMem.
    pub fn total_memory(&self, ordinal: i32) -> Option<u64> {
        Some(self.device(ordinal)?.total_memory())
    }

    /// What an address of memory of ours is to the program.
    pub fn look_up(&self, address: u64) -> Detour<Found> {
        let allocated = self.allocated_at(address);
        let mapped = || self.mapped_at(address).or_else(|| self.opened_at(address));
        allocated.or_else(|| mapped().map(Ok))
    }

    /// What an address of the arena is to the program.
    pub(crate) fn allocated_at(&self, address: u64) -> Detour<Found> {
        self.devices.iter().find_map(|device| {
            let ordinal = device.ordinal;
            if device.ordered.holds(address) {
                // What was freed is nobody's, although it is there.
                let live = device.ordered.live_around(address);
                let found = live.map(|(live, pool)| Found {
                    at: live.at,
                    bytes: live.bytes,
                    range: (live.at, live.bytes),
                    rights: Access::READ_WRITE,
                    handle_types: 0,
                    ordinal,
                    id: live.id,
                    owner: Owner::Pool(pool),
                });
                return Some(found.ok_or(Status::INVALID_VALUE));
            }
            let (at, object) = device.memory().object_at(address)?;
            if device.late.holds(at, object.id) {
                return Some(Err(Status::INVALID_VALUE));
            }
            Some(Ok(Found {
                at,
                bytes: object.bytes,
                range: (at, object.bytes),
                rights: Access::READ_WRITE,
                handle_types: 0,
                ordinal,
                id: object.id,
                owner: Owner::Context(object.context),
            }))
        })
    }

    /// The program's context and GPU; a context made unseen is learnt and counted now.
    pub(crate) fn current_known(&self) -> Option<(&Device, Context)> {
        let (device, context) = self.current()?;
        let context = self.work.owner_of(context);
        if self.work.add_context(context, device.ordinal, false) {
            device.count_context();
            self.wake.ring();
        }
        Some((device, context))
    }

    /// Before a context is made on a GPU: its memory is taken from the budget. A primary context
    /// that is there already takes nothing.
    pub fn before_context(&self, ordinal: i32, primary: bool) -> Result<bool, Status> {
        self.work.use_gpu(ordinal);
        match self.device(ordinal) {
            Some(device) if !(primary && self.work.primary_on(ordinal).is_some()) => {
                device.reserve_context().map(|()| true)
            }
            _ => Ok(false),
        }
    }

    /// Makes it by `call`, which may lack memory although it was taken from the budget.
    pub fn make_context(&self, ordinal: i32, mut call: impl FnMut() -> Status) -> Status {
        let Some(device) = self.device(ordinal) else {
            return call();
        };
        let made = device.insist(|| match call() {
            Status::SUCCESS => Ok(()),
            status => Err(status.into()),
        });
        made.into()
    }

    /// After it: learns the context, or gives the memory back if there is none.
    pub fn after_context(&self, ordinal: i32, primary: bool, made: Option<Context>, taken: bool) {
        let Some(device) = self.device(ordinal) else {
            return;
        };
        let fresh = made.is_some_and(|context| self.work.add_context(context, ordinal, primary));
        if let Some(context) = made.filter(|_| primary) {
            self.work.use_primary(context);
        }
        if taken && !fresh {
            device.discount_context();
        }
        if fresh {
            // A backing store may wait for a context.
            self.wake.ring();
        }
    }

    /// Before a context ends: its objects are freed, and what of ours lives in it goes.
    pub fn end_context(&self, context: Context) -> Result<(), Status> {
        let Some(ordinal) = self.work.device_of(context) else {
            return Ok(());
        };
        if self.work.is_green(context) {
            // Not to be destroyed so: the driver says no.
            return Ok(());
        }
        let Some(device) = self.device(ordinal) else {
            return Ok(());
        };
        in_context(self.driver, context, || {
            // A broken context has no work left, and must end all the same.
            let _ = self.driver.synchronize();
            device.ordered.end_context(context);
            device.let_all_go(context);
            device.record_end(context);
            // What the driver does not free stays counted.
            let _ = device.memory().free_all_of(context);
            loop {
                // Other contexts' chunks may lie in a backing store that ends with this context:
                // then they come back first, and stay for the length of this call.
                let returning = device.memory().must_return_before(context);
                let _call = returning.then(|| self.enter());
                let _no_pinning = gate::lock(&device.pinning);
                let mut memory = device.memory();
                if memory.must_return_before(context) {
                    // They left meanwhile.
                    continue;
                }
                self.work.remove_context(context);
                if memory.end_context(context)? {
                    device.backing_lost.store(true, Ordering::Release);
                }
                break Ok(());
            }
        })?;
        device.discount_context();
        self.wake.ring();
        Ok(())
    }

    /// Before the program gives one use of a GPU's primary context back, or resets it for all.
    pub fn release_primary(&self, ordinal: i32, reset: bool) -> Result<(), Status> {
        match self.work.primary_on(ordinal) {
            Some(context) if self.work.give_up_primary(context) || reset => {
                self.end_context(context)
            }
            _ => Ok(()),
        }
    }

    /// Begins a capture on a stream by `call`, within GPU work: noted before it begins, so that
    /// nobody asks or drains a stream that captures.
    pub fn begin_capture(&self, stream: Stream, call: impl FnOnce() -> Status) -> Status {
        if self.current().is_none() {
            return call();
        }
        self.work.set_capture(stream, Capture::Begins);
        let status = call();
        let capture = match status {
            Status::SUCCESS => Capture::Goes,
            _ => Capture::No,
        };
        self.work.set_capture(stream, capture);
        status
    }

    /// Ends a capture on a stream by `call`, which may fail before or after the end.
    pub fn end_capture(&self, stream: Stream, call: impl FnOnce() -> Status) -> Status {
        let captured = self.driver.stream_captures(stream);
        let status = call();
        if captured && self.current().is_some() && !self.driver.stream_captures(stream) {
            self.work.set_capture(stream, Capture::No);
            if self.devices.iter().any(|device| !device.late.is_empty()) {
                // The swap thread frees them once the GPU is idle.
                self.wake.ring();
            }
        }
        status
    }

    /// rtswap_job_begin, or rtswap_job_begin_named with a name: returns once the job may run.
    pub fn job_begin(&self, name: Option<&str>) {
        let Some(device) = self.job_device() else {
            return;
        };
        if !device.declare(name) {
            return;
        }
        // What ran undeclared ends first: the declared job is a job of its own.
        while device.runs() && !self.work.captures() {
            self.drain(device);
            if device.end_job(&self.work, self.session().drain_bound) {
                break;
            }
        }
        // Its end will be declared: the swap thread is not woken to look for it.
        exit::with_swap_thread(|| device.admit(|| {}));
    }

    /// rtswap_job_end: returns once all work of the job is done and the daemon was told.
    pub fn job_end(&self) {
        // Another context may be current by now than when the job began.
        let here = self.job_device().filter(|device| device.is_declared());
        let Some(device) = here.or_else(|| self.devices.iter().find(|device| device.is_declared()))
        else {
            return;
        };
        if !device.undeclare() {
            return;
        }
        self.drain(device);
        // A capture or another thread's work goes on: the swap thread finds the end.
        if !device.end_job(&self.work, self.session().drain_bound) {
            self.wake.ring();
        }
    }

    /// Waits for all contexts of a GPU, with the gate open and no lock held.
    pub(crate) fn drain(&self, device: &Device) {
        if self.work.captures() {
            return;
        }
        for context in self.work.contexts_on(device.ordinal) {
            // A broken context has nothing to wait for.
            let _ = in_context(self.driver, context, || self.driver.synchronize());
        }
    }

    /// The GPU that a declared job is on: the current context's, or the only managed one.
    fn job_device(&self) -> Option<&Device> {
        // The usual one need not be asked for.
        if let [only] = self.devices.as_slice() {
            return Some(only);
        }
        match self.current() {
            Some((device, _)) => Some(device),
            None => self.devices.first(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::tests::bench;

    #[test]
    fn rows_whose_bytes_no_number_holds_are_the_drivers_to_refuse() {
        let bench = bench("rows", |_| ());
        for (width, height) in [(u64::MAX / 2, 8), (u64::MAX, 1)] {
            assert_eq!(bench.agent.alloc_pitch(width, height, 4), None);
        }
        let refused = Some(Err(Status::INVALID_VALUE));
        assert_eq!(bench.agent.alloc_pitch(0, 8, 4), refused);
    }
}
