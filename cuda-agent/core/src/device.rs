//! One managed GPU as this process uses it: its memory, its jobs, its gate.

mod pause;
mod size;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rtswap_wire::hello::DeviceState;
use rtswap_wire::page::{JobKind, next_seq};

use crate::cuda::{Context, Status};
use crate::driver::Driver;
use crate::futex::{TICK, wait_change, wake_all};
use crate::gate::{self, Locked, lock};
use crate::late::Late;
use crate::memory::{AllocError, Hints, Memory, PieceId, Ranges};
use crate::ordered::Room;
use crate::outside::Outside;
use crate::record::{AllocKind, JobTimes, Recorder};
use crate::session::View;
use crate::work::{Work, in_context};

pub(crate) use pause::Paused;

/// A context is charged this part of the GPU's memory, at most [`CONTEXT_MOST`] bytes: drivers do
/// not tell before it exists, and afterwards other processes blur the difference. A context that takes
/// more lowers the capacity as soon as NVML shows it; until then [`Device::insist`] makes room.
const CONTEXT_PART: u64 = 64;
const CONTEXT_MOST: u64 = 512 << 20;
/// Milliseconds between the tries of [`Device::insist`]: in all longer than what a dead process
/// held lags behind its death.
const PAUSES_MS: [u64; 8] = [0, 2, 5, 10, 20, 50, 100, 200];

/// How often a thread at a gate that is about to close looks whether it must be let through.
const LOOK: Duration = Duration::from_millis(1);

/// A managed GPU. Locks are taken in the order of the fields.
pub struct Device {
    /// The driver's number.
    pub ordinal: i32,
    /// The GPU's name on the page.
    pub uuid: [u8; 16],
    /// The gate.
    pub bit: u64,
    /// No daemon any more: the gate is open for good.
    alone: AtomicBool,
    /// Whether the gate was ever closed. As long as the program has no context on the GPU, its gate
    /// would only slow down the calls on others.
    armed: AtomicBool,
    /// Calls so far, as far as they were told apart.
    calls: AtomicU64,
    /// Changes when a drain is over.
    drains: AtomicU32,
    wants: Mutex<()>,
    /// Held by whoever asks how much memory there is.
    sizing: Mutex<()>,
    /// Held by whoever closes the gate.
    closing: Mutex<()>,
    /// Held while pinned memory is made in a context, so that the context waits with its end.
    pub pinning: Mutex<()>,
    /// The backing store ended with its context and must be pinned again.
    pub backing_lost: AtomicBool,
    jobs: Mutex<Jobs>,
    ranges: Arc<Ranges>,
    memory: Mutex<Memory>,
    /// What the program says that its kernels do not write.
    pub hints: Arc<Hints>,
    /// Stream-ordered memory.
    pub ordered: Room,
    /// What was freed while a stream captured.
    pub late: Late,
    /// What is held beyond the arena.
    pub outside: Outside,
    /// Takes down what happens here, if that is wanted.
    pub(crate) recorder: Option<Arc<Recorder>>,
}

struct Jobs {
    view: View,
    requested: u32,
    kind: JobKind,
    granted: u32,
    completed: u32,
    /// rtswap_job_begin without its end, in all threads.
    declared: u32,
    /// The job asked for last was granted and is not completed: the gate is open, or `draining`.
    running: bool,
    /// The gate is closed, and the job ends once all its work is done.
    draining: bool,
    /// Calls let through a gate while it was draining.
    passed: u64,
    quiet: Quiet,
    times: JobTimes,
}

/// Since when nothing was called.
struct Quiet {
    activity: u64,
    since: Instant,
}

impl Jobs {
    fn ask(&mut self, kind: JobKind) {
        self.requested = next_seq(self.requested);
        self.kind = kind;
        self.view.agent().request_job(self.requested, kind);
        self.view.session.tell();
    }

    fn complete(&mut self) {
        self.running = false;
        self.draining = false;
        self.completed = self.requested;
        self.view.agent().complete_job(self.requested);
        self.view.session.tell();
    }
}

