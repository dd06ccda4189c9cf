//! What one GPU's orders await of an agent: others wait for it, and bounds run. So an answer is read even while
//! the requests of its owner are paused.

use rtswap_engine::input::{Block, JobSeq, SwapSeq};
use rtswap_policy::units::Bytes;

/// The orders that have no answer yet, of those answers that were read.
#[derive(Debug)]
pub struct Awaited {
    /// The step in which a swap operation moves on.
    chunk: Bytes,
    /// The job that was revoked.
    revoked: Option<JobSeq>,
    swap: Option<Swap>,
    /// Sequence number of the order for a backing store.
    store: Option<u32>,
}

/// A swap operation that was ordered.
#[derive(Clone, Copy, Debug)]
struct Swap {
    seq: SwapSeq,
    /// The bytes in the backing store that it is to reach.
    target: Bytes,
    /// The bytes that it is away from that at the least so far: going back and forth is no progress.
    left: u64,
}

impl Awaited {
    /// Nothing is awaited. Swap operations move `chunk` bytes at a time.
    pub fn new(chunk: Bytes) -> Self {
        Self {
            chunk: chunk.max(Bytes(1)),
            revoked: None,
            swap: None,
            store: None,
        }
    }

    /// Awaits the end of the revoked `job`.
    pub fn await_end(&mut self, job: JobSeq) {
        self.revoked = Some(job);
    }

    /// Awaits the progress and the end of swap operation `seq`, which begins at `swapped` bytes.
    pub fn await_swap(&mut self, seq: SwapSeq, target: Bytes, swapped: Bytes) {
        let left = target.0.abs_diff(swapped.0);
        self.swap = Some(Swap { seq, target, left });
    }

    /// Awaits that the agent follows the order `seq` for a backing store.
    pub fn await_store(&mut self, seq: u32) {
        self.store = Some(seq);
    }

    /// Whether an order has no answer that was read, and a bound for it.
    pub fn is_bounded(&self) -> bool {
        self.revoked.is_some() || self.swap.is_some()
    }

    /// Whether an order has no answer that was read.
    pub fn is_open(&self) -> bool {
        self.is_bounded() || self.store.is_some()
    }

    /// Whether `block` answers an order, or shows a swap operation a chunk further. Each order is answered once and
    /// has so many chunks, whatever an agent writes.
    pub fn is_answered(&self, block: &Block) -> bool {
        let chunk = self.chunk.0;
        let swap = self.swap.is_some_and(|swap| {
            swap.has_ended(block) || swap.left(block).saturating_add(chunk) <= swap.left
        });
        let revoked = self.revoked.is_some_and(|job| has_ended(job, block));
        swap || revoked || self.store.is_some_and(|seq| seq == block.backing.0)
    }

    /// Takes in a block that was read.
    pub fn record(&mut self, block: &Block) {
        self.revoked.take_if(|job| has_ended(*job, block));
        self.store.take_if(|seq| *seq == block.backing.0);
        self.swap.take_if(|swap| swap.has_ended(block));
        if let Some(swap) = &mut self.swap {
            swap.left = swap.left.min(swap.left(block));
        }
    }
}

/// Whether a block shows the end of `job`, perhaps by the next one.
fn has_ended(job: JobSeq, block: &Block) -> bool {
    let jobs = block.jobs;
    jobs.is_some_and(|jobs| jobs.completed == job || jobs.requested != job)
}

impl Swap {
    fn has_ended(&self, block: &Block) -> bool {
        block.swap.is_some_and(|end| end.op == self.seq)
    }

    fn left(&self, block: &Block) -> u64 {
        self.target.0.abs_diff(block.usage.swapped.0)
    }
}

#[cfg(test)]
mod tests {
    use rtswap_engine::input::{JobKind, Jobs, SwapOutcome, SwapReport};
    use rtswap_policy::units::Nanos;

    use super::*;

    fn jobs(requested: u32, completed: u32) -> Block {
        Block {
            jobs: Some(Jobs {
                requested: JobSeq(requested),
                kind: JobKind::Implicit,
                completed: JobSeq(completed),
            }),
            ..Block::default()
        }
    }

    #[test]
    fn an_answer_is_one_until_it_is_read() {
        let mut awaited = Awaited::new(Bytes(2));
        awaited.await_end(JobSeq(4));
        assert!(!awaited.is_answered(&jobs(4, 3)), "it runs");
        assert!(awaited.is_answered(&jobs(5, 5)), "it ended unseen");
        let ended = jobs(4, 4);
        assert!(awaited.is_answered(&ended));
        awaited.record(&ended);
        assert!(!awaited.is_answered(&ended) && !awaited.is_open());

        let followed = Block {
            backing: (7, Bytes(20)),
            ..Block::default()
        };
        awaited.await_store(7);
        assert!(!awaited.is_answered(&Block::default()));
        assert!(awaited.is_answered(&followed));
        awaited.record(&followed);
        assert!(!awaited.is_open());
    }

    #[test]
    fn a_swap_operation_is_followed_chunk_by_chunk_and_not_back_and_forth() {
        let mut awaited = Awaited::new(Bytes(2));
        awaited.await_swap(SwapSeq(3), Bytes(10), Bytes(4));
        let mut block = Block::default();
        let mut answers = |swapped: &[u64]| {
            let answered = swapped.iter().filter(|swapped| {
                block.usage.swapped = Bytes(**swapped);
                let is_answered = awaited.is_answered(&block);
                awaited.record(&block);
                is_answered
            });
            answered.count()
        };
        assert_eq!(answers(&[4, 5]), 0, "less than a chunk");
        assert_eq!(answers(&[7, 4, 7, 9, 7, 9]), 2);
        block.swap = Some(SwapReport {
            op: SwapSeq(3),
            outcome: SwapOutcome::Aborted,
            took: Nanos(1),
            moved: Bytes(5),
        });
        assert!(awaited.is_answered(&block));
        awaited.record(&block);
        assert!(!awaited.is_answered(&block) && !awaited.is_open());
    }
}
