//! One GPU's block of a control page, with the rules of the wire.

use rtswap_engine::groups::Order;
use rtswap_engine::input::Block;
use rtswap_policy::scheduler::{BudgetAnswer, Direction, JobSeq, SwapSeq};
use rtswap_policy::units::Bytes;

/// The daemon's fields, and what the agent writes beside them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Page {
    pub(crate) granted: Option<JobSeq>,
    pub(crate) revoked: Option<JobSeq>,
    pub(crate) budget: Bytes,
    pub(crate) answer: Option<BudgetAnswer>,
    pub(crate) swap: Option<SwapRequest>,
    pub(crate) credit: Bytes,
    pub(crate) aborted: Option<SwapSeq>,
    /// The number of the last request for a backing store, and its bytes.
    pub(crate) store: (u32, Bytes),
    /// The agent's fields.
    pub(crate) block: Block,
}

/// A swap operation as the agent is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SwapRequest {
    pub(crate) op: SwapSeq,
    pub(crate) direction: Direction,
    pub(crate) target: Bytes,
}

impl Page {
    /// Writes an order, and returns the budget that holds if that is what was set.
    pub(crate) fn write(&mut self, order: &Order) -> Option<Bytes> {
        match *order {
            Order::Grant { job } => self.granted = Some(job),
            Order::Revoke { job } => self.revoked = Some(job),
            Order::Swap {
                op,
                direction,
                target,
                credit,
            } => {
                self.swap = Some(SwapRequest {
                    op,
                    direction,
                    target,
                });
                self.credit = credit;
            }
            Order::SetCredit { credit, .. } => self.credit = credit,
            Order::Abort { op } => self.aborted = Some(op),
            Order::SetBudget { bytes, answers } => {
                // What the agent has taken of the former budget cannot be denied.
                let taken = self.block.usage.resident.min(self.budget);
                self.budget = taken.max(bytes);
                self.answer = answers.or(self.answer);
                return Some(self.budget);
            }
            Order::SetBackingStore { bytes } => self.store = (self.store.0 + 1, bytes),
        }
        None
    }

    /// Takes `bytes` of the budget, or returns the budget that this needs.
    pub(crate) fn take(&mut self, bytes: Bytes) -> Result<(), Bytes> {
        let needed = self.block.usage.resident + bytes;
        if needed > self.budget {
            return Err(needed);
        }
        self.block.usage.resident = needed;
        Ok(())
    }
}
