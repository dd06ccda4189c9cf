//! What is new in a GPU's block of a control page. A block is a stranger's: only what differs from
//! the last look becomes a report.

use core::mem;

use rtswap_policy::scheduler::{
    BudgetRequestSeq, Direction, JobKind, JobSeq, OpenJob, SwapOutcome, SwapSeq, Usage,
};
use rtswap_policy::units::{Bytes, Nanos, Time};

use crate::groups::Report;
use crate::input::{Block, DeviceState, SwapReport};

/// How long a usage may contradict what is known: a page's fields are not written at once.
const DOUBT: Nanos = Nanos(1_000_000_000);

/// How far one GPU's block has been read.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockReader {
    jobs: JobReader,
    want: BudgetRequestSeq,
    usage: Usage,
    /// An agent that outlived its daemon has yet to restore `usage` into its new page.
    awaits_page: bool,
    /// The number of the last request for a backing store that the agent followed.
    backing_seq: u32,
    backing: Bytes,
    op: Option<Operation>,
    /// Since when the usage contradicts what is known.
    doubted: Option<Time>,
    /// The last question for a size.
    size_question: u32,
}

/// How far the jobs have been read.
#[derive(Clone, Debug, Default)]
struct JobReader {
    /// The last job that was asked for.
    requested: JobSeq,
    /// That job, while it is not completed.
    open: Option<OpenJob>,
    /// The open job has not been reported.
    is_unreported: bool,
}

/// The swap operation that the agent was told last.
#[derive(Clone, Copy, Debug)]
struct Operation {
    seq: SwapSeq,
    direction: Direction,
    /// In the backing store when it was told, and as reported last, in bytes.
    from: Bytes,
    swapped: Bytes,
    since: Time,
    /// It may have to wait until others have left, or others of its task move beside it.
    waits: bool,
}

/// A swap operation that the agent has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndedSwap {
    pub(crate) direction: Direction,
    /// What the agent says of it.
    pub(crate) report: SwapReport,
    /// When it was told to begin.
    pub(crate) since: Time,
    /// The bytes that left or came in, copied or not.
    pub(crate) left: Bytes,
    /// It may have waited until others had left, or others of its task moved beside it.
    pub(crate) waits: bool,
}

impl EndedSwap {
    /// Whether its time is that of moving its bytes, and of what little else an agent does for that.
    pub(crate) fn is_comparable(&self) -> bool {
        let SwapReport { outcome, moved, .. } = self.report;
        let is_whole = outcome == SwapOutcome::Done && moved == self.left;
        is_whole && self.left > Bytes::ZERO && !self.waits
    }
}

impl BlockReader {
    /// Begins where a Hello says the agent stands. `kind` is taken for a job that is open: Hello
    /// does not tell.
    pub(crate) fn resume(state: &DeviceState, kind: JobKind) -> Self {
        let job = JobSeq(state.requested);
        let is_open = state.requested != state.completed && state.requested != 0;
        let running = state.granted == state.requested;
        Self {
            jobs: JobReader {
                requested: job,
                open: is_open.then_some(OpenJob { job, running, kind }),
                is_unreported: is_open && !running,
            },
            usage: state.usage,
            awaits_page: state.usage != Usage::default(),
            backing: state.backing,
            ..Self::default()
        }
    }

    /// The open job that runs.
    pub(crate) fn running(&self) -> Option<OpenJob> {
        self.jobs.open.filter(|open| open.running)
    }

    /// Where the bytes were at the last look.
    pub(crate) fn usage(&self) -> Usage {
        self.usage
    }

    /// The pinned backing store at the last look, in bytes.
    pub(crate) fn backing(&self) -> Bytes {
        self.backing
    }

    /// Whether the last usage contradicts what is known, and is not believed.
    pub(crate) fn is_doubted(&self) -> bool {
        self.doubted.is_some()
    }

    /// The agent was told that the job may run.
    pub(crate) fn record_grant(&mut self, job: JobSeq) {
        if let Some(open) = &mut self.jobs.open {
            open.running = open.job == job;
        }
    }

    /// The agent was told to begin a swap operation, which `waits` if others may have to
    /// leave for it, or move beside it.
    pub(crate) fn record_swap(
        &mut self,
        seq: SwapSeq,
        direction: Direction,
        now: Time,
        waits: bool,
    ) {
        let swapped = self.usage.swapped;
        self.op = Some(Operation {
            seq,
            direction,
            from: swapped,
            swapped,
            since: now,
            waits,
        });
    }

