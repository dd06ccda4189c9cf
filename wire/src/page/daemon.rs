//! The daemon's fields of one GPU, with the way each is written by it and read by the agent.

use super::AgentDevice;
use crate::sync::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    fence,
};

/// The direction in which a swap operation moves chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the GPU to the backing store; SIGUSR1.
    Out = 1,
    /// From the backing store to the GPU; SIGUSR2.
    In = 2,
}

/// A swap operation as the daemon asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwapRequest {
    /// Sequence number of the operation: 1 for the first, wrapping past 0.
    pub seq: u32,
    /// The direction of the operation.
    pub direction: Direction,
    /// The bytes that are in the backing store when it is done. A level, not the bytes to move, so that
    /// a request can be repeated, aborted at any chunk and resumed.
    pub target_bytes: u64,
}

/// Written by the daemon alone: three cache lines.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct DaemonDevice {
    uuid: [AtomicU64; 2],
    chunk_bytes: AtomicU64,
    memory_bytes: AtomicU64,
    reserved0: [AtomicU64; 4],

    grant_seq: AtomicU32,
    revoke_seq: AtomicU32,
    budget_seq: AtomicU32,
    volume_seq: AtomicU32,
    budget_bytes: AtomicU64,
    volume_bytes: AtomicU64,
    refused_seq: AtomicU32,
    size_seq: AtomicU32,
    size_bytes: AtomicU64,
    reserved1: [AtomicU64; 2],

    request_seq: AtomicU32,
    request_direction: AtomicU32,
    abort_seq: AtomicU32,
    bell: AtomicU32,
    request_target_bytes: AtomicU64,
    credit_bytes: AtomicU64,
    reserved2: [AtomicU64; 4],
}

#[cfg(not(loom))]
const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(size_of::<DaemonDevice>() == 192);
    assert!(offset_of!(DaemonDevice, uuid) == 0);
    assert!(offset_of!(DaemonDevice, chunk_bytes) == 16);
    assert!(offset_of!(DaemonDevice, memory_bytes) == 24);
    assert!(offset_of!(DaemonDevice, grant_seq) == 64);
    assert!(offset_of!(DaemonDevice, revoke_seq) == 68);
    assert!(offset_of!(DaemonDevice, budget_seq) == 72);
    assert!(offset_of!(DaemonDevice, volume_seq) == 76);
    assert!(offset_of!(DaemonDevice, budget_bytes) == 80);
    assert!(offset_of!(DaemonDevice, volume_bytes) == 88);
    assert!(offset_of!(DaemonDevice, refused_seq) == 96);
    assert!(offset_of!(DaemonDevice, size_seq) == 100);
    assert!(offset_of!(DaemonDevice, size_bytes) == 104);
    assert!(offset_of!(DaemonDevice, request_seq) == 128);
    assert!(offset_of!(DaemonDevice, request_direction) == 132);
    assert!(offset_of!(DaemonDevice, abort_seq) == 136);
    assert!(offset_of!(DaemonDevice, bell) == 140);
    assert!(offset_of!(DaemonDevice, request_target_bytes) == 144);
    assert!(offset_of!(DaemonDevice, credit_bytes) == 152);
};

/// The daemon's writing, and the agent's reading.
impl DaemonDevice {
    /// Names the GPU of this block: its UUID, the chunk size δ and the memory rtswap may hand out
    /// on it, both in bytes. Before the page is sent.
    pub fn describe(&self, uuid: [u8; 16], chunk_bytes: u64, memory_bytes: u64) {
        let [low, high] = halves(uuid);
        self.uuid[0].store(low, Relaxed);
        self.uuid[1].store(high, Relaxed);
        self.chunk_bytes.store(chunk_bytes, Relaxed);
        self.memory_bytes.store(memory_bytes, Relaxed);
    }

    /// Grants the job `seq`. Wake [`Self::grant_word`] afterwards.
    pub fn grant(&self, seq: u32) {
        self.grant_seq.store(seq, Release);
    }

    /// Asks that the best-effort job `seq` end at its next launch boundary. Ring afterwards.
    pub fn revoke(&self, seq: u32) {
        self.revoke_seq.store(seq, Release);
    }

