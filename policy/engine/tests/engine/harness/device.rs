//! What one agent does on one GPU: jobs, memory, swapping chunk by chunk, its backing store.

use rtswap_engine::groups::Order;
use rtswap_engine::input::{DeviceState, Jobs, SwapReport};
use rtswap_policy::scheduler::{
    BudgetRequestSeq, Direction, JobKind, JobSeq, SwapOutcome, SwapSeq, Usage,
};
use rtswap_policy::units::{Bytes, Nanos, Time};

use super::page::{Page, SwapRequest};
use super::{CHUNK, UUIDS};

/// A job that is not completed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) seq: JobSeq,
    pub(crate) kind: JobKind,
    /// Since when it runs.
    pub(crate) granted: Option<Time>,
    /// Others may go on beside it: its agent was lost, or it was let on to a job that does not end.
    pub(crate) is_beside: bool,
    /// Since when the engine knows it.
    pub(crate) read: Option<Time>,
}

/// A request for more budget.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    seq: BudgetRequestSeq,
    chunks: u64,
    is_arena: bool,
    /// What is granted stays unused: the driver fails.
    pub(crate) is_void: bool,
}

/// One agent on one GPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct Device {
    pub(crate) page: Page,
    /// Where its bytes really are; the page says the same unless the agent lies.
    pub(crate) usage: Usage,
    backing: Bytes,
    pub(crate) job: Option<Job>,
    /// The job with which this session began.
    pub(crate) resumed: Option<JobSeq>,
    /// The number of the task's job in which it was granted last in this session.
    pub(crate) ran_in: u64,
    requested: u32,
    granted: u32,
    pub(crate) completed: u32,
    pub(crate) want: Option<Want>,
    wants: u32,
    pub(crate) op: Option<SwapRequest>,
    served: Option<SwapSeq>,
    pinned: u32,
    /// It has had a budget.
    has_had_budget: bool,
    /// It had one in a session before, and has none in this one yet.
    pub(crate) returns: bool,
    /// Its task goes on without it, because it did not end a swap operation in time, and begins anew when
    /// it does.
    pub(crate) is_set_aside: bool,
    /// Its page differs from what the shell read last.
    pub(crate) unread: bool,
    /// Swap operations that came to their end.
    pub(crate) swaps: u64,
}

impl Device {
    /// What it says in its Hello on the GPU of index `gpu`.
    pub(crate) fn state(&self, gpu: usize) -> DeviceState {
        DeviceState {
            uuid: UUIDS[gpu].bytes(),
            memory: super::MEMORY,
            usage: self.usage,
            backing: self.backing,
            requested: self.requested,
            granted: self.granted,
            completed: self.completed,
        }
    }

    /// Asks how much memory it may have.
    pub(crate) fn ask(&mut self) -> bool {
        self.page.block.size_question += 1;
        self.unread = true;
        true
    }

    /// Loses its page: what it was asked for there is void.
    pub(crate) fn detach(&mut self) {
        self.op = None;
        self.want = None;
        self.page = Page::default();
    }

    /// Moves to a fresh page: publishes what is, and asks again for what is not completed.
    pub(crate) fn restore(&mut self, granted: Option<JobSeq>) {
        self.page = Page {
            granted,
            ..Page::default()
        };
        (self.served, self.pinned, self.ran_in) = (None, 0, 0);
        (self.resumed, self.is_set_aside) = (granted, false);
        self.returns = self.has_had_budget;
        if let Some(job) = &mut self.job {
            job.is_beside = job.granted.is_some();
            job.read = None;
        }
        self.page.block.backing.1 = self.backing;
        self.publish();
        if self.requested != 0 {
            let kind = self.job.map_or(JobKind::Implicit, |job| job.kind);
            self.publish_jobs(kind);
        }
    }

    fn publish(&mut self) {
        self.page.block.usage = self.usage;
        self.unread = true;
    }

    fn publish_jobs(&mut self, kind: JobKind) {
        self.page.block.jobs = Some(Jobs {
            requested: JobSeq(self.requested),
            kind,
            completed: JobSeq(self.completed),
        });
        self.unread = true;
    }

    /// Finds an order in its page. Returns the budget that holds if that is what was ordered.
    pub(crate) fn obey(&mut self, order: &Order) -> Option<Bytes> {
        let held = self.page.write(order);
        self.has_had_budget |= held.is_some();
        self.returns &= held.is_none();
        held
    }

    /// Checks an order against what an honest agent knows of itself.
    pub(crate) fn expect(&mut self, now: Time, order: &Order) {
        let runs = self.job.is_some_and(|job| job.granted.is_some());
        match *order {
            Order::Grant { job } => {
                let open = self.job.as_mut().filter(|open| open.seq == job);
                let open = open.unwrap_or_else(|| panic!("{job:?} is granted, not open"));
                assert!(open.granted.is_none(), "granted twice: {open:?}");
                assert_eq!(self.usage.swapped, Bytes::ZERO, "runs while swapped out");
                open.granted = Some(now);
                self.granted = job.0;
            }
            Order::Revoke { job } => {
                let is_late = self.completed == job.0;
                let open = self.job.filter(|open| open.seq == job);
                assert!(is_late || open.is_some(), "revokes {job:?}, never granted");
            }
            Order::Swap {
                op, target, credit, ..
            } => {
                assert!(self.op.is_none(), "{op:?} begins before {:?} ends", self.op);
                assert!(!runs, "{op:?} moves memory of a running job");
                assert!(credit >= target, "{order:?}");
                self.is_set_aside = false;
            }
            Order::SetCredit { op, credit } => {
                let swap = self.page.swap.filter(|swap| swap.op == op);
                let swap = swap.unwrap_or_else(|| panic!("credit for {op:?}, never asked for"));
                let lower = swap.target..self.page.credit;
                assert!(lower.contains(&credit), "{credit} is not in {lower:?}");
            }
            Order::Abort { op } => {
                let swap = self.page.swap.filter(|swap| swap.op == op);
                assert!(swap.is_some(), "aborts {op:?}, never asked for");
            }
            Order::SetBudget { answers, .. } => {
                let asked = self.page.block.want.map(|(want, _)| want);
                let answered = answers.map(|answer| answer.want);
                assert!(
                    answered.is_none() || answered == asked,
                    "{order:?}: {asked:?}"
                );
            }
            Order::SetBackingStore { .. } => {}
        }
    }

