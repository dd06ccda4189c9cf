//! The one thread that owns the schedulers, the sessions and the control pages; nothing else
//! touches them, so there is no lock. It decides nothing: `run` waits, `feed` hands events to a
//! scheduler and its commands to `effect`; `hello`, `death` and `calls` turn what happens to
//! sessions and registrations into events, `memory` what NVML shows, `probed` what the probes count;
//! `enforce` answers violations; `recovery` takes over from
//! the daemon before; `reload` takes the administrator's files again; `snapshot`, `processes`,
//! `statistics` and `plan` are what others may see; `message` is how they ask.

mod calls;
mod death;
mod effect;
mod enforce;
mod feed;
mod gpu;
mod hello;
mod memory;
mod message;
mod plan;
mod probed;
mod processes;
mod recovery;
mod reload;
mod run;
mod snapshot;
mod statistics;

pub use message::{Caller, Handle, News, Request};
pub use probed::ProbedView;
pub use run::{Parts, Running, start};
pub use snapshot::{Device, Process, Snapshot};

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};

use rtswap_policy::scheduler::Event;
use rtswap_policy::task::TaskId;
use rtswap_policy::units::Time;
use tokio::sync::{broadcast, watch};

use crate::agent::listener::Listener;
use crate::agent::session::Session;
use crate::config::Config;
use crate::ledger::Graces;
use crate::members::{MemberId, Members};
use crate::quota::Quota;
use crate::registry::{RegistrationId, Registry, StateFile};
use crate::source::probes::Prober;
use crate::sys::poll::Poll;
use enforce::Sentence;
use gpu::Gpu;
use memory::Nvml;
use probed::Probes;
use recovery::Recovery;
use statistics::Statistics;

/// A task in one GPU's scheduler. A registration has one for each GPU that it uses: a realtime
/// task on its own GPU from its registration, any other from the first sign of life there.
#[derive(Debug)]
struct Place {
    registration: RegistrationId,
    gpu: usize,
    /// The scheduler has been told that the registration ended.
    ended: bool,
    /// Its processes.
    members: Members,
}

/// Names a session: that of one process of a registration.
type SessionId = (RegistrationId, MemberId);

/// All that the dispatch thread owns.
struct Dispatcher {
    config: Config,
    poll: Poll,
    inbox: mpsc::Receiver<Request>,
    wake: Arc<OwnedFd>,
    listener: Listener,
    gpus: Vec<Gpu>,
    registry: Registry,
    sessions: BTreeMap<SessionId, Session>,
    /// The session that a connection number in an epoll token belongs to.
    connections: BTreeMap<u64, SessionId>,
    next_connection: u64,
    places: BTreeMap<TaskId, Place>,
    tasks: BTreeMap<(RegistrationId, usize), TaskId>,
    next_task: u32,
    /// Whose processes may have more to say.
    restless: Vec<TaskId>,
    statistics: BTreeMap<RegistrationId, Statistics>,
    /// When the memory of a dead process counts as gone, where NVML does not tell.
    graces: Graces,
    nvml: Nvml,
    probes: Probes,
    /// Ends the thread that reads them with this one.
    _prober: Option<Prober>,
    recovery: Recovery,
    /// Room for what a look at a page shows; empty between two looks.
    events: Vec<Event>,
    /// Registrations of `tasks.d` whose GPU is not known yet, with what their files say of it.
    unplaced: BTreeMap<RegistrationId, Option<String>>,
    state_file: StateFile,
    /// The state file is out of date.
    unsaved: bool,
    /// Since when the eligible times in it are.
    stale_since: Option<Time>,
    /// The snapshot is out of date.
    unpublished: bool,
    published_at: Time,
    swept_at: Time,
    snapshot: watch::Sender<Arc<Snapshot>>,
    news: broadcast::Sender<News>,
    epoch: u64,
    /// About agents that talk nonsense.
    complaints: Quota,
    /// What is to follow from violations.
    sentences: Vec<Sentence>,
}

impl Dispatcher {
    /// The task of a registration on a GPU, if there is one.
    fn task_on(&self, registration: RegistrationId, gpu: usize) -> Option<TaskId> {
        self.tasks.get(&(registration, gpu)).copied()
    }

    /// All tasks of a registration.
    fn tasks_of(&self, registration: RegistrationId) -> Vec<TaskId> {
        let all = (registration, 0)..=(registration, usize::MAX);
        self.tasks.range(all).map(|(_, task)| *task).collect()
    }

    /// The sessions of a registration, the oldest process first.
    fn sessions_of(
        &self,
        registration: RegistrationId,
    ) -> impl Iterator<Item = (SessionId, &Session)> {
        let all = (registration, MemberId(0))..=(registration, MemberId(u64::MAX));
        self.sessions.range(all).map(|(id, session)| (*id, session))
    }

    /// The processes of a task, as one.
    fn members(&mut self, task: TaskId) -> Option<&mut Members> {
        Some(&mut self.places.get_mut(&task)?.members)
    }
}
