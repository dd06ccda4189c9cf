//! Control pages → events. A page is a stranger's: each field is loaded once, and only what
//! differs from the last look is news.

use rtswap_policy::scheduler::{
    Direction, Event, JobKind, JobSeq, SwapOutcome, SwapSeq, Usage, WantSeq,
};
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Nanos, Time};
use rtswap_wire::hello::DeviceState;
use rtswap_wire::page::{self, DeviceBlock, UsageReport};

/// How far one GPU's block has been read.
#[derive(Debug, Default)]
pub struct DeviceView {
    /// The last job that was asked for.
    requested: u32,
    /// It, while it is not completed.
    open: Option<(JobSeq, JobKind)>,
    /// An open job that the scheduler has not been told of.
    untold: bool,
    /// Whether the open job was granted.
    granted: bool,
    /// The job whose revocation the agent has not followed yet.
    revoking: Option<JobSeq>,
    want: u32,
    usage: Usage,
    /// What an agent that outlived its daemon has yet to write into its new page.
    awaited: Option<Usage>,
    volume: u32,
    backing: Bytes,
    op: Option<Operation>,
    /// Since when its usage makes no sense.
    strange: Option<Time>,
    /// Bytes and time of the last operation that ended.
    pub moved: Option<(Direction, u64, Nanos)>,
}

#[derive(Clone, Copy, Debug)]
struct Operation {
    seq: SwapSeq,
    direction: Direction,
    swapped: Bytes,
    /// The agent has moved a chunk since it was last told something, so it knows of that.
    heard: bool,
    /// What was in the backing store then.
    told_at: Bytes,
}

/// How long a usage may contradict itself: its fields are not written at once.
const STRANGE_BOUND: Nanos = Nanos(1_000_000_000);

impl DeviceView {
    /// Begins where a Hello says the agent stands. `kind` is taken for a job that is open: Hello
    /// does not tell.
    pub fn resume(state: &DeviceState, kind: JobKind) -> Self {
        let usage = Usage {
            resident: Bytes(state.resident_bytes),
            swapped: Bytes(state.swapped_bytes),
            arena: Bytes(state.arena_bytes),
        };
        let open = (state.requested != state.completed && state.requested != 0)
            .then_some((JobSeq(state.requested), kind));
        let granted = open.is_some() && state.granted == state.requested;
        Self {
            requested: state.requested,
            open,
            untold: open.is_some() && !granted,
            granted,
            usage,
            awaited: (usage != Usage::default()).then_some(usage),
            backing: Bytes(state.backing_bytes),
            ..Self::default()
        }
    }

    /// Whether an agent that says this is, or was, active on the GPU.
    pub fn is_active(state: &DeviceState) -> bool {
        let DeviceState {
            resident_bytes,
            swapped_bytes,
            arena_bytes,
            backing_bytes,
            requested,
            ..
        } = *state;
        resident_bytes | swapped_bytes | arena_bytes | backing_bytes | u64::from(requested) != 0
    }

    /// Whether a fresh block has been touched by its agent.
    pub fn stirs(block: &DeviceBlock) -> bool {
        let agent = &block.agent;
        agent.usage() != UsageReport::default()
            || agent.wanted().is_some()
            || agent.jobs().is_some()
    }

    /// The open job that runs, for `Attach`.
    pub fn running(&self) -> Option<(JobSeq, JobKind)> {
        self.open.filter(|_| self.granted)
    }

    /// The open job, if there is one.
    pub fn open(&self) -> Option<JobSeq> {
        self.open.map(|(job, _)| job)
    }

    /// Where the bytes were at the last look.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The pinned backing store.
    pub fn backing(&self) -> Bytes {
        self.backing
    }

    /// The direction of the operation under way.
    pub fn moving(&self) -> Option<Direction> {
        self.op.map(|op| op.direction)
    }

    /// The daemon granted the job.
    pub fn granted(&mut self, job: JobSeq) {
        self.granted = self.open() == Some(job);
    }

    /// The daemon revoked the job.
    pub fn revoked(&mut self, job: JobSeq) {
        self.revoking = Some(job);
    }

    /// The daemon asked for an operation.
    pub fn began(&mut self, seq: SwapSeq, direction: Direction) {
        self.op = Some(Operation {
            seq,
            direction,
            swapped: self.usage.swapped,
            heard: false,
            told_at: self.usage.swapped,
        });
    }

    /// The daemon let the operation go on or asked it to stop, with that much in the backing store.
    pub fn told(&mut self, swapped: Bytes) {
        if let Some(op) = &mut self.op {
            op.heard = false;
            op.told_at = swapped;
        }
    }

    /// The agent rang: what it restores into a new page is written.
    pub fn rang(&mut self) {
        self.awaited = None;
    }

    /// The scheduler did not believe the usage. True once that has lasted.
    pub fn disbelieved(&mut self, now: Time) -> bool {
        let since = *self.strange.get_or_insert(now);
        now - since >= STRANGE_BOUND
    }

