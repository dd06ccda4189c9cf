//! How a hooked call gets in: through the gates of the GPUs that it works on, with its stream
//! marked.

use crate::agent::{Agent, exit};
use crate::cuda::{Context, Stream};
use crate::device::Device;
use crate::gate::{self, InCall, Unasked};

/// What an argument of a call says of the GPUs that it works on, beside the current context's.
#[derive(Clone, Copy, Debug)]
pub enum Clue {
    /// An address that the GPU reads or writes.
    Address(u64),
    /// A context.
    Context(Context),
    /// The GPU with this gate.
    Gate(u64),
    /// Any GPU may be meant.
    Every,
}

/// Tells all clues of a call.
pub type Clues<'a> = &'a dyn Fn(&mut dyn FnMut(Clue));

impl Agent {
    /// Enters GPU work of the current context, as [`Self::enter_on`].
    pub fn enter(&self) -> InCall {
        self.enter_on(Stream::LEGACY, &|_| ())
    }

    /// Enters GPU work on a stream: returns once the gates of its GPUs are open. The work may go on
    /// as long as the guard lives.
    #[inline]
    pub fn enter_on(&self, stream: Stream, clues: Clues<'_>) -> InCall {
        match InCall::enter(stream.0) {
            Ok(call) => call,
            Err(Unasked) => self.enter_asking(stream, clues),
        }
    }

    /// As [`Self::enter_on`], where that cannot tell by itself.
    #[cold]
    pub fn enter_asking(&self, stream: Stream, clues: Clues<'_>) -> InCall {
        let mut call = InCall::begin();
        if !call.is_nested() {
            call = self.torture(call);
        }
        let mut gates = u64::MAX;
        if !call.is_nested() && call.goes_through(gates) != 0 {
            gates = self.gates_of(stream, clues);
            call = self.pass(call, gates);
        }
        if !call.take(stream.0) {
            self.work.mark(&call, stream, gates);
        }
        call
    }

    /// Tortures the current GPU's memory before the call, if that is asked for.
    fn torture(&self, call: InCall) -> InCall {
        let Some(torture) = &self.config.torture else {
            return call;
        };
        let Some((device, _)) = self.current() else {
            return call;
        };
        drop(call);
        torture.inflict(self, device);
        InCall::begin()
    }

    /// The gate of the GPU that a stream is on, managed or not.
    pub fn gates_on(&self, stream: Stream) -> u64 {
        self.gates_of(stream, &|_| ())
    }

    /// The gates of all GPUs that the call works on.
    fn gates_of(&self, stream: Stream, clues: Clues<'_>) -> u64 {
        // Without a context the driver refuses the call; on an unmanaged GPU it goes ahead.
        let mut gates = self.current().map_or(0, |(device, _)| device.bit);
        let gate_on = |ordinal: Option<i32>| {
            let device = ordinal.and_then(|ordinal| self.device(ordinal));
            device.map_or(0, |device| device.bit)
        };
        // A copy may be put on a stream of another GPU than the current one.
        gates |= gate_on(self.work.device_of_stream(stream));
        clues(&mut |clue| {
            gates |= match clue {
                Clue::Gate(gate) => gate,
                Clue::Context(context) => gate_on(self.work.device_of(context)),
                Clue::Address(at) => self.gates_where(|device| device.holds(at)),
                Clue::Every => self.gates_where(Device::is_armed),
            };
        });
        gates
    }

    fn gates_where(&self, mut meant: impl FnMut(&Device) -> bool) -> u64 {
        let devices = self.devices.iter().filter(|device| meant(device));
        devices.fold(0, |gates, device| gates | device.bit)
    }

    /// Waits until all `gates` are open, or let the call through. Who needs several takes them in
    /// the order of the GPUs' numbers, and is in no call while it waits, so that a job that it has
    /// on a later GPU can end meanwhile.
    fn pass(&self, mut call: InCall, gates: u64) -> InCall {
        let mut draining = 0;
        loop {
            let closed = call.goes_through(gates) & !draining;
            let Some(device) = self.devices.iter().find(|device| device.bit & closed != 0) else {
                break;
            };
            if device.passes_drain() {
                draining |= device.bit;
                continue;
            }
            drop(call);
            draining = 0;
            exit::with_swap_thread(|| device.admit(|| self.wake.ring()));
            call = InCall::begin();
        }
        if gate::tells_apart() {
            let devices = self.devices.iter();
            devices
                .filter(|device| device.bit & gates != 0)
                .for_each(Device::count_call);
        }
        call
    }
}
