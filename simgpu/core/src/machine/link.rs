//! The link between host and device: what copies take while both directions share it.
//!
//! Reservations alone tell too little of the other direction: a program that copies without a
//! pause has reserved its current piece and no more. So each engine also has the instant up
//! to which it is expected to copy. Whoever has more to copy moves that ahead of what is reserved,
//! by the time of one granule at most; if nothing follows, or its process is killed, it passes.
//!
//! A reservation once given is not lengthened when the other engine begins during it, and not
//! shortened when that one ends early: where a direction begins or ends, the model errs by one
//! granule at most.

use std::sync::atomic::Ordering::Relaxed;

use super::Machine;
use super::engine::{EngineKind, Place, Reservation};
use crate::config::{GRANULE, GpuConfig};

const GIB: f64 = (1u64 << 30) as f64;

/// A piece of a copy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    /// Time before its first byte, ns.
    pub(crate) latency_ns: f64,
    pub(crate) bytes: u64,
    /// Bytes known to be copied on the same engine next.
    pub(crate) bytes_behind: u64,
}

impl EngineKind {
    /// The engine that shares the link with this one.
    fn opposite(self) -> Option<Self> {
        match self {
            Self::HostToDevice => Some(Self::DeviceToHost),
            Self::DeviceToHost => Some(Self::HostToDevice),
            Self::Compute => None,
        }
    }

    /// The rate of a copy that has the link to itself.
    fn copy_gib_per_s(self, costs: &GpuConfig) -> f64 {
        match self {
            Self::HostToDevice => costs.h2d_gib_per_s,
            Self::DeviceToHost => costs.d2h_gib_per_s,
            // Each byte is read and written.
            Self::Compute => costs.compute_gib_per_s / 2.0,
        }
    }
}

impl Machine {
    /// Reserves an engine for a piece of a copy, as [`Machine::reserve`] does.
    pub(crate) fn reserve_piece(
        &self,
        gpu: usize,
        kind: EngineKind,
        ready_ns: u64,
        piece: Piece,
    ) -> Reservation {
        let costs = self.gpu(gpu);
        let alone_ns = transfer_ns(piece.bytes, kind.copy_gib_per_s(costs));
        let span = self.reserve_for(gpu, kind, ready_ns, |Place { start_ns, was_idle }| {
            let Some(opposite) = kind.opposite() else {
                return (piece.latency_ns + alone_ns) as u64;
            };
            let start_us = if was_idle { costs.copy_start_us } else { 0.0 };
            let latency_ns = piece.latency_ns + start_us * 1e3;
            let other_ns = self.copies_until(gpu, opposite).saturating_sub(start_ns) as f64;
            let beside_ns = (other_ns - latency_ns).max(0.0);
            (latency_ns + shared_ns(alone_ns, costs.duplex, beside_ns)) as u64
        });
        self.expect_copies(gpu, kind, piece.bytes_behind);
        span
    }

    /// Tells the other direction that so many bytes are to be copied behind what is reserved of an engine.
    pub(crate) fn expect_copies(&self, gpu: usize, kind: EngineKind, bytes: u64) {
        let costs = self.gpu(gpu);
        // Covers any piece of the other direction that begins before what is reserved here ends.
        let slower = costs.h2d_gib_per_s.min(costs.d2h_gib_per_s);
        let most_ns = transfer_ns(GRANULE, slower);
        let behind_ns = transfer_ns(bytes, kind.copy_gib_per_s(costs)).min(most_ns) / costs.duplex;
        let reserved_ns = self.engine(gpu, kind).until_ns().load(Relaxed);
        let expected_ns = &self.words(gpu).expected_ns[kind as usize];
        expected_ns.fetch_max(reserved_ns + behind_ns as u64, Relaxed);
    }

    /// Up to when an engine copies, as far as that is known.
    fn copies_until(&self, gpu: usize, kind: EngineKind) -> u64 {
        let reserved_ns = self.engine(gpu, kind).until_ns().load(Relaxed);
        let expected_ns = self.words(gpu).expected_ns[kind as usize].load(Relaxed);
        reserved_ns.max(expected_ns)
    }
}

/// Time for `bytes` at a rate, ns.
pub(crate) fn transfer_ns(bytes: u64, gib_per_s: f64) -> f64 {
    bytes as f64 / (gib_per_s * GIB) * 1e9
}

/// How long a transfer takes that alone would take `alone_ns`, where for the first `beside_ns` the
/// other direction copies too and leaves it a share of its rate.
fn shared_ns(alone_ns: f64, share: f64, beside_ns: f64) -> f64 {
    let done_beside = (beside_ns * share).min(alone_ns);
    done_beside / share + alone_ns - done_beside
}

#[cfg(test)]
mod tests {
    use super::super::open::tests::with_gpu;
    use super::*;
    use crate::config::Size;
    use EngineKind::{DeviceToHost, HostToDevice};