impl Device {
    /// A GPU whose gate is closed, from the program's first context on it until its first job.
    pub fn new(
        (ordinal, uuid): (i32, [u8; 16]),
        bit: u64,
        view: View,
        memory: Memory,
        recorder: Option<Arc<Recorder>>,
    ) -> Self {
        Self {
            ordinal,
            uuid,
            bit,
            alone: AtomicBool::new(false),
            armed: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            drains: AtomicU32::new(0),
            wants: Mutex::new(()),
            sizing: Mutex::new(()),
            closing: Mutex::new(()),
            pinning: Mutex::new(()),
            backing_lost: AtomicBool::new(false),
            jobs: Mutex::new(Jobs {
                view,
                requested: 0,
                kind: JobKind::Implicit,
                granted: 0,
                completed: 0,
                declared: 0,
                running: false,
                draining: false,
                passed: 0,
                quiet: Quiet {
                    activity: 0,
                    since: Instant::now(),
                },
                times: JobTimes::default(),
            }),
            ranges: memory.ranges(),
            hints: memory.hints(),
            memory: Mutex::new(memory),
            ordered: Room::default(),
            late: Late::default(),
            outside: Outside::default(),
            recorder,
        }
    }

    /// Whether pinned memory is being made.
    pub fn is_pinning(&self) -> bool {
        matches!(
            self.pinning.try_lock(),
            Err(std::sync::TryLockError::WouldBlock)
        )
    }

    /// The program has, or is about to have, a context here.
    pub fn arm(&self) {
        if !self.armed.swap(true, Ordering::AcqRel) {
            gate::close(self.bit);
        }
    }

    /// Whether the program ever had a context here.
    pub fn is_armed(&self) -> bool {
        self.armed.load(Ordering::Acquire)
    }

    /// Whether an address is one of the program's memory objects here, or may be.
    pub fn holds(&self, at: u64) -> bool {
        self.ranges.contains(at)
    }

