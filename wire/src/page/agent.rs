//! The agent's fields of one GPU, with the way each is written by it and read by the daemon.

use super::DaemonDevice;
use crate::sync::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    fence,
};

/// What started a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// The program declared it, by `rtswap.h` or a hint.
    Declared = 1,
    /// The program began GPU work after an idle time, and had declared nothing.
    Implicit = 2,
}

/// The jobs of a task as the daemon reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobReport {
    /// Sequence number of the last job that was requested.
    pub requested: u32,
    /// What started that job.
    pub kind: JobKind,
    /// Sequence number of the last job that was completed; 0 before the first.
    pub completed: u32,
}

/// How a swap operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwapOutcome {
    /// The target is reached.
    Done = 1,
    /// Stopped at a chunk, as asked.
    Aborted = 2,
    /// The GPU had no memory for a chunk within the retry bound.
    OutOfMemory = 3,
    /// The gate could not be drained within its bound; nothing (more) left.
    Undrainable = 4,
    /// The driver failed.
    Failed = 5,
}

/// The end of a swap operation as the daemon reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwapReport {
    /// Sequence number of the operation, as in [`super::SwapRequest::seq`].
    pub seq: u32,
    /// How the operation ended.
    pub outcome: SwapOutcome,
    /// Duration of the operation by the agent's own clock, in ns.
    pub ns: u64,
    /// Bytes that were copied over the link.
    pub moved_bytes: u64,
}

/// The bytes that the process uses on this GPU, by place. The fields are read one by one: they belong
/// together only while no swap operation runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageReport {
    /// All bytes on the GPU that the agent counts, in the arena and outside it.
    pub resident_bytes: u64,
    /// Bytes in the backing store.
    pub swapped_bytes: u64,
    /// Bytes of the arena's memory objects, resident and swapped together.
    pub arena_bytes: u64,
    /// The most that `resident_bytes` ever was.
    pub peak_bytes: u64,
}

/// Bytes that never leave the GPU because other processes or devices use them. Memory that is kept by
/// the chunk counts with δ for each, a whole allocation with its size.
///
/// Both words were reserved, and so zero, in earlier pages: an older agent leaves them zero and an older
/// daemon does not read them, so they need no feature bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptReport {
    /// Bytes that were exported to other processes.
    pub processes_bytes: u64,
    /// Bytes that other devices reach: GPUs, network cards, switches.
    pub devices_bytes: u64,
}

/// The agent's fields of one block as the daemon acts on them, read by [`AgentDevice::read`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentReport {
    /// Requested and completed jobs, from [`AgentDevice::jobs`]; none before the first request.
    pub jobs: Option<JobReport>,
    /// Number and bytes of the last budget request, from [`AgentDevice::wanted`].
    pub wanted: Option<(u32, u64)>,
    /// The last swap operation that ended, from [`AgentDevice::swap_report`].
    pub swap: Option<SwapReport>,
    /// Bytes in use, from [`AgentDevice::usage`]. Read after `swap`, so that they are final if that
    /// operation has ended.
    pub usage: UsageReport,
    /// Answered request and pinned bytes of the backing store, from [`AgentDevice::backing`].
    pub backing: (u32, u64),
    /// Bytes that never leave the GPU, from [`AgentDevice::kept`].
    pub kept: KeptReport,
    /// Number of the last question for a size, from [`AgentDevice::size_question`]; 0 before the first.
    pub size_question: u32,
}

/// How often the usage is read again because chunks were made or freed meanwhile.
const USAGE_READS: u32 = 4;

/// An allocation does not fit the budget: the process needs a budget of so many bytes in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfBudget(pub u64);

/// Written by the agent alone: four cache lines.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct AgentDevice {
    requested_seq: AtomicU32,
    requested_kind: AtomicU32,
    completed_seq: AtomicU32,
    want_seq: AtomicU32,
    want_bytes: AtomicU64,
    size_question: AtomicU32,
    reserved0: [AtomicU32; 9],

    ack_seq: AtomicU32,
    ack_outcome: AtomicU32,
    volume_ack_seq: AtomicU32,
    fault: AtomicU32,
    ack_ns: AtomicU64,
    ack_moved_bytes: AtomicU64,
    backing_bytes: AtomicU64,
    reserved1: [AtomicU64; 3],

    resident_bytes: AtomicU64,
    swapped_bytes: AtomicU64,
    arena_bytes: AtomicU64,
    peak_bytes: AtomicU64,
    kept_for_processes: AtomicU64,
    kept_for_devices: AtomicU64,
    reserved2: [AtomicU64; 2],

    reserved3: [AtomicU64; 8],
}

