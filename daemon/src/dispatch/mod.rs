//! The one thread that owns the engine and the control pages; nothing else touches them, so there is
//! no lock. It decides nothing.
//!
//! `run` waits and takes what came in its order; `inputs` turns it into the engine's inputs, `doorbells`
//! what agents write, and `effects` carries out its outputs; `start` begins with what the daemon before left. `agents` is
//! what the thread keeps of agents, `calls` of calls; `token` names descriptors. `message` is how
//! others talk to the thread, `publish` what they may see, a `snapshot`.

mod agents;
mod calls;
mod doorbells;
mod effects;
mod inputs;
mod message;
mod publish;
mod run;
mod snapshot;
mod start;
mod token;

pub use calls::OpenCall;
pub(crate) use calls::error_of;
pub use message::{Handle, Request};
pub use publish::TaskNews;
pub use snapshot::Snapshot;
pub use start::{Parts, Running, start};

use std::sync::Arc;

use rtswap_engine::Engine;

use crate::config::DaemonConfig;
use crate::source::cgroups::Cgroups;
use crate::source::gpu::Poller;
use crate::source::probes::Prober;
use crate::state::{Calibrations, Keeper, RunTimeRules};
use crate::sys::poll::Poll;
use agents::Agents;
use calls::Calls;
use message::Inbox;
use publish::Publisher;

/// All that the dispatch thread owns.
struct Dispatcher {
    engine: Engine,
    poll: Poll,
    inbox: Inbox,
    agents: Agents,
    calls: Calls,
    publisher: Publisher,
    keeper: Keeper,
    calibrations: Calibrations,
    run_time_rules: RunTimeRules,
    config: DaemonConfig,
    /// Reads NVML on a thread of its own.
    nvml: Poller,
    /// Those of all connections' processes.
    cgroups: Arc<Cgroups>,
    /// Ends the thread that reads the probes with this one.
    _prober: Option<Prober>,
}
