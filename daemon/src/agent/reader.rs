//! Control pages → the engine's blocks. The agent may write anything into its page: a block is loaded
//! once, as a whole, and the engine judges its values.

use std::mem;

use rtswap_engine::input::{Block, Jobs, Kept, SwapReport};
use rtswap_engine::input::{BudgetRequestSeq, JobKind, JobSeq, SwapOutcome, SwapSeq, Usage};
use rtswap_policy::units::{Bytes, Nanos};
use rtswap_wire::page::{self, AgentDevice, AgentReport};

/// The agent's fields of one GPU, as they were read last.
#[derive(Debug, Default)]
pub struct Reader {
    last: Block,
}

impl Reader {
    /// Reads the fields. None where they have not changed since the last time, unless `anyway`.
    pub fn read(&mut self, agent: &AgentDevice, anyway: bool) -> Option<Block> {
        let block = Self::peek(agent);
        let former = mem::replace(&mut self.last, block);
        (anyway || block != former).then_some(block)
    }

    /// The fields as they are now. They do not count as read.
    pub fn peek(agent: &AgentDevice) -> Block {
        block_of(&agent.read())
    }
}

fn block_of(report: &AgentReport) -> Block {
    let usage = report.usage;
    let (followed, backing) = report.backing;
    Block {
        jobs: report.jobs.map(|jobs| Jobs {
            requested: JobSeq(jobs.requested),
            kind: match jobs.kind {
                page::JobKind::Declared => JobKind::Declared,
                page::JobKind::Implicit => JobKind::Implicit,
            },
            completed: JobSeq(jobs.completed),
        }),
        want: report
            .wanted
            .map(|(seq, bytes)| (BudgetRequestSeq(seq), Bytes(bytes))),
        swap: report.swap.map(|end| SwapReport {
            op: SwapSeq(end.seq),
            outcome: match end.outcome {
                page::SwapOutcome::Done => SwapOutcome::Done,
                page::SwapOutcome::Aborted => SwapOutcome::Aborted,
                page::SwapOutcome::OutOfMemory => SwapOutcome::OutOfMemory,
                page::SwapOutcome::Undrainable => SwapOutcome::Undrainable,
                page::SwapOutcome::Failed => SwapOutcome::Failed,
            },
            took: Nanos(end.ns),
            moved: Bytes(end.moved_bytes),
        }),
        usage: Usage {
            resident: Bytes(usage.resident_bytes),
            swapped: Bytes(usage.swapped_bytes),
            arena: Bytes(usage.arena_bytes),
        },
        backing: (followed, Bytes(backing)),
        kept: Kept {
            for_processes: Bytes(report.kept.processes_bytes),
            for_devices: Bytes(report.kept.devices_bytes),
        },
        size_question: report.size_question,
    }
}

#[cfg(test)]
mod tests {
    use rtswap_wire::page::DeviceBlock;

    use super::*;

    #[test]
    fn a_block_is_new_only_when_it_differs() {
        let (block, mut reader) = (DeviceBlock::default(), Reader::default());
        assert_eq!(reader.read(&block.agent, false), None, "untouched");
        block.agent.request_job(2, page::JobKind::Declared);
        block.agent.want(64);
        let expected = Block {
            jobs: Some(Jobs {
                requested: JobSeq(2),
                kind: JobKind::Declared,
                completed: JobSeq(0),
            }),
            want: Some((BudgetRequestSeq(1), Bytes(64))),
            ..Block::default()
        };
        assert_eq!(reader.read(&block.agent, false), Some(expected));
        assert_eq!(reader.read(&block.agent, false), None);
        assert_eq!(reader.read(&block.agent, true), Some(expected));
    }

    #[test]
    fn the_end_of_an_operation_comes_with_the_usage_that_it_left() {
        let (block, mut reader) = (DeviceBlock::default(), Reader::default());
        block.daemon.set_budget(&block.agent, 100);
        block.agent.take(&block.daemon, 100).unwrap();
        block.agent.set_arena(100, 50);
        block.agent.give_back(50);
        block.agent.end_swap(page::SwapReport {
            seq: 1,
            outcome: page::SwapOutcome::Aborted,
            ns: 7,
            moved_bytes: 50,
        });
        let read = reader.read(&block.agent, false).unwrap();
        assert_eq!(
            read.swap.map(|end| (end.op, end.moved)),
            Some((SwapSeq(1), Bytes(50)))
        );
        assert_eq!(
            (read.usage.resident, read.usage.swapped),
            (Bytes(50), Bytes(50))
        );
    }
}