    /// A call goes through the gate.
    pub fn count_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// The memory, locked.
    pub fn memory(&self) -> Locked<'_, Memory> {
        lock(&self.memory)
    }

    /// The page in use.
    pub fn view(&self) -> View {
        lock(&self.jobs).view.clone()
    }

    /// What a Hello says of this GPU.
    pub fn state(&self) -> DeviceState {
        let jobs = lock(&self.jobs);
        let memory = self.memory();
        let usage = memory.usage();
        DeviceState {
            uuid: self.uuid,
            memory_bytes: memory.device_bytes(),
            resident_bytes: usage.resident_bytes,
            swapped_bytes: usage.swapped_bytes,
            arena_bytes: usage.arena_bytes,
            backing_bytes: memory.backing_bytes(),
            chunk_bytes: memory.chunk_bytes(),
            requested: jobs.requested,
            granted: jobs.granted,
            completed: jobs.completed,
            reserved: 0,
        }
    }

    /// Moves to another session's page: publishes what is, asks again for what is not completed.
    pub fn set_view(&self, view: View) {
        let mut jobs = lock(&self.jobs);
        self.memory().set_view(view.clone(), jobs.completed);
        jobs.view = view;
        // Also one that ended since the Hello, of which the daemon thinks that it runs.
        if jobs.requested != 0 {
            jobs.view.agent().request_job(jobs.requested, jobs.kind);
        }
        jobs.view.session.tell();
    }

    /// Goes on without a daemon, once everything is resident: opens the gate for good.
    pub fn go_alone(&self) {
        let _nobody_closes = lock(&self.closing);
        self.armed.store(true, Ordering::Release);
        // No job runs any more, so that nothing closes the gate again.
        lock(&self.jobs).running = false;
        self.alone.store(true, Ordering::Release);
        gate::open(self.bit);
    }

    /// Blocks until a job of this GPU runs; asks for one if none was asked for. `woken` is called
    /// when this thread opened the gate. No hooked call may be under way in this thread. Returns
    /// also when [`Self::passes_drain`] may let the thread through.
    pub fn admit(&self, woken: impl Fn()) {
        loop {
            let drains = self.drains.load(Ordering::Acquire);
            let mut jobs = lock(&self.jobs);
            if gate::is_open(self.bit) {
                return;
            }
            if jobs.draining {
                drop(jobs);
                if gate::host_call_may_wait(self.bit) {
                    return;
                }
                wait_change(&self.drains, drains, LOOK);
                continue;
            }
            if jobs.requested == jobs.completed {
                let kind = if jobs.declared > 0 {
                    JobKind::Declared
                } else {
                    JobKind::Implicit
                };
                self.record_request(&mut jobs.times);
                jobs.ask(kind);
            }
            let seen = jobs.view.daemon().granted();
            // A grant alone opens nothing: the job must also find its memory.
            if seen == jobs.requested && self.memory().swapped_bytes() == 0 {
                jobs.granted = seen;
                jobs.running = true;
                jobs.quiet.since = Instant::now();
                self.record_grant(&mut jobs.times);
                self.memory().begin_work();
                gate::open(self.bit);
                drop(jobs);
                woken();
                return;
            }
            let stale = seen == jobs.requested;
            let view = jobs.view.clone();
            drop(jobs);
            let bound = if stale { TICK / 20 } else { TICK };
            wait_change(view.daemon().grant_word(), seen, bound);
        }
    }

    /// Lets the call that is under way in this thread through the closed gate of a job that still
    /// drains, if a host function that the drain waits for may itself wait for this thread. The
    /// job's memory is in place until its drain is over, and the drain covers the call.
    pub fn passes_drain(&self) -> bool {
        let mut jobs = lock(&self.jobs);
        let passes = jobs.draining && gate::host_call_may_wait(self.bit);
        if passes {
            jobs.passed += 1;
        }
        passes
    }

    /// Whether a job runs.
    pub fn runs(&self) -> bool {
        lock(&self.jobs).running
    }

    /// Whether a job runs that nobody declared: its end must be found out.
    pub fn runs_undeclared(&self) -> bool {
        let jobs = lock(&self.jobs);
        jobs.running && jobs.declared == 0
    }

    /// Whether the daemon wants the running job to end.
    pub fn is_revoked(&self) -> bool {
        let jobs = lock(&self.jobs);
        jobs.running && jobs.view.daemon().revoked() == jobs.requested
    }

    /// rtswap_job_begin: true for the outermost, which gives the job its name.
    pub fn declare(&self, name: Option<&str>) -> bool {
        let mut jobs = lock(&self.jobs);
        jobs.declared += 1;
        let outermost = jobs.declared == 1;
        if outermost {
            self.record_name(&mut jobs.times, name);
        }
        outermost
    }

    /// Whether a job was declared that has not ended.
    pub fn is_declared(&self) -> bool {
        lock(&self.jobs).declared > 0
    }

    /// rtswap_job_end: true for the outermost. One without a begin counts for nothing.
    pub fn undeclare(&self) -> bool {
        let mut jobs = lock(&self.jobs);
        let outermost = jobs.declared == 1;
        jobs.declared = jobs.declared.saturating_sub(1);
        outermost
    }

    /// Closes the gate, waits for calls and streams for at most `bound`, and completes the job.
    /// False, with the gate open as it was, if work goes on or a stream captures.
    pub fn end_job(&self, work: &Work, bound: Duration) -> bool {
        let _one_at_a_time = lock(&self.closing);
        !self.runs()
            || self.drain(work, bound, |jobs| {
                self.fingerprint(work);
                jobs.complete();
                self.record_completion(&jobs.times, jobs.kind);
            })
    }

    /// Closes the gate of the running job and waits for its calls and streams for at most `bound`.
    /// Then does `then`. False, with the gate open as it was, if work goes on or a stream captures.
    fn drain(&self, work: &Work, bound: Duration, then: impl FnOnce(&mut Jobs)) -> bool {
        if work.captures() {
            return false;
        }
        lock(&self.jobs).draining = true;
        gate::close(self.bit);
        let drained = self
            .wait_until_drained(work, bound)
            .map(|mut jobs| then(&mut jobs));
        if drained.is_none() {
            lock(&self.jobs).draining = false;
            gate::open(self.bit);
        }
        self.drains.fetch_add(1, Ordering::AcqRel);
        wake_all(&self.drains);
        drained.is_some()
    }

    fn wait_until_drained(&self, work: &Work, bound: Duration) -> Option<Locked<'_, Jobs>> {
        let start = Instant::now();
        let left = || bound.saturating_sub(start.elapsed());
        loop {
            let passed = lock(&self.jobs).passed;
            if !gate::wait_for_calls(self.bit, left())
                || work.captures()
                || !work.wait_done(self.ordinal, self.bit, left())
            {
                return None;
            }
            let jobs = lock(&self.jobs);
            // A call that was let through may have begun more.
            if jobs.passed == passed {
                work.settle(self.ordinal);
                return Some(jobs);
            }
        }
    }

    /// Completes an undeclared job once nothing was called for `idle_gap` and all streams are
    /// done.
    pub fn end_if_idle(&self, work: &Work, idle_gap: Duration) {
        let (any_gpu, busy) = gate::activity(self.bit);
        let activity = if gate::tells_apart() {
            self.calls.load(Ordering::Relaxed)
        } else {
            any_gpu
        };
        {
            let mut jobs = lock(&self.jobs);
            if !jobs.running || jobs.declared > 0 {
                return;
            }
            if busy || activity != jobs.quiet.activity {
                jobs.quiet = Quiet {
                    activity,
                    since: Instant::now(),
                };
                return;
            }
            if jobs.quiet.since.elapsed() < idle_gap {
                return;
            }
        }
        if work.looks_done(self.ordinal) {
            // A thread that sneaks in meets a closed gate for microseconds, and the job goes on.
            self.end_job(work, Duration::ZERO);
        }
    }

    /// Allocates; asks the daemon for budget where it does not suffice.
    pub fn alloc(&self, bytes: u64, context: Context) -> Result<u64, Status> {
        self.take_memory(|memory| memory.alloc(bytes, context))
    }

    /// Creates physical memory of the program's own, likewise.
    pub fn create(&self, bytes: u64) -> Result<Vec<PieceId>, Status> {
        self.take_memory(|memory| memory.create(bytes))
    }

    fn take_memory<T>(
        &self,
        take: impl Fn(&mut Memory) -> Result<T, AllocError>,
    ) -> Result<T, Status> {
        self.insist(|| {
            let at_once = take(&mut self.memory());
            match at_once {
                Err(AllocError::OverBudget(_)) => self.with_budget(&take),
                result => result,
            }
        })
    }

    /// Takes budget for a context that is about to be made.
    pub fn reserve_context(&self) -> Result<(), Status> {
        self.arm();
        self.reserve(self.context_bytes())?;
        self.record_alloc(self.context_bytes(), AllocKind::Context);
        Ok(())
    }

    /// Takes `bytes` of budget for what is held outside the arena.
    pub fn reserve(&self, bytes: u64) -> Result<(), AllocError> {
        let reserve = |memory: &mut Memory| memory.reserve_outside(bytes);
        self.with_budget(|memory| reserve(memory).map_err(AllocError::OverBudget))
    }

    /// Does what takes memory; asks the daemon for budget until that suffices or is refused.
    fn with_budget<T>(
        &self,
        mut take: impl FnMut(&mut Memory) -> Result<T, AllocError>,
    ) -> Result<T, AllocError> {
        let _one_question = lock(&self.wants);
        loop {
            let (total, swapped, view) = {
                let mut memory = self.memory();
                match take(&mut memory) {
                    Err(AllocError::OverBudget(needed)) => {
                        (needed.0, memory.swapped_bytes(), memory.view().clone())
                    }
                    result => return result,
                }
            };
            if is_refused(&view, total) {
                let mut memory = self.memory();
                // Another thread may have freed something meanwhile.
                let result = take(&mut memory);
                // What left the GPU between question and answer was counted as resident and as swapped.
                let has_moved = memory.swapped_bytes() != swapped;
                if !matches!(result, Err(AllocError::OverBudget(_))) || !has_moved {
                    return result;
                }
                drop(memory);
                std::thread::sleep(TICK / 20);
            }
        }
    }

    /// Allocates, again and again where the driver has less memory than the budgets say: a context
    /// took more than it is charged, a process without an agent took some that nobody has seen yet,
    /// or what a dead process held comes back late. Each time twice as much must be free for it,
    /// beyond what it needs, as long as the daemon agrees: what it believes free may not be there.
    pub fn insist<T>(
        &self,
        mut allocate: impl FnMut() -> Result<T, AllocError>,
    ) -> Result<T, Status> {
        let chunk = self.memory().chunk_bytes();
        let mut more = Some(chunk);
        for pause in PAUSES_MS {
            match allocate() {
                Err(AllocError::Driver(Status::OUT_OF_MEMORY)) => {}
                result => return Ok(result?),
            }
            let taken = more.filter(|&bytes| self.reserve(bytes).is_ok());
            std::thread::sleep(Duration::from_millis(pause));
            // It stays in the budget for a while, for the next try.
            self.memory().discount_outside(taken.unwrap_or(0));
            more = taken.map(|bytes| bytes.saturating_mul(2));
        }
        Ok(allocate()?)
    }

    /// Counts a context that exists already.
    pub fn count_context(&self) {
        self.arm();
        self.count(self.context_bytes());
        self.record_alloc(self.context_bytes(), AllocKind::Context);
    }

    /// Counts `bytes` that are held beyond the arena already, whatever the budget says.
    pub fn count(&self, bytes: u64) {
        let jobs = lock(&self.jobs);
        self.memory().count_outside(bytes, jobs.completed);
    }

    /// Gives a context's bytes back.
    pub fn discount_context(&self) {
        let bytes = self.context_bytes();
        self.memory().discount_outside(bytes);
        self.record_free(bytes, AllocKind::Context);
    }

    fn context_bytes(&self) -> u64 {
        context_bytes(self.memory().device_bytes())
    }

    /// Frees the object at `at` after all work of its context, as the driver does. Nothing if no
    /// object starts there.
    pub fn free(&self, driver: &dyn Driver, at: u64) -> Option<Result<(), Status>> {
        let (start, object) = self.memory().object_at(at)?;
        if start != at {
            return Some(Err(Status::INVALID_VALUE));
        }
        // Also when the gate is closed, for then it may still be draining. No lock is held here: a
        // host callback may wait for another thread.
        if let Err(status) = in_context(driver, object.context, || driver.synchronize()) {
            return Some(Err(status));
        }
        Some(self.memory().free(at).and_then(|freed| {
            if freed {
                self.record_free(object.bytes, AllocKind::Arena);
                Ok(())
            } else {
                Err(Status::INVALID_VALUE)
            }
        }))
    }
}

fn context_bytes(device_bytes: u64) -> u64 {
    (device_bytes / CONTEXT_PART).min(CONTEXT_MOST)
}

/// Asks for `total` bytes of budget and waits for the answer. True if that is no. False means: try
/// again, and ask again if the budget was lowered or the page changed meanwhile.
fn is_refused(view: &View, total: u64) -> bool {
    let question = view.agent().want(total);
    view.session.tell();
    loop {
        let answered = view.daemon().answered_want();
        if answered == question {
            let is_refused = view.daemon().is_refused(question);
            if is_refused {
                // The reason was sent before the answer, and the program may end with the error.
                view.session.read_notices();
            }
            return is_refused;
        }
        if view.session.is_lost() {
            // Another daemon's page, or none and no budget: either way the caller tries again.
            std::thread::sleep(TICK / 4);
            return false;
        }
        wait_change(view.daemon().budget_word(), answered, TICK);
    }
}