#[cfg(not(loom))]
const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(size_of::<AgentDevice>() == 256);
    assert!(offset_of!(AgentDevice, requested_seq) == 0);
    assert!(offset_of!(AgentDevice, requested_kind) == 4);
    assert!(offset_of!(AgentDevice, completed_seq) == 8);
    assert!(offset_of!(AgentDevice, want_seq) == 12);
    assert!(offset_of!(AgentDevice, want_bytes) == 16);
    assert!(offset_of!(AgentDevice, size_question) == 24);
    assert!(offset_of!(AgentDevice, ack_seq) == 64);
    assert!(offset_of!(AgentDevice, ack_outcome) == 68);
    assert!(offset_of!(AgentDevice, volume_ack_seq) == 72);
    assert!(offset_of!(AgentDevice, fault) == 76);
    assert!(offset_of!(AgentDevice, ack_ns) == 80);
    assert!(offset_of!(AgentDevice, ack_moved_bytes) == 88);
    assert!(offset_of!(AgentDevice, backing_bytes) == 96);
    assert!(offset_of!(AgentDevice, resident_bytes) == 128);
    assert!(offset_of!(AgentDevice, swapped_bytes) == 136);
    assert!(offset_of!(AgentDevice, arena_bytes) == 144);
    assert!(offset_of!(AgentDevice, peak_bytes) == 152);
    assert!(offset_of!(AgentDevice, kept_for_processes) == 160);
    assert!(offset_of!(AgentDevice, kept_for_devices) == 168);
};

/// The agent's writing, and the daemon's reading. The agent's threads make sure that one of them
/// writes at a time.
impl AgentDevice {
    /// Asks for the job `seq`; the one before must be completed. Tell the daemon afterwards.
    pub fn request_job(&self, seq: u32, kind: JobKind) {
        self.requested_kind.store(kind as u32, Relaxed);
        self.requested_seq.store(seq, Release);
    }

    /// Reports the job `seq` done. Tell the daemon afterwards.
    pub fn complete_job(&self, seq: u32) {
        self.completed_seq.store(seq, Release);
    }

    /// Takes `bytes` of the budget before they are allocated. While a lowering races with it, the
    /// usage may exceed the budget for a moment: only an excess that lasts is one.
    pub fn take(&self, daemon: &DaemonDevice, bytes: u64) -> Result<(), OutOfBudget> {
        self.take_with(daemon, bytes, 0)
    }

    /// As [`Self::take`], for chunks of the arena. They count there from the first: making them takes
    /// long, and what is not in the arena passes for memory that never leaves.
    pub fn take_chunks(&self, daemon: &DaemonDevice, bytes: u64) -> Result<(), OutOfBudget> {
        self.take_with(daemon, bytes, bytes)
    }

    fn take_with(&self, daemon: &DaemonDevice, bytes: u64, chunks: u64) -> Result<(), OutOfBudget> {
        let resident = self.resident_bytes.load(Relaxed);
        let needed = resident.saturating_add(bytes);
        // What never fitted is not shown at all.
        if needed > daemon.budget_bytes() {
            return Err(OutOfBudget(needed));
        }
        let arena = self.arena_bytes.load(Relaxed);
        self.arena_bytes
            .store(arena.saturating_add(chunks), Relaxed);
        self.resident_bytes.store(needed, Release);
        fence(SeqCst);
        if needed > daemon.budget_bytes() {
            self.resident_bytes.store(resident, Release);
            self.arena_bytes.store(arena, Release);
            return Err(OutOfBudget(needed));
        }
        self.peak_bytes.fetch_max(needed, Relaxed);
        Ok(())
    }

    /// Gives `bytes` back after they were released.
    pub fn give_back(&self, bytes: u64) {
        let resident = self.resident_bytes.load(Relaxed);
        self.resident_bytes
            .store(resident.saturating_sub(bytes), Release);
    }

    /// Asks for a budget of `bytes` in all, and returns the question's number, to be compared with
    /// [`DaemonDevice::answered_want`]. Tell the daemon afterwards.
    pub fn want(&self, bytes: u64) -> u32 {
        let seq = super::next_seq(self.want_seq.load(Relaxed));
        self.want_bytes.store(bytes, Relaxed);
        self.want_seq.store(seq, Release);
        seq
    }

