//! The channels between the dispatch thread and all other threads.

use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};

use rtswap_dbus::Error;
use rtswap_engine::input::Call;
use rtswap_engine::registry::MAX_TASKS;
use rtswap_engine::sample::{HostSample, ProbeSample, Sample};
use rtswap_engine::status::GpuPlan;
use rustix::event::{EventfdFlags, eventfd};
use tokio::sync::{broadcast, oneshot, watch};

use super::Snapshot;
use super::calls::OpenCall;
use super::publish::{MOST_NEWS, Publisher, TaskNews};

/// A call to the dispatch thread. `reply` takes its result, once all can see what it changed.
#[derive(Debug)]
#[expect(missing_docs, reason = "each variant's doc says what its fields are")]
pub enum Request {
    /// A call of the engine, and what is done with its answer.
    Call(Box<Call>, OpenCall),
    /// `Manager1.Plan`: `reply` takes the plan of all GPUs.
    Plan {
        reply: oneshot::Sender<Result<Vec<GpuPlan>, Error>>,
    },
    /// Answered at once, which shows that the thread still takes calls.
    Ping {
        reply: oneshot::Sender<Result<(), Error>>,
    },
    /// End the thread.
    Stop,
}

/// A message from a thread that reads or writes beside the dispatch thread. It has no answer.
#[derive(Debug)]
pub(super) enum Notice {
    /// NVML was read.
    Nvml(Sample),
    /// The probes were read.
    Probes(ProbeSample),
    /// The machine's memory was looked at.
    Host(HostSample),
    /// A checkpoint with the records up to this position in the journal was written.
    Checkpointed(u64),
}

/// The most news that wait for a slow listener; beyond them, it loses the oldest. One snapshot brings no more.
const NEWS: usize = MOST_NEWS * MAX_TASKS;

/// The other threads' end of the channels: calls go in, snapshots and news come out.
#[derive(Clone, Debug)]
pub struct Handle {
    requests: mpsc::Sender<Request>,
    notices: mpsc::Sender<Notice>,
    wake: Arc<OwnedFd>,
    snapshot: watch::Receiver<Arc<Snapshot>>,
    news: broadcast::Sender<TaskNews>,
}

/// The other end of a [`Handle`].
#[derive(Debug)]
pub(super) struct Inbox {
    requests: mpsc::Receiver<Request>,
    notices: mpsc::Receiver<Notice>,
    wake: Arc<OwnedFd>,
}

/// A handle and its other ends.
pub(super) fn channel() -> rustix::io::Result<(Handle, Inbox, Publisher)> {
    let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let (requests, asked) = mpsc::channel();
    let (notify, notices) = mpsc::channel();
    let (publish, snapshot) = watch::channel(Arc::new(Snapshot::default()));
    let (news, _) = broadcast::channel(NEWS);
    let handle = Handle {
        requests,
        notices: notify,
        wake: Arc::clone(&wake),
        snapshot,
        news: news.clone(),
    };
    let inbox = Inbox {
        requests: asked,
        notices,
        wake,
    };
    Ok((handle, inbox, Publisher::new(publish, news)))
}

impl Inbox {
    /// Readable while something waits.
    pub(super) fn fd(&self) -> &OwnedFd {
        &self.wake
    }

    /// Resets the eventfd: the next message makes it readable again.
    pub(super) fn clear(&self) {
        let _ = rustix::io::read(&*self.wake, &mut [0; 8]);
    }

    /// Takes one call. If there was one, the thread is woken again for the next: agents have their turn
    /// between two calls, however many wait.
    pub(super) fn take_call(&self) -> Option<Request> {
        let request = self.requests.try_recv().ok()?;
        wake(&self.wake);
        Some(request)
    }

    /// Takes one notice, if there is any.
    pub(super) fn take_notice(&self) -> Option<Notice> {
        self.notices.try_recv().ok()
    }
}

impl Handle {
    /// Makes a call and waits for its answer. When it comes, the snapshot shows the effect of the call.
    pub async fn call<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Request,
    ) -> Result<T, Error> {
        let gone = || Error::Ending("rtswapd is ending; call again when it is back".into());
        let (reply, answer) = oneshot::channel();
        self.requests.send(request(reply)).map_err(|_| gone())?;
        wake(&self.wake);
        answer.await.map_err(|_| gone())?
    }

    /// Sends a notice of another thread. False once the dispatch thread has ended.
    pub(super) fn notify(&self, notice: Notice) -> bool {
        let sent = self.notices.send(notice).is_ok();
        wake(&self.wake);
        sent
    }

    /// Ends the thread.
    pub fn stop(&self) {
        if self.requests.send(Request::Stop).is_ok() {
            wake(&self.wake);
        }
    }

    /// The latest snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.borrow())
    }

    /// Subscribes to snapshots: the receiver has the latest one, and is woken by the next.
    pub fn watch(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshot.clone()
    }

    /// Subscribes to the news from now on.
    pub fn news(&self) -> broadcast::Receiver<TaskNews> {
        self.news.subscribe()
    }
}

fn wake(eventfd: &OwnedFd) {
    // A counter that is full has woken the thread already.
    let _ = rustix::io::write(eventfd, &1_u64.to_ne_bytes());
}
