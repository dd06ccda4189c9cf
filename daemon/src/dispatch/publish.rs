//! The pace at which changes are published to the D-Bus side.

use std::sync::Arc;

use rtswap_engine::Engine;
use rtswap_engine::output::News;
use rtswap_policy::units::{Nanos, Time};
use tokio::sync::{broadcast, watch};

use super::snapshot::Snapshot;

/// The least time between two snapshots, except that a call is answered after its own.
const PACE: Nanos = Nanos(50_000_000);

/// Where snapshots and news go.
#[derive(Debug)]
pub(super) struct Publisher {
    snapshot: watch::Sender<Arc<Snapshot>>,
    news: broadcast::Sender<News>,
    /// Something has changed since the last snapshot.
    is_stale: bool,
    published_at: Time,
}

impl Publisher {
    /// Nothing is published yet.
    pub(super) fn new(
        snapshot: watch::Sender<Arc<Snapshot>>,
        news: broadcast::Sender<News>,
    ) -> Self {
        Self {
            snapshot,
            news,
            is_stale: true,
            published_at: Time::ZERO,
        }
    }

    /// Asks the engine whether something has changed. Returns the time for [`Self::publish`]; none while
    /// nothing has changed.
    pub(super) fn due(&mut self, engine: &mut Engine) -> Option<Time> {
        self.is_stale |= engine.take_changed();
        self.is_stale.then(|| self.published_at + PACE)
    }

    /// Publishes a snapshot of the engine's status at `now`.
    pub(super) fn publish(&mut self, engine: &mut Engine, now: Time) {
        engine.take_changed();
        self.is_stale = false;
        self.published_at = now;
        let snapshot = Snapshot::new(engine.status());
        self.snapshot.send_replace(Arc::new(snapshot));
    }

    /// Sends news to all that listen.
    pub(super) fn announce(&self, news: News) {
        // An error means that nobody listens.
        let _ = self.news.send(news);
    }
}