    /// Asks how much memory the process may have, and returns the question's number, to be compared with
    /// [`DaemonDevice::size`]. Tell the daemon afterwards. Only where that answers any.
    pub fn ask_size(&self) -> u32 {
        let seq = super::next_seq(self.size_question.load(Relaxed));
        self.size_question.store(seq, Release);
        seq
    }

    /// Publishes what a session that outlived its daemon holds: into a fresh page, before use.
    pub fn restore(&self, usage: UsageReport, backing_bytes: u64, completed: u32) {
        self.resident_bytes.store(usage.resident_bytes, Relaxed);
        self.peak_bytes.store(usage.peak_bytes, Relaxed);
        self.completed_seq.store(completed, Relaxed);
        self.backing_bytes.store(backing_bytes, Relaxed);
        self.set_arena(usage.arena_bytes, usage.swapped_bytes);
    }

    /// Publishes the arena's size and how much of it is in the backing store, in bytes.
    pub fn set_arena(&self, arena_bytes: u64, swapped_bytes: u64) {
        // Release: a reader that sees the smaller arena also sees the smaller `resident_bytes`.
        self.arena_bytes.store(arena_bytes, Release);
        self.swapped_bytes.store(swapped_bytes, Release);
    }

    /// Publishes the bytes that never leave the GPU.
    pub fn set_kept(&self, kept: KeptReport) {
        self.kept_for_processes.store(kept.processes_bytes, Relaxed);
        self.kept_for_devices.store(kept.devices_bytes, Relaxed);
    }

    /// Reports the backing store after the volume request `seq`: `bytes` are pinned. Tell the
    /// daemon afterwards.
    pub fn confirm_volume(&self, seq: u32, bytes: u64) {
        self.backing_bytes.store(bytes, Relaxed);
        self.volume_ack_seq.store(seq, Release);
    }

    /// Reports a swap operation over. Tell the daemon afterwards.
    pub fn end_swap(&self, report: SwapReport) {
        self.ack_outcome.store(report.outcome as u32, Relaxed);
        self.ack_ns.store(report.ns, Relaxed);
        self.ack_moved_bytes.store(report.moved_bytes, Relaxed);
        self.ack_seq.store(report.seq, Release);
    }

    /// Leaves the driver's error code of the last failure, for the daemon's log.
    pub fn set_fault(&self, code: u32) {
        self.fault.store(code, Relaxed);
    }
}

/// What the daemon sees.
impl AgentDevice {
    /// Reads all that the daemon acts on. The order matters: the end of a job comes before what is
    /// asked for now, and the usage after the report of the operation that changed it.
    pub fn read(&self) -> AgentReport {
        let jobs = self.jobs();
        let wanted = self.wanted();
        let swap = self.swap_report();
        // The report's number was loaded with Acquire: what its writer stored before is seen.
        let usage = self.usage();
        AgentReport {
            jobs,
            wanted,
            swap,
            usage,
            backing: self.backing(),
            kept: self.kept(),
            size_question: self.size_question(),
        }
    }

    /// The last question for a size; 0 before the first.
    pub fn size_question(&self) -> u32 {
        self.size_question.load(Acquire)
    }

    /// The jobs. Nothing before the first, while it changes, or where the kind makes no sense. A
    /// request is never seen without the completion of the job before it.
    pub fn jobs(&self) -> Option<JobReport> {
        let requested = self.requested_seq.load(Acquire);
        let kind = match self.requested_kind.load(Relaxed) {
            1 => JobKind::Declared,
            2 => JobKind::Implicit,
            _ => return None,
        };
        let completed = self.completed_seq.load(Acquire);
        fence(Acquire);
        (requested != 0 && self.requested_seq.load(Relaxed) == requested).then_some(JobReport {
            requested,
            kind,
            completed,
        })
    }

    /// The last question for budget: its number and the bytes wanted in all. Nothing before the
    /// first or while it changes.
    pub fn wanted(&self) -> Option<(u32, u64)> {
        let seq = self.want_seq.load(Acquire);
        let bytes = self.want_bytes.load(Relaxed);
        fence(Acquire);
        (seq != 0 && self.want_seq.load(Relaxed) == seq).then_some((seq, bytes))
    }