    /// Requests a job, unless one is open.
    pub(crate) fn request(&mut self, kind: JobKind) -> bool {
        let is_idle = self.job.is_none();
        if is_idle {
            self.requested += 1;
            self.job = Some(Job {
                seq: JobSeq(self.requested),
                kind,
                granted: None,
                is_beside: false,
                read: None,
            });
            self.publish_jobs(kind);
        }
        is_idle
    }

    /// Notes that a swap operation of its task is overdue.
    pub(crate) fn note_overdue(&mut self) {
        let asked = self.page.swap.map(|swap| swap.op);
        let ended = self.page.block.swap.map(|swap| swap.op);
        self.is_set_aside |= asked != ended;
    }

    /// Completes the job that runs.
    pub(crate) fn complete(&mut self) -> bool {
        let Some(job) = self.job.take_if(|job| job.granted.is_some()) else {
            return false;
        };
        self.completed = job.seq.0;
        self.publish_jobs(job.kind);
        true
    }

    /// Allocates whole chunks within the budget, or asks for more.
    pub(crate) fn allocate(&mut self, chunks: u64, is_arena: bool) {
        if self.want.is_some() {
            return;
        }
        let bytes = Bytes(chunks * CHUNK);
        match self.page.take(bytes) {
            Ok(()) => {
                self.usage.resident += bytes;
                if is_arena {
                    self.usage.arena += bytes;
                }
                self.publish();
            }
            Err(needed) => {
                self.wants += 1;
                let seq = BudgetRequestSeq(self.wants);
                self.want = Some(Want {
                    seq,
                    chunks,
                    is_arena,
                    is_void: false,
                });
                self.page.block.want = Some((seq, needed));
                self.unread = true;
            }
        }
    }

    /// Follows the answer to its request: allocates, asks again where the budget was lowered
    /// meanwhile, or gives up.
    pub(crate) fn follow_answer(&mut self) -> bool {
        let answered = |want: &mut Want| {
            let answer = self.page.answer;
            answer.is_some_and(|answer| answer.want == want.seq)
        };
        let Some(want) = self.want.take_if(answered) else {
            return false;
        };
        if self.page.answer.is_some_and(|answer| answer.granted) && !want.is_void {
            self.allocate(want.chunks, want.is_arena);
        }
        true
    }

    /// Frees chunks of its arena that are on the GPU.
    pub(crate) fn free(&mut self, chunks: u64) -> bool {
        let arena = self.usage.arena - self.usage.swapped;
        let bytes = Bytes(chunks * CHUNK).min(arena);
        self.usage.resident -= bytes;
        self.usage.arena -= bytes;
        self.publish();
        bytes > Bytes::ZERO
    }

    /// Pins what it was asked for, at most `most` bytes.
    pub(crate) fn pin(&mut self, most: Bytes) -> bool {
        let (seq, asked) = self.page.store;
        if seq == self.pinned {
            return false;
        }
        self.pinned = seq;
        self.backing = self.backing.max(asked.min(most));
        self.page.block.backing = (seq, self.backing);
        self.unread = true;
        true
    }

    /// Moves one chunk, or ends its swap operation.
    pub(crate) fn swap(&mut self) -> bool {
        if let Some(request) = self.page.swap
            && self.served != Some(request.op)
        {
            self.served = Some(request.op);
            self.op = Some(request);
        }
        let Some(swap) = self.op else {
            return false;
        };
        let (chunk, swapped) = (Bytes(CHUNK), self.usage.swapped);
        let is_aborted = self.page.aborted == Some(swap.op);
        let outcome = match swap.direction {
            _ if is_aborted => Some(SwapOutcome::Aborted),
            Direction::Out if swapped >= swap.target => Some(SwapOutcome::Done),
            Direction::In if swapped <= swap.target => Some(SwapOutcome::Done),
            Direction::Out => {
                let can = swapped + chunk <= self.backing && self.usage.arena > swapped;
                (!can).then_some(SwapOutcome::Failed)
            }
            // It waits for credit.
            Direction::In if swapped - chunk < self.page.credit => return false,
            Direction::In => {
                let can = self.usage.resident + chunk <= self.page.budget;
                (!can).then_some(SwapOutcome::OutOfMemory)
            }
        };
        if let Some(outcome) = outcome {
            self.op = None;
            self.swaps += 1;
            self.page.block.swap = Some(SwapReport {
                op: swap.op,
                outcome,
                took: Nanos(1_000_000),
                moved: chunk,
            });
        } else if swap.direction == Direction::Out {
            self.usage.swapped += chunk;
            self.usage.resident -= chunk;
        } else {
            self.usage.swapped -= chunk;
            self.usage.resident += chunk;
        }
        self.publish();
        true
    }

    /// Bytes that it holds, has in its backing store or asks for.
    pub(crate) fn wanted(&self) -> Bytes {
        let asked = self.want.map_or(0, |want| want.chunks * CHUNK);
        self.usage.resident + self.usage.swapped + Bytes(asked)
    }
}
