//! Host functions of the program, which its streams run: a stream waits for them, and they may
//! wait for any thread of the program.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::{InCall, lock_briefly};

static HOST_CALLS: Mutex<HostCalls> = Mutex::new(HostCalls {
    begun: 0,
    running: BTreeMap::new(),
});

/// How long a host function may run before threads at a closing gate are let through, because it may be
/// waiting for one of them. Those that wait for nobody take microseconds. Only running functions count:
/// the many short ones that are merely queued wait for no thread, and must not keep a gate open.
const PATIENCE: Duration = Duration::from_millis(2);

struct HostCalls {
    begun: u64,
    /// Those that run, by their number.
    running: BTreeMap<u64, Running>,
}

struct Running {
    since: Instant,
    /// Of the GPUs whose streams may wait for it.
    gates: u64,
}

/// A host function that runs. Its thread counts as within a call: what it calls in turn passes,
/// since blocking it would block the stream that must drain.
#[derive(Debug)]
pub struct HostCall {
    number: u64,
    _call: InCall,
}

impl HostCall {
    /// Around the program's function, in the driver's thread. `gates` are those of the GPUs that
    /// its stream may be on.
    pub fn begin(gates: u64) -> Self {
        let mut call = InCall::begin();
        // Whatever they are now: the job that the stream belongs to goes on.
        let _ = call.goes_through(gates);
        let mut calls = lock_briefly(&HOST_CALLS);
        calls.begun += 1;
        let number = calls.begun;
        let since = Instant::now();
        calls.running.insert(number, Running { since, gates });
        Self {
            number,
            _call: call,
        }
    }
}

impl Drop for HostCall {
    fn drop(&mut self) {
        lock_briefly(&HOST_CALLS).running.remove(&self.number);
    }
}

/// How many host functions began so far, if none of them holds up the GPU of `gate`.
pub fn ended_host_calls(gate: u64) -> Option<u64> {
    let calls = lock_briefly(&HOST_CALLS);
    let mut here = calls.running.values().filter(|call| call.gates & gate != 0);
    here.next().is_none().then_some(calls.begun)
}

/// Whether a host function holds up the GPU of `gate` so long that it may wait for another thread
/// of the program.
pub fn host_call_may_wait(gate: u64) -> bool {
    let calls = lock_briefly(&HOST_CALLS);
    let mut here = calls.running.values().filter(|call| call.gates & gate != 0);
    here.any(|call| call.since.elapsed() >= PATIENCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_host_function_may_wait_for_somebody_on_its_gpu() {
        const GATE: u64 = 1 << 46;
        let began = ended_host_calls(GATE).expect("none runs here");
        let call = HostCall::begin(GATE);
        assert_eq!(ended_host_calls(GATE), None);
        assert!(ended_host_calls(GATE >> 1).is_some());
        std::thread::sleep(2 * PATIENCE);
        assert!(host_call_may_wait(GATE) && !host_call_may_wait(GATE >> 1));
        drop(call);
        assert!(!host_call_may_wait(GATE));
        assert!(ended_host_calls(GATE) > Some(began));
    }
}
