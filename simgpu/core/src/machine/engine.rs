//! The engines of a GPU: who may use one, and how long it takes.
//!
//! An engine is one word, the instant up to which it is reserved, in a meter. An
//! operation reserves its time behind that, does its real work, and is complete not
//! before its reservation ends. A reservation of a killed process simply passes.

use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use super::{Lately, Machine};
use crate::clock::now_ns;

/// The engines of each GPU, shared by all processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineKind {
    /// Copies host to device.
    HostToDevice = 0,
    /// Copies device to host.
    DeviceToHost = 1,
    /// Kernels, sets, and copies on the device.
    Compute = 2,
}

/// A span of an engine's time, ns on CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reservation {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}

/// Where on an engine's time a reservation would be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) start_ns: u64,
    /// Whether the engine has nothing to do right before.
    pub(super) was_idle: bool,
}

impl Machine {
    /// Reserves `duration_ns` of an engine, behind all that is reserved and not
    /// before `ready_ns`.
    ///
    /// `ready_ns` may have passed: an operation queued behind another starts
    /// when that one ends, however late the host wakes up to see it.
    pub(crate) fn reserve(
        &self,
        gpu: usize,
        kind: EngineKind,
        ready_ns: u64,
        duration_ns: u64,
    ) -> Reservation {
        self.reserve_for(gpu, kind, ready_ns, |_| duration_ns)
    }

    /// As [`Machine::reserve`], for as long as `duration_ns` says of the place that the
    /// reservation would have.
    pub(super) fn reserve_for(
        &self,
        gpu: usize,
        kind: EngineKind,
        ready_ns: u64,
        duration_ns: impl Fn(Place) -> u64,
    ) -> Reservation {
        let engine = self.engine(gpu, kind);
        engine.mark(now_ns());
        let until = engine.until_ns();
        let mut busy_until = until.load(Relaxed);
        loop {
            let start_ns = ready_ns.max(busy_until);
            let was_idle = busy_until < start_ns;
            let duration_ns = duration_ns(Place { start_ns, was_idle });
            let end_ns = start_ns + duration_ns;
            match until.compare_exchange_weak(busy_until, end_ns, AcqRel, Relaxed) {
                Ok(_) => {
                    engine.count(duration_ns);
                    return Reservation { start_ns, end_ns };
                }
                Err(later) => busy_until = later,
            }
        }
    }

    /// All time an engine was ever reserved for, ns.
    pub(crate) fn busy_ns(&self, gpu: usize, kind: EngineKind) -> u64 {
        self.engine(gpu, kind).total_ns()
    }

    /// How busy an engine was of late.
    pub(crate) fn engine_lately(&self, gpu: usize, kind: EngineKind) -> Lately {
        self.engine(gpu, kind).lately(now_ns())
    }

    /// Counts a reservation of the compute engine as a process's, whose slot this is.
    ///
    /// `asked_ns` is when it asked for it.
    pub(crate) fn count_compute(&self, gpu: usize, slot: usize, asked_ns: u64, span: Reservation) {
        let meter = self.compute_meter(gpu, slot);
        meter.mark(asked_ns);
        meter.count_span(span.start_ns, span.end_ns);
    }

    /// How busy a process kept the compute engine of late; exact where it has
    /// one thing at a time on it, otherwise off by what else it has reserved.
    pub(crate) fn compute_lately(&self, gpu: usize, slot: usize) -> Lately {
        self.compute_meter(gpu, slot).lately(now_ns())
    }
}

#[cfg(test)]
mod tests {
    use super::super::open::tests::small;
    use super::*;

    #[test]
    fn reservations_never_overlap() {
        let (_dir, machine) = small(2);
        let mut spans: Vec<_> = std::thread::scope(|scope| {
            let reserve = || {
                let one = |i: u64| machine.reserve(0, EngineKind::Compute, i * 3, 1 + i % 7);
                (0..1000).map(one).collect::<Vec<_>>()
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(reserve)).collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect()
        });
        spans.sort_by_key(|span| span.start_ns);
        assert!(
            spans
                .windows(2)
                .all(|pair| pair[0].end_ns <= pair[1].start_ns)
        );
        let busy: u64 = spans.iter().map(|span| span.end_ns - span.start_ns).sum();
        assert_eq!(machine.busy_ns(0, EngineKind::Compute), busy);
        assert_eq!(machine.busy_ns(0, EngineKind::HostToDevice), 0);
    }

    #[test]
    fn an_idle_engine_starts_when_the_work_is_ready() {
        let (_dir, machine) = small(2);
        let first = machine.reserve(0, EngineKind::DeviceToHost, 100, 50);
        let second = machine.reserve(0, EngineKind::DeviceToHost, 120, 10);
        let third = machine.reserve(0, EngineKind::DeviceToHost, 500, 10);
        assert_eq!(
            (first.start_ns, second.start_ns, third.start_ns),
            (100, 150, 500)
        );
    }
}