    /// Whether the agent has followed all that a doorbell was rung for.
    pub fn is_heard(&self, block: &DeviceBlock) -> bool {
        let volume = block
            .daemon
            .volume()
            .is_none_or(|(seq, _)| seq == self.volume);
        volume && self.op.is_none_or(|op| op.heard) && self.revoking.is_none()
    }

    /// Reads the block, and puts what is new into `events`. While `hold`, the daemon waits for
    /// others to come back: who asks for something stays unheard until the next look.
    pub fn look(&mut self, block: &DeviceBlock, task: TaskId, hold: bool, events: &mut Vec<Event>) {
        // The jobs first: what they say of the past comes before all that is asked now.
        let jobs = block.agent.jobs();
        if let Some((job, _)) = self.open
            && jobs.is_some_and(|jobs| jobs.completed == job.0)
            && !self.untold
        {
            self.open = None;
            self.granted = false;
            self.revoking = None;
            events.push(Event::JobCompleted { task, job });
        }
        let wanted = block.agent.wanted();
        self.look_at_swap(block, task, events);
        self.look_at_memory(block, task, events);
        if hold {
            return;
        }
        if let Some((want, bytes)) = wanted
            && want != self.want
        {
            self.want = want;
            events.push(Event::Want {
                task,
                want: WantSeq(want),
                bytes: Bytes(bytes),
            });
        }
        if let Some(jobs) = jobs
            && jobs.requested != self.requested
        {
            let kind = match jobs.kind {
                page::JobKind::Declared => JobKind::Declared,
                page::JobKind::Implicit => JobKind::Implicit,
            };
            self.requested = jobs.requested;
            self.open = Some((JobSeq(jobs.requested), kind));
            self.granted = false;
            self.untold = true;
        }
        if let Some((job, kind)) = self.open.filter(|_| self.untold) {
            self.untold = false;
            events.push(Event::JobRequested { task, job, kind });
        }
    }

    fn look_at_swap(&mut self, block: &DeviceBlock, task: TaskId, events: &mut Vec<Event>) {
        let Some(op) = &mut self.op else {
            return;
        };
        let report = block.agent.swap_report();
        // After the report, so that it is the final value if there is one.
        let swapped = Bytes(block.agent.usage().swapped_bytes);
        let Some(report) = report.filter(|report| report.seq == op.seq.0) else {
            if swapped != op.swapped {
                op.swapped = swapped;
                op.heard |= swapped != op.told_at;
                events.push(Event::SwapProgress {
                    task,
                    op: op.seq,
                    swapped,
                });
            }
            return;
        };
        self.moved = Some((op.direction, report.moved_bytes, Nanos(report.ns)));
        events.push(Event::SwapEnded {
            task,
            op: op.seq,
            swapped,
            took: Nanos(report.ns),
            outcome: match report.outcome {
                page::SwapOutcome::Done => SwapOutcome::Done,
                page::SwapOutcome::Aborted => SwapOutcome::Aborted,
                page::SwapOutcome::OutOfMemory => SwapOutcome::OutOfMemory,
                page::SwapOutcome::Undrainable => SwapOutcome::Undrainable,
                page::SwapOutcome::Failed => SwapOutcome::Failed,
            },
        });
        self.op = None;
    }

    fn look_at_memory(&mut self, block: &DeviceBlock, task: TaskId, events: &mut Vec<Event>) {
        let report = block.agent.usage();
        let usage = Usage {
            resident: Bytes(report.resident_bytes),
            swapped: Bytes(report.swapped_bytes),
            arena: Bytes(report.arena_bytes),
        };
        if self.awaited == Some(usage) {
            self.awaited = None;
        }
        let (volume, backing) = block.agent.backing();
        let backing = Bytes(backing);
        if volume != self.volume {
            self.volume = volume;
            self.backing = backing;
            events.push(Event::Backing {
                task,
                bytes: backing,
            });
        }
        if self.awaited.is_some() || self.op.is_some() {
            return;
        }
        if usage != self.usage || self.strange.is_some() {
            self.strange = self.strange.filter(|_| usage == self.usage);
            self.usage = usage;
            events.push(Event::Usage { task, usage });
        }
    }