    /// What a granule takes either way, ns.
    const ALONE_NS: u64 = 2_000_000;

    fn machine(duplex: f64, copy_start_us: f64) -> (tempfile::TempDir, Machine) {
        let rate = GRANULE as f64 / GIB / (ALONE_NS as f64 / 1e9);
        with_gpu(GpuConfig {
            memory: Size(GRANULE),
            context_bytes: Size(GRANULE),
            h2d_gib_per_s: rate,
            d2h_gib_per_s: rate,
            duplex,
            copy_start_us,
            ..GpuConfig::default()
        })
    }

    fn granule(bytes_behind: u64) -> Piece {
        Piece {
            latency_ns: 0.0,
            bytes: GRANULE,
            bytes_behind,
        }
    }

    fn near(ns: u64, wanted: f64) -> bool {
        (ns as f64 - wanted).abs() < 10.0
    }

    #[test]
    fn a_piece_runs_at_its_share_up_to_where_the_other_direction_ends() {
        let (_dir, machine) = machine(0.5, 0.0);
        let out = machine.reserve_piece(0, DeviceToHost, 1000, granule(0));
        assert!(near(out.end_ns - out.start_ns, ALONE_NS as f64));
        // Half of the time of the other is left, in which a quarter of the piece is done.
        let middle = u64::midpoint(out.start_ns, out.end_ns);
        let into = machine.reserve_piece(0, HostToDevice, middle, granule(0));
        assert!(near(into.end_ns - into.start_ns, ALONE_NS as f64 * 1.25));
        let alone = machine.reserve_piece(0, DeviceToHost, into.end_ns, granule(0));
        assert!(near(alone.end_ns - alone.start_ns, ALONE_NS as f64));
    }

    #[test]
    fn directions_do_not_slow_each_other_unless_configured() {
        let (_dir, machine) = machine(1.0, 0.0);
        for kind in [HostToDevice, DeviceToHost, HostToDevice, DeviceToHost] {
            let span = machine.reserve_piece(0, kind, 1000, granule(GRANULE));
            assert!(
                near(span.end_ns - span.start_ns, ALONE_NS as f64),
                "{span:?}"
            );
        }
    }

    /// Streams of pieces in both directions, each reserved when the one before ends; what they
    /// take over what they take alone, from one phase of theirs to the other.
    fn stretched(duplex: f64, phase_ns: u64, late_ns: [u64; 2]) -> [f64; 2] {
        const PIECES: u64 = 200;
        let (_dir, machine) = machine(duplex, 0.0);
        let kinds = [HostToDevice, DeviceToHost];
        let first = [1000, 1000 + phase_ns];
        let (mut ends, mut done) = (first, [0; 2]);
        while done.iter().all(|&done| done < PIECES) {
            // The next to be reserved is the one whose host gets to it first.
            let due = [0, 1].map(|at| ends[at] + late_ns[at]);
            let at = usize::from(due[1] < due[0]);
            let piece = granule((PIECES - 1 - done[at]) * GRANULE);
            ends[at] = machine.reserve_piece(0, kinds[at], ends[at], piece).end_ns;
            done[at] += 1;
        }
        [0, 1].map(|at| (ends[at] - first[at]) as f64 / (done[at] * ALONE_NS) as f64)
    }

    #[test]
    fn continuous_streams_come_to_their_share_whatever_their_phase() {
        for duplex in [0.9, 0.7, 0.5] {
            for phase_ns in (0..=ALONE_NS).step_by(ALONE_NS as usize / 8) {
                for late_ns in [[0, 0], [100_000, 0], [0, 300_000], [200_000, 250_000]] {
                    for stretch in stretched(duplex, phase_ns, late_ns) {
                        let share = 1.0 / stretch / duplex;
                        assert!(
                            (0.99..1.015).contains(&share),
                            "duplex {duplex}, phase {phase_ns}, late {late_ns:?}: {share}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_copy_on_an_idle_engine_takes_its_start_and_those_behind_it_do_not() {
        let (_dir, machine) = machine(1.0, 500.0);
        let first = machine.reserve_piece(0, HostToDevice, 1000, granule(0));
        let second = machine.reserve_piece(0, HostToDevice, first.end_ns, granule(0));
        let third = machine.reserve_piece(0, HostToDevice, second.end_ns + 1, granule(0));
        let lengths = [first, second, third].map(|span| span.end_ns - span.start_ns);
        let alone = ALONE_NS as f64;
        for (length, wanted) in lengths.into_iter().zip([alone + 5e5, alone, alone + 5e5]) {
            assert!(near(length, wanted), "{lengths:?}");
        }
        let compute = machine.reserve_piece(0, EngineKind::Compute, 1000, granule(0));
        let rate = GpuConfig::default().compute_gib_per_s / 2.0;
        assert!(near(
            compute.end_ns - compute.start_ns,
            transfer_ns(GRANULE, rate)
        ));
    }
}