    /// Sets the budget, and returns what holds: more than `bytes` where the agent had taken more of
    /// the former budget already, but never more than the larger of the two. The other half of
    /// [`AgentDevice::take`]: of a lowering and a taking that race, at least one sees the other.
    pub fn set_budget(&self, agent: &AgentDevice, bytes: u64) -> u64 {
        let former = self.budget_bytes.load(Relaxed);
        self.budget_bytes.store(bytes, Relaxed);
        fence(SeqCst);
        let taken = agent.usage().resident_bytes;
        let holds = taken.min(former).max(bytes);
        if holds > bytes {
            self.budget_bytes.store(holds, Relaxed);
        }
        holds
    }

    /// Answers the agent's question `want_seq`, after [`Self::set_budget`]. Wake
    /// [`Self::budget_word`] afterwards.
    ///
    /// The page names the last refused question, because the budget alone does not tell a refusal from
    /// a budget that was granted and lowered again before the agent used it.
    pub fn answer_want(&self, want_seq: u32, granted: bool) {
        if !granted {
            self.refused_seq.store(want_seq, Relaxed);
        }
        self.budget_seq.store(want_seq, Release);
    }

    /// Answers the agent's question `size_seq` for a size, in bytes and never 0; question 0 is answered
    /// before it is asked. Wake [`Self::size_word`] afterwards.
    ///
    /// The words were reserved, and so zero, in earlier pages: a size of 0 tells an agent that its daemon
    /// is older and answers no such questions, so they need no feature bit.
    pub fn answer_size(&self, size_seq: u32, bytes: u64) {
        self.size_bytes.store(bytes, Relaxed);
        self.size_seq.store(size_seq, Release);
    }

    /// Asks for a backing store of `bytes`. Ring afterwards.
    pub fn set_volume(&self, bytes: u64) {
        self.volume_bytes.store(bytes, Relaxed);
        let seq = super::next_seq(self.volume_seq.load(Relaxed));
        self.volume_seq.store(seq, Release);
    }

    /// Asks for a swap operation; the one before must be over. `credit_bytes` is how low a swap-in
    /// may bring the backing store's bytes for now (`target_bytes` where it need not wait). Ring
    /// afterwards.
    pub fn request_swap(&self, request: SwapRequest, credit_bytes: u64) {
        self.request_direction
            .store(request.direction as u32, Relaxed);
        self.request_target_bytes
            .store(request.target_bytes, Relaxed);
        self.credit_bytes.store(credit_bytes, Relaxed);
        self.request_seq.store(request.seq, Release);
    }

    /// Lets the swap-in that was asked for last go on down to `credit_bytes`, after
    /// [`Self::set_budget`]. Ring afterwards, until the agent shows other bytes in the backing store
    /// than the ones returned: [`Self::credit_bytes`] that it reads after those is this.
    pub fn set_credit(&self, agent: &AgentDevice, credit_bytes: u64) -> u64 {
        self.credit_bytes.store(credit_bytes, Release);
        fence(SeqCst);
        agent.usage().swapped_bytes
    }

    /// Asks that the swap operation `seq` stop at its next chunk. Ring afterwards, as after
    /// [`Self::set_credit`].
    pub fn abort_swap(&self, agent: &AgentDevice, seq: u32) -> u64 {
        self.abort_seq.store(seq, Release);
        fence(SeqCst);
        agent.usage().swapped_bytes
    }

    /// Counts one doorbell up; wake [`Self::bell_word`] and send the signal afterwards.
    pub fn ring(&self) {
        self.bell.fetch_add(1, Release);
    }
}

/// What the agent sees.
impl DaemonDevice {
    /// The GPU's UUID; zeros in an unused block.
    pub fn uuid(&self) -> [u8; 16] {
        let mut uuid = [0; 16];
        uuid[..8].copy_from_slice(&self.uuid[0].load(Relaxed).to_ne_bytes());
        uuid[8..].copy_from_slice(&self.uuid[1].load(Relaxed).to_ne_bytes());
        uuid
    }

