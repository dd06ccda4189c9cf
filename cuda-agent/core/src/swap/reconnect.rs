//! After the daemon's end: another one is looked for, until the orphan timeout has passed.

use std::time::{Duration, Instant};

use crate::agent::Agent;
use crate::log::{debug, say};
use crate::session::ConnectError;

/// How often another daemon is looked for.
const RETRY: Duration = Duration::from_millis(100);

/// A process whose daemon is gone.
#[derive(Debug)]
pub struct Orphan {
    since: Instant,
    tried: Instant,
    alone: bool,
}

/// What came of looking.
pub(super) enum Found {
    /// Nobody yet.
    Nobody,
    /// A new session is in place.
    Daemon,
    /// Everything is resident and the gates are open for good.
    Alone,
}

impl Orphan {
    /// From now on.
    pub fn begin() -> Self {
        Self {
            since: Instant::now(),
            tried: Instant::now(),
            alone: false,
        }
    }

    /// Looks once, if it is time.
    pub(super) fn look(&mut self, agent: &'static Agent) -> Found {
        if self.tried.elapsed() < RETRY {
            return Found::Nobody;
        }
        self.tried = Instant::now();
        if !self.alone {
            match agent.reconnect() {
                Ok(()) => return Found::Daemon,
                Err(ConnectError::NoDaemon(_)) => {}
                Err(error) => debug(format_args!("{error}")),
            }
            if self.since.elapsed() < agent.session().orphan_timeout {
                return Found::Nobody;
            }
            self.alone = true;
            say(format_args!(
                "no rtswapd for {} ms; this process goes on without it, first come, first served",
                agent.session().orphan_timeout.as_millis()
            ));
            for device in &agent.devices {
                device.memory().set_alone();
            }
        }
        let mut all = true;
        for device in &agent.devices {
            if super::requests::bring_all(agent, device) {
                device.go_alone();
            } else {
                all = false;
            }
        }
        if all { Found::Alone } else { Found::Nobody }
    }
}
