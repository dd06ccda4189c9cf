//! How a hooked call gets in: through the gates of the GPUs that it works on, with its stream
//! marked.

use crate::agent::{Agent, exit};
use crate::cuda::{Context, Status, Stream};
use crate::device::Device;
use crate::gate::{self, InCall, Unasked};
use crate::torture::Torture;

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
        if let Some(torture) = self.config.torture
            && !call.is_nested()
        {
            call = self.inflict(torture, call);
        }
        let mut gates = u64::MAX;
        if !call.is_nested() && call.goes_through(gates) != 0 {
            // Not in a call while the driver is asked: whoever comes back in would take it for one that
            // has passed.
            drop(call);
            gates = self.gates_of(stream, clues);
            call = self.pass(InCall::begin(), gates);
        }
        if !call.take(stream.0) {
            self.work.mark(&call, stream, gates);
        }
        call
    }

    /// Enters GPU work that is asked for from inside the agent: by a callback of the driver, in a call
    /// of the agent's own or with its locks held.
    ///
    /// Nothing can be waited for here: this thread may be the one that has to open the gate, or hold
    /// what that one needs. Nor may the work go past a closed gate, behind which memory leaves or is
    /// gone. So it passes where the thread is in a call, or finds the gates of all GPUs open, since
    /// which ones it goes through cannot be found out without the locks. A closer waits for it as for
    /// any other call.
    ///
    /// The call that the thread is in must have passed before. So whoever begins one looks at its gates
    /// before the driver is asked anything, and ends it if the driver must be asked first.
    ///
    /// # Errors
    /// [`Status::NOT_PERMITTED`] behind a closed gate: what drivers say where they cannot be called.
    pub fn enter_inside(&self, stream: Stream) -> Result<InCall, Status> {
        let mut call = InCall::begin();
        if !call.is_nested() && call.goes_through(self.gates_where(|_| true)) != 0 {
            return Err(Status::NOT_PERMITTED);
        }
        self.work.note_work(stream);
        Ok(call)
    }

    /// Tortures the current GPU's memory before the call.
    fn inflict(&self, torture: Torture, call: InCall) -> InCall {
        // Not in a call that has not passed while the driver is asked: see `enter_inside`.
        drop(call);
        if let Some((device, _)) = self.current() {
            torture.inflict(self, device);
        }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex, mpsc};
    use std::thread;

    use rtswap_wire::page::{Direction, SwapOutcome};

    use super::*;
    use crate::agent::tests::{CHUNK, bench, pattern};
    use crate::gate::{is_inside, lock_briefly};

    /// A tool that launches from within each call of the agent's, under whichever locks.
    #[test]
    fn work_from_inside_finds_its_memory_or_is_refused() {
        const STREAM: Stream = Stream(0x440);
        let mut bench = bench("from-inside", |_| ());
        let (agent, driver) = (bench.agent, bench.driver);
        let at = bench.alloc(4 * CHUNK);
        let bytes = pattern(5, 4 * CHUNK as usize - 1);
        bench.launch(|| driver.write(at + 1, &bytes)).unwrap();
        bench.idle();
        bench.daemon.set_volume(4 * CHUNK);
        let [passed, refused] = [(); 2].map(|()| Arc::new(Mutex::new(BTreeSet::new())));
        let (let_in, kept_out) = (Arc::clone(&passed), Arc::clone(&refused));
        let lost = Arc::new(Mutex::new(BTreeSet::new()));
        let missed = Arc::clone(&lost);
        driver.subscribe(Some(Arc::new(move |name| {
            assert!(is_inside());
            match agent.enter_inside(STREAM) {
                Ok(_call) => {
                    lock_briefly(&let_in).insert(name);
                    if driver.write(at, &[1]).is_err() {
                        lock_briefly(&missed).insert(name);
                    }
                }
                Err(status) => {
                    assert_eq!(status, Status::NOT_PERMITTED);
                    lock_briefly(&kept_out).insert(name);
                }
            }
        })));
        for _ in 0..10 {
            let outcome = bench.daemon.swap(Direction::Out, 4 * CHUNK);
            assert_eq!(outcome, SwapOutcome::Done);
            // Asks which gates are its own while the memory is away.
            let read = std::thread::spawn(move || {
                let _call = agent.enter();
                agent.alloc(CHUNK).unwrap().unwrap();
                driver.read(at + 1, 4 * CHUNK as usize - 1)
            });
            bench.daemon.until("a job", |block| {
                let jobs = block.agent.jobs()?;
                (jobs.requested != jobs.completed).then_some(())
            });
            assert_eq!(bench.daemon.swap(Direction::In, 0), SwapOutcome::Done);
            bench.grant_until(|| read.is_finished());
            assert!(read.join().unwrap().unwrap() == bytes);
            bench.idle();
        }
        driver.subscribe(None);
        assert!(lock_briefly(&lost).is_empty(), "past the gate: {lost:?}");
        assert!(!lock_briefly(&passed).is_empty(), "never let in");
        let refused = lock_briefly(&refused);
        for name in ["unmap", "copy_out", "copy_in", "current_context"] {
            assert!(refused.contains(name), "{name} is not among {refused:?}");
        }
    }

    #[test]
    fn who_tortures_is_in_no_call_while_the_driver_is_asked() {
        let bench = bench("torture-asks", |_| ());
        bench.alloc(CHUNK);
        bench.launch(|| ());
        bench.idle();
        let (agent, driver) = (bench.agent, bench.driver);
        assert!(!gate::is_open(agent.devices[0].bit));
        let (say, said) = mpsc::channel();
        std::thread::scope(|scope| {
            let tortured = scope.spawn(move || {
                let me = thread::current().id();
                driver.subscribe(Some(Arc::new(move |name| {
                    if thread::current().id() == me {
                        let entered = agent.enter_inside(Stream::LEGACY).map(drop);
                        say.send((name, entered)).unwrap();
                    }
                })));
                let _call = agent.inflict(Torture::EveryCall, InCall::begin());
                driver.subscribe(None);
            });
            bench.grant_until(|| tortured.is_finished());
            tortured.join().unwrap();
        });
        let first = said.recv().unwrap();
        assert_eq!(first, ("current_context", Err(Status::NOT_PERMITTED)));
    }
}