    /// The agent rang: what it restores into a new page is written.
    pub(crate) fn record_ring(&mut self) {
        self.awaits_page = false;
    }

    /// The usage contradicts what is known. Returns when to look again; none where that has lasted, and
    /// so is no moment between two writes.
    pub(crate) fn doubt(&mut self, now: Time) -> Option<Time> {
        let end = *self.doubted.get_or_insert(now) + DOUBT;
        (now < end).then_some(end)
    }

    /// The usage agrees with what is known.
    pub(crate) fn believe(&mut self) {
        self.doubted = None;
    }

    /// The number of a question for a size that is new in the block.
    pub(crate) fn take_question(&mut self, block: &Block) -> Option<u32> {
        let asked = block.size_question;
        (mem::replace(&mut self.size_question, asked) != asked).then_some(asked)
    }

    /// Passes what is new in the block on to `report`, and returns the swap operation that ended. While
    /// `holds_back`, the daemon waits for others to come back: requests stay unread until the next look.
    pub(crate) fn read(
        &mut self,
        block: &Block,
        holds_back: bool,
        mut report: impl FnMut(Report),
    ) -> Option<EndedSwap> {
        self.note_restored(block);
        // The end of a job first: it comes before all that is asked now.
        let jobs = block.jobs;
        if let Some(open) = self.jobs.open
            && jobs.is_some_and(|jobs| jobs.completed == open.job)
        {
            self.close_job(&mut report);
        }
        let ended = self.read_swap(block, &mut report);
        self.read_memory(block, &mut report);
        if holds_back {
            return ended;
        }
        if let Some((want, bytes)) = block.want
            && want != self.want
        {
            self.want = want;
            report(Report::BudgetRequested { want, bytes });
        }
        if let Some(jobs) = jobs
            && jobs.requested != self.jobs.requested
        {
            let is_over = jobs.completed == jobs.requested;
            if is_over {
                // The job before came to its end unseen.
                self.close_job(&mut report);
            }
            self.jobs = JobReader {
                requested: jobs.requested,
                open: (!is_over).then_some(OpenJob {
                    job: jobs.requested,
                    running: false,
                    kind: jobs.kind,
                }),
                is_unreported: !is_over,
            };
        }
        if let Some(OpenJob { job, kind, .. }) = self.jobs.open
            && mem::take(&mut self.jobs.is_unreported)
        {
            report(Report::JobRequested { job, kind });
        }
        ended
    }

    /// The open job, if there is one, is completed. One that was never reported ends unsaid: nobody would
    /// run it once it was granted.
    fn close_job(&mut self, report: &mut impl FnMut(Report)) {
        let is_unreported = mem::take(&mut self.jobs.is_unreported);
        if let Some(OpenJob { job, .. }) = self.jobs.open.take()
            && !is_unreported
        {
            report(Report::JobCompleted { job });
        }
    }

    /// Notes whether the block shows that the agent has restored its page: it says what its Hello did, or
    /// that the agent has followed an order.
    fn note_restored(&mut self, block: &Block) {
        let end = block.swap.map(|end| end.op);
        let has_swapped = end.is_some() && end == self.op.map(|op| op.seq);
        if has_swapped || self.usage == block.usage {
            self.awaits_page = false;
        }
    }

    fn read_swap(&mut self, block: &Block, report: &mut impl FnMut(Report)) -> Option<EndedSwap> {
        // Until the page is restored its zeros are no progress.
        let op = self.op.as_mut().filter(|_| !self.awaits_page)?;
        let swapped = block.usage.swapped;
        let Some(end) = block.swap.filter(|end| end.op == op.seq) else {
            if mem::replace(&mut op.swapped, swapped) != swapped {
                report(Report::SwapProgress {
                    op: op.seq,
                    swapped,
                });
            }
            return None;
        };
        let Operation {
            direction,
            from,
            since,
            waits,
            ..
        } = *op;
        self.op = None;
        report(Report::SwapEnded {
            op: end.op,
            swapped,
            took: end.took,
            outcome: end.outcome,
        });
        Some(EndedSwap {
            direction,
            report: end,
            since,
            left: match direction {
                Direction::Out => swapped.saturating_sub(from),
                Direction::In => from.saturating_sub(swapped),
            },
            waits,
        })
    }

