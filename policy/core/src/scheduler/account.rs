//! Where the time of a waiting job goes.

use super::{Direction, Scheduler};
use crate::scheduler::job::Span;

impl Scheduler {
    /// Books what the served job has waited for since the last look.
    pub(super) fn close_span(&mut self) {
        let Some((id, span, since)) = self.state.span.take() else {
            return;
        };
        let now = self.state.now;
        if let Some(job) = self.state.tasks.get_mut(id).and_then(|t| t.job.as_mut()) {
            let waited = now - since.max(job.eligible);
            match span {
                Span::SwapOut => job.swap_out += waited,
                Span::SwapIn => job.swap_in += waited,
            }
        }
    }

    /// Notes what the served job waits for from now on: its own swap-in, or evictions for it.
    /// Everything else is queueing.
    pub(super) fn mark_span(&mut self) {
        let state = &self.state;
        let served = state
            .region
            .or_else(|| state.queue.first().map(|(_, id)| id))
            .or(state.turns.next);
        let span = served.and_then(|id| {
            let inward = self.task(id).op.as_ref();
            if inward.is_some_and(|op| op.direction == Direction::In) {
                return Some((id, Span::SwapIn));
            }
            let op = self.task(state.out?).op.as_ref()?;
            (op.beneficiary == Some(id)).then_some((id, Span::SwapOut))
        });
        if self.state.span.map(|(id, span, _)| (id, span)) != span {
            self.close_span();
            let now = self.state.now;
            self.state.span = span.map(|(id, span)| (id, span, now));
        }
    }
}
