//! A gate of its own for each bench. A process has fewer gates than there are tests, so that they are
//! given again, and what closes one must not be seen by another test that goes on at the same time.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use super::super::{Agent, Config, NEXT_BIT};
use crate::driver::Driver;
use crate::gate::{GATES, lock};
use crate::session::fake_daemon::Daemon;

/// The gates of all benches that there are now.
static TAKEN: Mutex<u64> = Mutex::new(0);

/// A bench's gates, until it is dropped.
pub(super) struct Gates(u64);

impl Gates {
    /// Starts a daemon and an agent with one GPU. No other bench has its gate, unless all gates are
    /// taken.
    pub(super) fn start(
        driver: &'static dyn Driver,
        config: Config,
        welcome: impl FnOnce() -> Daemon,
    ) -> (&'static Agent, Daemon, Self) {
        let mut taken = lock(&TAKEN);
        for _ in 0..GATES {
            let next = 1 << (NEXT_BIT.load(Ordering::Relaxed) % GATES);
            if *taken & next == 0 {
                break;
            }
            NEXT_BIT.fetch_add(1, Ordering::Relaxed);
        }
        let (agent, daemon) = std::thread::scope(|scope| {
            let started = scope.spawn(|| Agent::start(driver, config));
            let daemon = welcome();
            (started.join().unwrap().unwrap(), daemon)
        });
        let devices = agent.devices.iter();
        let gates = devices.fold(0, |gates, device| gates | device.bit);
        *taken |= gates;
        (agent, daemon, Self(gates))
    }
}

impl Drop for Gates {
    fn drop(&mut self) {
        *lock(&TAKEN) &= !self.0;
    }
}