    /// The scheduler believed the last usage.
    pub fn believed(&mut self) {
        self.strange = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtswap_wire::page::{DeviceBlock, SwapReport};

    const TASK: TaskId = TaskId(3);

    fn look(view: &mut DeviceView, block: &DeviceBlock) -> Vec<Event> {
        let mut events = Vec::new();
        view.look(block, TASK, false, &mut events);
        events
    }

    #[test]
    fn each_thing_is_told_once() {
        let (block, mut view) = (DeviceBlock::default(), DeviceView::default());
        assert_eq!(look(&mut view, &block), []);
        assert!(!DeviceView::stirs(&block));
        block.agent.want(64);
        assert!(DeviceView::stirs(&block));
        let want = Event::Want {
            task: TASK,
            want: WantSeq(1),
            bytes: Bytes(64),
        };
        assert_eq!(look(&mut view, &block), [want]);
        assert_eq!(look(&mut view, &block), []);
        block.agent.request_job(1, page::JobKind::Declared);
        let asked = Event::JobRequested {
            task: TASK,
            job: JobSeq(1),
            kind: JobKind::Declared,
        };
        assert_eq!(look(&mut view, &block), [asked]);
        view.granted(JobSeq(1));
        assert_eq!(view.running(), Some((JobSeq(1), JobKind::Declared)));
        block.agent.complete_job(1);
        block.agent.request_job(2, page::JobKind::Implicit);
        let events = look(&mut view, &block);
        assert!(
            matches!(
                events[..],
                [
                    Event::JobCompleted { job: JobSeq(1), .. },
                    Event::JobRequested {
                        job: JobSeq(2),
                        kind: JobKind::Implicit,
                        ..
                    }
                ]
            ),
            "the end comes before the next request: {events:?}"
        );
    }

    #[test]
    fn a_swap_is_followed_to_its_end_and_then_counted() {
        let (block, mut view) = (DeviceBlock::default(), DeviceView::default());
        let daemon = &block.daemon;
        assert_eq!(daemon.set_budget(&block.agent, 100), 100);
        block.agent.take(daemon, 100).unwrap();
        block.agent.set_arena(100, 0);
        assert!(matches!(look(&mut view, &block)[..], [Event::Usage { .. }]));
        view.began(SwapSeq(1), Direction::Out);
        assert!(!view.is_heard(&block));
        block.agent.set_arena(100, 50);
        block.agent.give_back(50);
        let progress = Event::SwapProgress {
            task: TASK,
            op: SwapSeq(1),
            swapped: Bytes(50),
        };
        assert_eq!(look(&mut view, &block), [progress]);
        assert!(view.is_heard(&block));
        block.agent.end_swap(SwapReport {
            seq: 1,
            outcome: page::SwapOutcome::Aborted,
            ns: 7,
            moved_bytes: 50,
        });
        let events = look(&mut view, &block);
        assert!(
            matches!(
                events[..],
                [
                    Event::SwapEnded {
                        swapped: Bytes(50),
                        outcome: SwapOutcome::Aborted,
                        ..
                    },
                    Event::Usage {
                        usage: Usage {
                            resident: Bytes(50),
                            ..
                        },
                        ..
                    }
                ]
            ),
            "{events:?}"
        );
        assert_eq!(view.moved, Some((Direction::Out, 50, Nanos(7))));
    }

    #[test]
    fn a_chunk_that_moved_before_a_word_does_not_say_that_it_was_heard() {
        let (block, mut view) = (DeviceBlock::default(), DeviceView::default());
        block.agent.set_arena(100, 90);
        look(&mut view, &block);
        view.began(SwapSeq(1), Direction::In);
        block.agent.set_arena(100, 60);
        look(&mut view, &block);
        assert!(view.is_heard(&block));
        // It lands unseen, and waits; then there is more credit.
        block.agent.set_arena(100, 30);
        view.told(Bytes(block.daemon.set_credit(&block.agent, 0)));
        assert!(matches!(
            look(&mut view, &block)[..],
            [Event::SwapProgress { .. }]
        ));
        assert!(!view.is_heard(&block), "to be rung again");
        block.agent.set_arena(100, 0);
        look(&mut view, &block);
        assert!(view.is_heard(&block));
    }

    #[test]
    fn who_comes_back_is_read_once_the_page_is_restored_and_asks_after_the_hold() {
        let state = DeviceState {
            resident_bytes: 10,
            swapped_bytes: 20,
            arena_bytes: 30,
            backing_bytes: 20,
            requested: 4,
            granted: 3,
            completed: 3,
            ..DeviceState::default()
        };
        assert!(DeviceView::is_active(&state));
        let block = DeviceBlock::default();
        let mut view = DeviceView::resume(&state, JobKind::Declared);
        assert_eq!(view.running(), None);
        let mut events = Vec::new();
        view.look(&block, TASK, true, &mut events);
        assert_eq!(
            events,
            [],
            "zeros in a page that is not restored are no news"
        );
        let usage = UsageReport {
            resident_bytes: 10,
            swapped_bytes: 20,
            arena_bytes: 30,
            peak_bytes: 10,
        };
        block.agent.restore(usage, 20, 3);
        view.look(&block, TASK, true, &mut events);
        assert_eq!(events, []);
        assert!(matches!(
            look(&mut view, &block)[..],
            [Event::JobRequested { job: JobSeq(4), .. }]
        ));
    }

    #[test]
    fn a_running_job_is_resumed_as_running() {
        let state = DeviceState {
            requested: 4,
            granted: 4,
            completed: 3,
            ..DeviceState::default()
        };
        let view = DeviceView::resume(&state, JobKind::Implicit);
        assert_eq!(view.running(), Some((JobSeq(4), JobKind::Implicit)));
    }
}