    fn read_memory(&mut self, block: &Block, report: &mut impl FnMut(Report)) {
        let usage = block.usage;
        let (seq, backing) = block.backing;
        if seq != self.backing_seq {
            self.backing_seq = seq;
            self.backing = backing;
            report(Report::Backing(backing));
        }
        if self.awaits_page || self.op.is_some() {
            return;
        }
        if usage != self.usage || self.doubted.is_some() {
            self.doubted = self.doubted.filter(|_| usage == self.usage);
            self.usage = usage;
            report(Report::Usage(usage));
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::input::Jobs;

    fn read(reader: &mut BlockReader, block: &Block) -> Vec<Report> {
        let mut reports = Vec::new();
        reader.read(block, false, |report| reports.push(report));
        reports
    }

    fn usage(resident: u64, swapped: u64, arena: u64) -> Usage {
        Usage {
            resident: Bytes(resident),
            swapped: Bytes(swapped),
            arena: Bytes(arena),
        }
    }

    fn jobs(requested: u32, kind: JobKind, completed: u32) -> Jobs {
        Jobs {
            requested: JobSeq(requested),
            kind,
            completed: JobSeq(completed),
        }
    }

    #[test]
    fn each_thing_is_reported_once() {
        let (mut block, mut reader) = (Block::default(), BlockReader::default());
        assert_eq!(read(&mut reader, &block), []);
        block.want = Some((BudgetRequestSeq(1), Bytes(64)));
        let asked = Report::BudgetRequested {
            want: BudgetRequestSeq(1),
            bytes: Bytes(64),
        };
        assert_eq!(read(&mut reader, &block), [asked]);
        assert_eq!(read(&mut reader, &block), []);
        block.jobs = Some(jobs(1, JobKind::Declared, 0));
        let (job, kind) = (JobSeq(1), JobKind::Declared);
        let asked = Report::JobRequested { job, kind };
        assert_eq!(read(&mut reader, &block), [asked]);
        reader.record_grant(job);
        let running = true;
        assert_eq!(reader.running(), Some(OpenJob { job, running, kind }));
        block.jobs = Some(jobs(2, JobKind::Implicit, 1));
        let (next, kind) = (JobSeq(2), JobKind::Implicit);
        let both = [
            Report::JobCompleted { job },
            Report::JobRequested { job: next, kind },
        ];
        assert_eq!(read(&mut reader, &block), both, "the end comes first");
    }

    #[test]
    fn a_swap_is_followed_to_its_end_and_then_counted() {
        let (mut block, mut reader) = (Block::default(), BlockReader::default());
        block.usage = usage(100, 0, 100);
        assert_eq!(read(&mut reader, &block), [Report::Usage(block.usage)]);
        let op = SwapSeq(1);
        reader.record_swap(op, Direction::Out, Time(3), false);
        block.usage = usage(50, 50, 100);
        let swapped = Bytes(50);
        let progress = Report::SwapProgress { op, swapped };
        assert_eq!(read(&mut reader, &block), [progress]);
        let (outcome, took) = (SwapOutcome::Aborted, Nanos(7));
        let end = SwapReport {
            op,
            outcome,
            took,
            moved: swapped,
        };
        block.swap = Some(end);
        let mut reports = Vec::new();
        let copied = reader.read(&block, false, |report| reports.push(report));
        let ended = Report::SwapEnded {
            op,
            swapped,
            took,
            outcome,
        };
        assert_eq!(reports, [ended, Report::Usage(block.usage)]);
        let left = swapped;
        let ended = EndedSwap {
            direction: Direction::Out,
            report: end,
            since: Time(3),
            left,
            waits: false,
        };
        assert_eq!(copied, Some(ended));
    }

    #[test]
    fn a_process_that_comes_back_is_read_once_its_page_is_restored() {
        let state = DeviceState {
            usage: usage(10, 20, 30),
            backing: Bytes(20),
            requested: 4,
            granted: 3,
            completed: 3,
            ..DeviceState::default()
        };
        let mut block = Block::default();
        let mut reader = BlockReader::resume(&state, JobKind::Declared);
        assert_eq!(reader.running(), None);
        let mut reports = Vec::new();
        reader.read(&block, true, |report| reports.push(report));
        assert_eq!(reports, [], "zeros in a page that is not restored");
        block.usage = state.usage;
        block.jobs = Some(jobs(4, JobKind::Declared, 3));
        reader.read(&block, true, |report| reports.push(report));
        assert_eq!(reports, [], "its request waits for the end of the hold");
        let (job, kind) = (JobSeq(4), JobKind::Declared);
        let asked = Report::JobRequested { job, kind };
        assert_eq!(read(&mut reader, &block), [asked]);
    }

    #[test]
    fn a_swap_ordered_at_once_is_not_read_from_a_page_that_is_not_restored() {
        let state = DeviceState {
            usage: usage(10, 20, 30),
            backing: Bytes(30),
            ..DeviceState::default()
        };
        let (mut block, op) = (Block::default(), SwapSeq(1));
        let mut reader = BlockReader::resume(&state, JobKind::Implicit);
        reader.record_swap(op, Direction::Out, Time(3), false);
        assert_eq!(read(&mut reader, &block), [], "zeros are no progress");
        block.usage = state.usage;
        assert_eq!(read(&mut reader, &block), []);
        block.usage = usage(0, 30, 30);
        let swapped = Bytes(30);
        let progress = Report::SwapProgress { op, swapped };
        assert_eq!(read(&mut reader, &block), [progress]);
    }

    #[test]
    fn the_end_of_a_swap_shows_that_a_page_is_restored() {
        let state = DeviceState {
            usage: usage(10, 20, 30),
            ..DeviceState::default()
        };
        let (mut block, op) = (Block::default(), SwapSeq(1));
        let mut reader = BlockReader::resume(&state, JobKind::Implicit);
        reader.record_swap(op, Direction::Out, Time(3), false);
        let (outcome, took, swapped) = (SwapOutcome::Done, Nanos(7), Bytes(30));
        block.usage = usage(0, 30, 30);
        block.swap = Some(SwapReport {
            op,
            outcome,
            took,
            moved: Bytes(10),
        });
        let ended = Report::SwapEnded {
            op,
            swapped,
            took,
            outcome,
        };
        let expected = [ended, Report::Usage(block.usage)];
        assert_eq!(read(&mut reader, &block), expected);
    }

    #[test]
    fn a_running_job_is_resumed_as_running() {
        let state = DeviceState {
            requested: 4,
            granted: 4,
            completed: 3,
            ..DeviceState::default()
        };
        let reader = BlockReader::resume(&state, JobKind::Implicit);
        let running = reader.running().map(|open| (open.job, open.kind));
        assert_eq!(running, Some((JobSeq(4), JobKind::Implicit)));
    }

    #[test]
    fn a_job_that_is_completed_before_it_is_reported_is_closed_unsaid() {
        let (mut block, mut reader) = (Block::default(), BlockReader::default());
        block.jobs = Some(jobs(1, JobKind::Declared, 1));
        assert_eq!(read(&mut reader, &block), [], "a grant would never end");
        block.jobs = Some(jobs(2, JobKind::Declared, 1));
        let (job, kind) = (JobSeq(2), JobKind::Declared);
        let asked = Report::JobRequested { job, kind };
        assert_eq!(read(&mut reader, &block), [asked]);
        block.jobs = Some(jobs(3, JobKind::Declared, 3));
        let ended = Report::JobCompleted { job };
        assert_eq!(read(&mut reader, &block), [ended], "only the one reported");
        assert_eq!(read(&mut reader, &block), []);
    }

    #[test]
    fn a_job_that_is_completed_under_the_hold_is_closed_unsaid() {
        let state = DeviceState {
            requested: 4,
            granted: 3,
            completed: 3,
            ..DeviceState::default()
        };
        let mut block = Block::default();
        // One that its Hello named, and one that only the page shows.
        let resumed = BlockReader::resume(&state, JobKind::Declared);
        for mut reader in [resumed, BlockReader::default()] {
            for completed in [3, 4] {
                block.jobs = Some(jobs(4, JobKind::Declared, completed));
                let mut reports = Vec::new();
                reader.read(&block, true, |report| reports.push(report));
                assert_eq!(reports, []);
            }
            assert_eq!(read(&mut reader, &block), [], "after the hold");
            block.jobs = Some(jobs(5, JobKind::Declared, 4));
            let (job, kind) = (JobSeq(5), JobKind::Declared);
            let asked = Report::JobRequested { job, kind };
            assert_eq!(read(&mut reader, &block), [asked]);
        }
    }
}