    /// δ in bytes.
    pub fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes.load(Relaxed)
    }

    /// What rtswap may hand out on this GPU, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Relaxed)
    }

    /// The job that is granted: compare for equality with the one asked for.
    pub fn granted(&self) -> u32 {
        self.grant_seq.load(Acquire)
    }

    /// The futex word that changes when a job is granted.
    pub fn grant_word(&self) -> &AtomicU32 {
        &self.grant_seq
    }

    /// The job that must end at its next launch boundary.
    pub fn revoked(&self) -> u32 {
        self.revoke_seq.load(Acquire)
    }

    /// The budget in bytes.
    pub fn budget_bytes(&self) -> u64 {
        self.budget_bytes.load(Relaxed)
    }

    /// The last question for budget that was answered.
    pub fn answered_want(&self) -> u32 {
        self.budget_seq.load(Acquire)
    }

    /// Whether the answered question `want_seq` was refused. If it was not and the budget does not
    /// suffice, it was lowered again meanwhile: ask again.
    pub fn is_refused(&self, want_seq: u32) -> bool {
        self.refused_seq.load(Relaxed) == want_seq
    }

    /// The futex word that changes when a question for budget is answered.
    pub fn budget_word(&self) -> &AtomicU32 {
        &self.budget_seq
    }

    /// The last question for a size that was answered, and the answer in bytes. None where the daemon
    /// answers none.
    pub fn size(&self) -> Option<(u32, u64)> {
        let seq = self.size_seq.load(Acquire);
        let bytes = self.size_bytes.load(Relaxed);
        (bytes > 0).then_some((seq, bytes))
    }

    /// The futex word that changes when a question for a size is answered.
    pub fn size_word(&self) -> &AtomicU32 {
        &self.size_seq
    }

    /// The backing store asked for: its number and its bytes. Nothing while it changes.
    pub fn volume(&self) -> Option<(u32, u64)> {
        let seq = self.volume_seq.load(Acquire);
        let bytes = self.volume_bytes.load(Relaxed);
        fence(Acquire);
        (self.volume_seq.load(Relaxed) == seq).then_some((seq, bytes))
    }

    /// The swap operation asked for last. Nothing before the first, while it changes, or where the
    /// direction makes no sense.
    pub fn swap_request(&self) -> Option<SwapRequest> {
        let seq = self.request_seq.load(Acquire);
        let direction = match self.request_direction.load(Relaxed) {
            1 => Direction::Out,
            2 => Direction::In,
            _ => return None,
        };
        let target_bytes = self.request_target_bytes.load(Relaxed);
        fence(Acquire);
        (seq != 0 && self.request_seq.load(Relaxed) == seq).then_some(SwapRequest {
            seq,
            direction,
            target_bytes,
        })
    }

    /// How low a swap-in may bring the backing store's bytes for now: the budget suffices until
    /// there. To be read after each [`AgentDevice::set_arena`]: of a raise and a chunk that race, at
    /// least one sees the other.
    pub fn credit_bytes(&self) -> u64 {
        fence(SeqCst);
        self.credit_bytes.load(Acquire)
    }

    /// The swap operation that must stop at its next chunk. To be read likewise.
    pub fn aborted_swap(&self) -> u32 {
        fence(SeqCst);
        self.abort_seq.load(Acquire)
    }

    /// Doorbells so far. The futex word for a swap thread that waits where no signal reaches it.
    pub fn bell_word(&self) -> &AtomicU32 {
        &self.bell
    }
}

fn halves(uuid: [u8; 16]) -> [u64; 2] {
    let half = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&uuid[at..at + 8]);
        u64::from_ne_bytes(bytes)
    };
    [half(0), half(8)]
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_description_comes_back() {
        let device = DaemonDevice::default();
        let uuid = *b"0123456789abcdef";
        device.describe(uuid, 2 << 20, 3 << 30);
        assert_eq!(device.uuid(), uuid);
        assert_eq!(device.chunk_bytes(), 2 << 20);
        assert_eq!(device.memory_bytes(), 3 << 30);
    }

    #[test]
    fn a_size_is_told_once_the_daemon_tells_any() {
        let (device, agent) = (DaemonDevice::default(), AgentDevice::default());
        assert_eq!(device.size(), None, "a daemon that knows no such question");
        device.answer_size(0, 5);
        assert_eq!(device.size(), Some((0, 5)));
        assert_eq!((agent.size_question(), agent.ask_size()), (0, 1));
        assert_eq!(agent.read().size_question, 1);
        device.answer_size(1, 7);
        assert_eq!(device.size(), Some((1, 7)));
    }

    #[test]
    fn no_request_and_a_senseless_one_read_as_none() {
        let device = DaemonDevice::default();
        assert_eq!(device.swap_request(), None);
        device.request_seq.store(1, Relaxed);
        device.request_direction.store(77, Relaxed);
        assert_eq!(device.swap_request(), None);
    }
}
