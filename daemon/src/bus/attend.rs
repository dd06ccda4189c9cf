//! One connection on the control socket or on a bus, served until it is closed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rtswap_engine::output::News;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use zbus::Connection;
use zbus::connection::Builder;
use zbus::object_server::SignalEmitter;

use super::Shared;
use super::auth::Door;
use super::demand::Asked;
use super::manager::Manager1;
use super::objects::Objects;
use super::policy;
use super::publish::Published;
use super::read_only::ReadOnly;
use super::viewer::Viewer;
use crate::dispatch::{Snapshot, TaskNews};
use crate::log;

/// Property changes are announced at most this often. Properties that change with each job are not
/// announced at all. Nothing on D-Bus is fit to schedule by: the control pages are for that.
const PACE: Duration = Duration::from_millis(250);

/// The reason why a connection is no longer served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It is closed.
    Closed,
    /// The dispatch thread has ended.
    Daemon,
}

/// A task with the kind of news that there are of it.
type Hint = (u64, What);

/// The kind of news.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    DeadlineMissed,
    Violation,
}

impl What {
    fn of(news: &News) -> Self {
        match news {
            News::DeadlineMissed { .. } => Self::DeadlineMissed,
            News::Violation { .. } => Self::Violation,
        }
    }
}

/// A connection with its objects.
#[derive(Debug)]
pub(super) struct Attended {
    pub(super) connection: Connection,
    published: Arc<Published>,
    objects: Objects,
    /// Waits until the client asks for objects; none once they are served.
    asked: Option<Asked>,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    /// The snapshot whose policy is told.
    told: Arc<Snapshot>,
    news: broadcast::Receiver<TaskNews>,
}

impl Attended {
    /// Builds the connection, with everything on it unless its objects are to be `asked` for.
    pub(super) async fn build(
        builder: Builder<'static>,
        door: Door,
        shared: &Shared,
        asked: Option<Asked>,
    ) -> zbus::Result<Self> {
        // Subscribed before the first snapshot is read, so that no change between the two is lost.
        let (snapshots, news) = (shared.handle.watch(), shared.handle.news());
        let told = Arc::clone(&snapshots.borrow());
        let published = Arc::new(Published::new(shared.clone(), door));
        let manager = ReadOnly(Manager1(Arc::clone(&published)));
        let objects = Objects(Arc::clone(&published));
        let connection = builder
            .serve_at(rtswap_dbus::ROOT_PATH, manager)
            .build()
            .await?;
        if asked.is_none() {
            published.begin(&connection, objects.clone()).await?;
        }
        Ok(Self {
            connection,
            published,
            objects,
            asked,
            snapshots,
            told,
            news,
        })
    }

    /// Sends signals for changes and news until the connection is closed or the daemon ends.
    pub(super) async fn run(mut self) -> zbus::Result<End> {
        let root = SignalEmitter::new(&self.connection, rtswap_dbus::ROOT_PATH)?;
        let door = self.published.door;
        let viewer = Viewer::of_peer(door, &self.connection).await;
        // What came since they were served first.
        self.published.update(&self.connection).await?;
        let mut hints = BTreeSet::new();
        let mut untold = true;
        let mut told_at = Instant::now();
        loop {
            tokio::select! {
                () = self.connection.closed() => return Ok(End::Closed),
                () = wait(self.asked.as_ref()) => {
                    let objects = self.objects.clone();
                    self.published.begin(&self.connection, objects).await?;
                    if let Some(asked) = self.asked.take() {
                        asked.release();
                    }
                }
                changed = self.snapshots.changed() => {
                    if changed.is_err() {
                        return Ok(End::Daemon);
                    }
                    untold = true;
                    self.published.update(&self.connection).await?;
                }
                () = tokio::time::sleep_until(told_at + PACE), if untold => {
                    (untold, told_at) = (false, Instant::now());
                    self.published.announce(&self.connection).await?;
                    let latest = Arc::clone(&self.snapshots.borrow());
                    // On a bus everybody hears it, and it says nothing of what has changed.
                    let reader = (door == Door::Socket).then_some(viewer);
                    if policy::has_changed(&self.told.policy, &latest.policy, reader) {
                        Manager1::policy_changed(&root).await?;
                    }
                    self.told = latest;
                    for of in std::mem::take(&mut hints) {
                        hint(&root, of).await?;
                    }
                }
                news = self.news.recv() => match news {
                    // On a bus everybody hears them: they carry the task alone, so one tells of several, and
                    // the task's user reads its properties.
                    Ok(TaskNews { news, .. }) if door != Door::Socket => {
                        hints.insert((news.task().0, What::of(&news)));
                        untold = true;
                    }
                    Ok(TaskNews { owner, news }) => {
                        if owner.is_some_and(|owner| viewer.sees(owner)) {
                            tell(&root, viewer, &news).await?;
                        }
                    }
                    Err(RecvError::Lagged(unsaid)) => {
                        if log::may_say(viewer.uid().unwrap_or(log::ANYBODY), "signals") {
                            tracing::warn!(unsaid, "a client on D-Bus was too slow for its signals");
                        }
                    }
                    Err(RecvError::Closed) => return Ok(End::Daemon),
                },
            }
        }
    }
}

/// Returns once the client asks for objects; never if they are served already.
async fn wait(asked: Option<&Asked>) {
    match asked {
        Some(asked) => asked.wait().await,
        None => std::future::pending().await,
    }
}

/// Tells of news with all that they say, to a client that may see the task.
async fn tell(root: &SignalEmitter<'_>, viewer: Viewer, news: &News) -> zbus::Result<()> {
    let task = rtswap_dbus::task_path(news.task().0);
    match news {
        News::DeadlineMissed {
            job,
            lateness_us,
            cause,
            ..
        } => {
            let cause = viewer.text(cause);
            Manager1::deadline_missed(root, task.as_ref(), *job, *lateness_us, &cause).await
        }
        News::Violation { kind, detail, .. } => {
            let detail = viewer.text(detail);
            Manager1::violation(root, task.as_ref(), kind, &detail).await
        }
    }
}

/// Tells everybody of which task there are news.
async fn hint(root: &SignalEmitter<'_>, (task, what): Hint) -> zbus::Result<()> {
    let task = rtswap_dbus::task_path(task);
    match what {
        What::DeadlineMissed => Manager1::deadline_missed(root, task.as_ref(), 0, 0, "").await,
        What::Violation => Manager1::violation(root, task.as_ref(), "", "").await,
    }
}
