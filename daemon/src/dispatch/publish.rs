//! The pace at which changes are published to the D-Bus side, and what is kept of each task for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use rtswap_engine::Engine;
use rtswap_engine::output::News;
use rtswap_policy::units::{Nanos, Time};
use tokio::sync::{broadcast, watch};

use super::snapshot::Snapshot;
use crate::sys::clock;

/// The least time between two snapshots, except that a call is answered after its own.
const PACE: Nanos = Nanos(50_000_000);

/// The most news of one task that wait for a snapshot, so that those of one do not crowd out those of others:
/// of more, the first and the last. The counts have all of them.
pub(super) const MOST_NEWS: usize = 2;

/// News of a task, with its user.
#[derive(Clone, Debug)]
pub struct TaskNews {
    /// The user of the task; none if that has ended before anybody could see it.
    pub owner: Option<u32>,
    /// The event itself, as the engine told it.
    pub news: News,
}

/// What the engine does not keep of a task.
#[derive(Debug)]
pub(super) struct Record {
    /// When its counts began, in µs since 1970.
    pub(super) since_usec: u64,
    pub(super) last_deadline_miss: String,
    pub(super) last_violation: String,
    owner: Option<u32>,
    untold: usize,
}

impl Record {
    /// Of a task that is new at this moment.
    pub(super) fn begin() -> Self {
        Self {
            since_usec: clock::unix_usec(),
            last_deadline_miss: String::new(),
            last_violation: String::new(),
            owner: None,
            untold: 0,
        }
    }
}

/// Where snapshots and news go.
#[derive(Debug)]
pub(super) struct Publisher {
    snapshot: watch::Sender<Arc<Snapshot>>,
    news: broadcast::Sender<TaskNews>,
    /// The news since the last snapshot.
    untold: Vec<News>,
    /// By the number of the registration.
    records: BTreeMap<u64, Record>,
    /// Something has changed since the last snapshot.
    is_stale: bool,
    published_at: Time,
}

impl Publisher {
    /// Nothing is published yet.
    pub(super) fn new(
        snapshot: watch::Sender<Arc<Snapshot>>,
        news: broadcast::Sender<TaskNews>,
    ) -> Self {
        Self {
            snapshot,
            news,
            untold: Vec::new(),
            records: BTreeMap::new(),
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

    /// Publishes a snapshot of the engine's status at `now`, then the news, so that a
    /// listener can read what they tell of.
    pub(super) fn publish(&mut self, engine: &mut Engine, now: Time) {
        engine.take_changed();
        self.is_stale = false;
        self.published_at = now;
        let snapshot = Snapshot::new(engine.status(), &mut self.records);
        for (id, task) in &snapshot.tasks {
            if let Some(record) = self.records.get_mut(id) {
                record.owner = Some(task.user_id);
                record.untold = 0;
            }
        }
        let tasks: Vec<_> = snapshot.tasks.keys().copied().collect();
        self.snapshot.send_replace(Arc::new(snapshot));
        for news in self.untold.drain(..) {
            let record = self.records.get(&news.task().0);
            let owner = record.and_then(|record| record.owner);
            // An error means that nobody listens.
            let _ = self.news.send(TaskNews { owner, news });
        }
        self.records.retain(|id, _| tasks.binary_search(id).is_ok());
    }

    /// Takes news, to be told to all that listen after the next snapshot.
    pub(super) fn announce(&mut self, news: News) {
        self.is_stale = true;
        let record = self.records.entry(news.task().0);
        let record = record.or_insert_with(Record::begin);
        match &news {
            News::DeadlineMissed {
                job,
                lateness_us,
                cause,
                ..
            } => {
                let late = Nanos(lateness_us.saturating_mul(1000));
                record.last_deadline_miss = format!("job {job} by {late}: {cause}");
            }
            News::Violation { kind, detail, .. } => {
                record.last_violation = format!("{kind}: {detail}");
            }
        }
        record.untold += 1;
        if record.untold <= MOST_NEWS {
            self.untold.push(news);
            return;
        }
        let id = news.task().0;
        let last = self.untold.iter_mut().rfind(|news| news.task().0 == id);
        if let Some(last) = last {
            *last = news;
        }
    }
}

#[cfg(test)]
mod tests {
    use rtswap_engine::RegistrationId;

    use super::*;

    #[test]
    fn news_of_one_task_do_not_crowd_out_those_of_others() {
        let (snapshot, _) = watch::channel(Arc::default());
        let (news, _) = broadcast::channel(1);
        let mut publisher = Publisher::new(snapshot, news);
        let violation = |task, at: u32| News::Violation {
            task: RegistrationId(task),
            kind: "overrun",
            detail: format!("{at}"),
        };
        for at in 0..10_000 {
            publisher.announce(violation(1, at));
        }
        publisher.announce(violation(2, 0));
        let told: Vec<_> = publisher.untold.iter().map(News::task).collect();
        assert_eq!(told, [1, 1, 2].map(RegistrationId));
        let News::Violation { detail, .. } = &publisher.untold[1] else {
            panic!("{:?}", publisher.untold);
        };
        assert_eq!(detail, "9999");
        assert_eq!(publisher.records[&1].last_violation, "overrun: 9999");
    }
}
