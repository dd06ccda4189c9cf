//! tokio → dispatch: calls, each answered by a oneshot. NVML's and the probes' threads
//! → dispatch: samples.
//! Dispatch → tokio: the snapshot, by watch, and news, by broadcast.

use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};

use rtswap_dbus::Error;
use tokio::sync::{broadcast, oneshot, watch};

use super::Snapshot;
use crate::config::{Config, TaskFile};
use crate::registry::{Declaration, RegistrationId};
use crate::source::gpu::Sample;
use crate::source::probes::ProbeSample;

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Its user.
    pub uid: u32,
    /// Root or the daemon's own user, or allowed by polkit for this call.
    pub privileged: bool,
}

/// One call.
#[derive(Debug)]
pub enum Request {
    /// `Manager1.Register`, and with a lease `Manager1.RegisterWithLease`.
    Register {
        /// Who calls.
        caller: Caller,
        /// What it declares.
        declaration: Declaration,
        /// The only process that may claim it.
        process: Option<OwnedFd>,
        /// The end of a pipe whose other end the caller holds.
        lease: Option<OwnedFd>,
        /// The registration's number.
        reply: oneshot::Sender<Result<RegistrationId, Error>>,
    },
    /// `Manager1.Unregister`.
    Unregister {
        /// Who calls.
        caller: Caller,
        /// Which.
        registration: RegistrationId,
        /// Done.
        reply: oneshot::Sender<Result<(), Error>>,
    },
    /// `Manager1.Plan`.
    Plan {
        /// The JSON.
        reply: oneshot::Sender<Result<String, Error>>,
    },
    /// `Manager1.Reload` and SIGHUP: what the files say now.
    Reload {
        /// rtswapd.toml.
        config: Config,
        /// tasks.d.
        tasks: Vec<TaskFile>,
        /// Done.
        reply: oneshot::Sender<Result<(), Error>>,
    },
    /// Whether the thread lives.
    Ping {
        /// It does.
        reply: oneshot::Sender<Result<(), Error>>,
    },
    /// What NVML showed; from its own thread.
    Sample(Sample),
    /// What the probes count; from their own thread.
    Probed(ProbeSample),
    /// End the thread.
    Stop,
}

/// What happened once. Whoever is told of it decides nothing by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// A job ended late.
    DeadlineMissed {
        /// Whose.
        task: RegistrationId,
        /// Which.
        job: u64,
        /// By how much, rounded up.
        lateness_us: u64,
        /// Where its time went.
        cause: String,
    },
    /// A promise was broken.
    Violation {
        /// Whose.
        task: RegistrationId,
        /// What, in one word.
        kind: &'static str,
        /// In words and numbers.
        detail: String,
    },
}

/// News that wait for a slow listener; the oldest are lost to it then.
pub(super) const NEWS: usize = 256;

/// How others talk to the dispatch thread.
#[derive(Clone, Debug)]
pub struct Handle {
    requests: mpsc::Sender<Request>,
    wake: Arc<OwnedFd>,
    snapshot: watch::Receiver<Arc<Snapshot>>,
    news: broadcast::Sender<News>,
}

impl Handle {
    pub(super) fn new(
        requests: mpsc::Sender<Request>,
        wake: Arc<OwnedFd>,
        snapshot: watch::Receiver<Arc<Snapshot>>,
        news: broadcast::Sender<News>,
    ) -> Self {
        Self {
            requests,
            wake,
            snapshot,
            news,
        }
    }

    /// Makes a call and waits for its answer. The snapshot shows its effect by then.
    pub async fn call<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Request,
    ) -> Result<T, Error> {
        let gone = || Error::AgentLost("rtswapd is ending: its dispatch thread has stopped".into());
        let (reply, answer) = oneshot::channel();
        self.requests.send(request(reply)).map_err(|_| gone())?;
        self.wake();
        answer.await.map_err(|_| gone())?
    }

    /// Hands over what NVML showed. False once the thread has ended.
    pub fn sample(&self, sample: Sample) -> bool {
        let sent = self.requests.send(Request::Sample(sample)).is_ok();
        self.wake();
        sent
    }

    /// Hands over what the probes count. False once the thread has ended.
    pub fn probed(&self, sample: ProbeSample) -> bool {
        let sent = self.requests.send(Request::Probed(sample)).is_ok();
        self.wake();
        sent
    }

    /// Ends the thread.
    pub fn stop(&self) {
        if self.requests.send(Request::Stop).is_ok() {
            self.wake();
        }
    }

    /// What is known now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.borrow())
    }

    /// To be told when it changes.
    pub fn watch(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshot.clone()
    }

    /// To be told what happens from now on.
    pub fn news(&self) -> broadcast::Receiver<News> {
        self.news.subscribe()
    }

    fn wake(&self) {
        // A counter that is full has woken the thread already.
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
    }
}