    /// The last swap operation that ended. Nothing before the first, while it changes, or where the
    /// outcome makes no sense.
    pub fn swap_report(&self) -> Option<SwapReport> {
        let seq = self.ack_seq.load(Acquire);
        let outcome = match self.ack_outcome.load(Relaxed) {
            1 => SwapOutcome::Done,
            2 => SwapOutcome::Aborted,
            3 => SwapOutcome::OutOfMemory,
            4 => SwapOutcome::Undrainable,
            5 => SwapOutcome::Failed,
            _ => return None,
        };
        let ns = self.ack_ns.load(Relaxed);
        let moved_bytes = self.ack_moved_bytes.load(Relaxed);
        fence(Acquire);
        (seq != 0 && self.ack_seq.load(Relaxed) == seq).then_some(SwapReport {
            seq,
            outcome,
            ns,
            moved_bytes,
        })
    }

    /// Where the bytes are. Chunks that are made or freed meanwhile are in `arena_bytes` whenever they are
    /// in `resident_bytes`: what is seen to be resident and not in the arena is so.
    pub fn usage(&self) -> UsageReport {
        let mut usage = self.read_usage();
        // A stranger may write on and on.
        for _ in 0..USAGE_READS {
            if self.arena_bytes.load(Relaxed) == usage.arena_bytes {
                break;
            }
            usage = self.read_usage();
        }
        usage
    }

    fn read_usage(&self) -> UsageReport {
        let usage = UsageReport {
            swapped_bytes: self.swapped_bytes.load(Acquire),
            arena_bytes: self.arena_bytes.load(Acquire),
            resident_bytes: self.resident_bytes.load(Acquire),
            peak_bytes: self.peak_bytes.load(Relaxed),
        };
        fence(Acquire);
        usage
    }

    /// The bytes that never leave the GPU. An agent older than these fields reports 0.
    pub fn kept(&self) -> KeptReport {
        KeptReport {
            processes_bytes: self.kept_for_processes.load(Relaxed),
            devices_bytes: self.kept_for_devices.load(Relaxed),
        }
    }

    /// The last volume request answered, and the bytes pinned then.
    pub fn backing(&self) -> (u32, u64) {
        let seq = self.volume_ack_seq.load(Acquire);
        (seq, self.backing_bytes.load(Relaxed))
    }

    /// The driver's error code of the last failure, 0 if none.
    pub fn fault(&self) -> u32 {
        self.fault.load(Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn taking_stops_at_the_budget() {
        let (daemon, agent) = (DaemonDevice::default(), AgentDevice::default());
        assert_eq!(daemon.set_budget(&agent, 100), 100);
        assert_eq!(agent.take(&daemon, 60), Ok(()));
        assert_eq!(agent.take(&daemon, 60), Err(OutOfBudget(120)));
        assert_eq!(agent.usage().resident_bytes, 60);
        assert_eq!(
            daemon.set_budget(&agent, 10),
            60,
            "what is taken cannot be denied"
        );
        agent.give_back(60);
        assert_eq!(daemon.set_budget(&agent, 10), 10);
        assert_eq!(agent.usage().peak_bytes, 60);
    }

    #[test]
    fn a_report_has_every_field() {
        let (daemon, agent) = (DaemonDevice::default(), AgentDevice::default());
        assert_eq!(agent.read(), AgentReport::default());
        daemon.set_budget(&agent, 100);
        agent.take(&daemon, 60).unwrap();
        agent.set_arena(50, 20);
        agent.want(120);
        agent.request_job(3, JobKind::Declared);
        let swap = SwapReport {
            seq: 4,
            outcome: SwapOutcome::Done,
            ns: 5,
            moved_bytes: 20,
        };
        agent.end_swap(swap);
        agent.confirm_volume(2, 20);
        let kept = KeptReport {
            processes_bytes: 1,
            devices_bytes: 2,
        };
        agent.set_kept(kept);
        let expected = AgentReport {
            jobs: agent.jobs(),
            wanted: Some((1, 120)),
            swap: Some(swap),
            usage: agent.usage(),
            backing: (2, 20),
            kept,
            size_question: agent.ask_size(),
        };
        assert_eq!(agent.read(), expected);
        assert_eq!(expected.jobs.map(|jobs| jobs.requested), Some(3));
        assert_eq!(expected.usage.swapped_bytes, 20);
    }

    #[test]
    fn reports_need_a_sense() {
        let agent = AgentDevice::default();
        assert_eq!(
            (agent.jobs(), agent.wanted(), agent.swap_report()),
            (None, None, None)
        );
        agent.requested_seq.store(5, Relaxed);
        agent.requested_kind.store(9, Relaxed);
        agent.ack_seq.store(5, Relaxed);
        agent.ack_outcome.store(900, Relaxed);
        assert_eq!((agent.jobs(), agent.swap_report()), (None, None));
    }
}
