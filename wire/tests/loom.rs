//! Every handshake of the control page under loom: all interleavings, all allowed reorderings.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p rtswap-wire --release --test loom`
#![cfg(loom)]
#![allow(missing_docs)]

use loom::sync::Arc;
use loom::thread;
use rtswap_wire::page::{
    AgentDevice, DaemonDevice, Direction, JobKind, SwapOutcome, SwapReport, SwapRequest,
    UsageReport,
};

#[derive(Default)]
struct Block {
    daemon: DaemonDevice,
    agent: AgentDevice,
}

/// Runs the two sides of one block against each other.
fn race(daemon: fn(&Block), agent: fn(&Block)) {
    loom::model(move || {
        let block = Arc::new(Block::default());
        let shared = Arc::clone(&block);
        let side = thread::spawn(move || agent(&shared));
        daemon(&block);
        side.join().unwrap();
    });
}

#[test]
fn a_request_comes_with_its_kind_and_the_completion_before_it() {
    race(
        |block| {
            if let Some(jobs) = block.agent.jobs() {
                assert_eq!(jobs.kind, JobKind::Declared);
                assert!(jobs.completed == jobs.requested || jobs.completed + 1 == jobs.requested);
            }
        },
        |block| {
            block.agent.request_job(1, JobKind::Declared);
            block.agent.complete_job(1);
            block.agent.request_job(2, JobKind::Declared);
        },
    );
}

#[test]
fn a_swap_request_is_seen_whole_and_its_report_too() {
    race(
        |block| {
            let request = SwapRequest {
                seq: 1,
                direction: Direction::In,
                target_bytes: 64,
            };
            block.daemon.request_swap(request, 32);
            block.daemon.ring();
            let read = block.agent.read();
            if let Some(report) = read.swap {
                assert_eq!(report.seq, 1);
                assert_eq!(report.outcome, SwapOutcome::Done);
                assert_eq!((report.ns, report.moved_bytes), (5, 64));
                assert_eq!(read.usage.swapped_bytes, 64);
            }
        },
        |block| {
            if let Some(request) = block.daemon.swap_request() {
                assert_eq!(request.direction, Direction::In);
                assert_eq!(request.target_bytes, 64);
                assert_eq!(block.daemon.credit_bytes(), 32);
                block.agent.set_arena(128, 64);
                let outcome = SwapOutcome::Done;
                block.agent.end_swap(SwapReport {
                    seq: 1,
                    outcome,
                    ns: 5,
                    moved_bytes: 64,
                });
            }
        },
    );
}

/// A chunk lands while a word is left for the operation that it belongs to.
fn a_chunk_races(leave: fn(&Block) -> u64, reads: fn(&Block) -> bool) {
    loom::model(move || {
        let block = Arc::new(Block::default());
        let request = SwapRequest {
            seq: 1,
            direction: Direction::In,
            target_bytes: 0,
        };
        block.agent.set_arena(96, 96);
        block.daemon.request_swap(request, 64);
        let shared = Arc::clone(&block);
        let agent = thread::spawn(move || {
            shared.agent.set_arena(96, 64);
            reads(&shared)
        });
        let before = leave(&block);
        let heard = block.agent.usage().swapped_bytes != before;
        let read = agent.join().unwrap();
        assert!(!heard || read, "not rung again, and the agent waits");
    });
}

#[test]
fn who_shows_a_chunk_more_has_read_its_credit() {
    a_chunk_races(
        |block| block.daemon.set_credit(&block.agent, 32),
        |block| block.daemon.credit_bytes() == 32,
    );
}

#[test]
fn who_shows_a_chunk_more_has_read_that_it_must_stop() {
    a_chunk_races(
        |block| block.daemon.abort_swap(&block.agent, 1),
        |block| block.daemon.aborted_swap() == 1,
    );
}

#[test]
fn credit_comes_with_its_budget() {
    race(
        |block| {
            block.daemon.set_budget(&block.agent, 70);
            block.daemon.set_credit(&block.agent, 32);
        },
        |block| {
            if block.daemon.credit_bytes() == 32 {
                assert_eq!(block.agent.take(&block.daemon, 70), Ok(()));
            }
        },
    );
}

#[test]
fn a_budget_lowered_against_a_taking_never_loses_a_byte() {
    loom::model(|| {
        let block = Arc::new(Block::default());
        block.daemon.set_budget(&block.agent, 100);
        let shared = Arc::clone(&block);
        let agent = thread::spawn(move || shared.agent.take(&shared.daemon, 80).is_ok());
        let holds = block.daemon.set_budget(&block.agent, 10);
        let taken = agent.join().unwrap();
        assert!(
            !taken || holds >= 80,
            "the agent holds 80, the daemon counts {holds}"
        );
        assert_eq!(
            block.agent.usage().resident_bytes,
            if taken { 80 } else { 0 }
        );
    });
}

#[test]
fn chunks_that_are_made_or_freed_are_never_seen_outside_the_arena() {
    loom::model(|| {
        let block = Arc::new(Block::default());
        block.daemon.set_budget(&block.agent, 100);
        let shared = Arc::clone(&block);
        let agent = thread::spawn(move || {
            shared.agent.take_chunks(&shared.daemon, 80).unwrap();
            shared.agent.give_back(32);
            shared.agent.set_arena(48, 0);
        });
        let usage = block.agent.usage();
        assert!(usage.resident_bytes <= usage.arena_bytes, "{usage:?}");
        agent.join().unwrap();
        let usage = block.agent.usage();
        assert_eq!((usage.resident_bytes, usage.arena_bytes), (48, 48));
    });
}

#[test]
fn a_taking_that_is_too_late_for_two_lowerings_gets_nothing() {
    loom::model(|| {
        let block = Arc::new(Block::default());
        block.daemon.set_budget(&block.agent, 100);
        let shared = Arc::clone(&block);
        let agent = thread::spawn(move || shared.agent.take(&shared.daemon, 80).is_ok());
        let first = block.daemon.set_budget(&block.agent, 10);
        let second = block.daemon.set_budget(&block.agent, 20);
        let taken = agent.join().unwrap();
        assert!(!taken || second >= 80, "taken, and {second} counted");
        assert!(
            second <= first.max(20),
            "nobody gave {second} after {first} was confirmed"
        );
    });
}

#[test]
fn an_answered_want_comes_with_its_budget() {
    race(
        |block| {
            if let Some((seq, bytes)) = block.agent.wanted() {
                assert_eq!(bytes, 70);
                block.daemon.set_budget(&block.agent, bytes);
                block.daemon.answer_want(seq, true);
            }
        },
        |block| {
            let seq = block.agent.want(70);
            if block.daemon.answered_want() == seq {
                assert!(!block.daemon.is_refused(seq));
                assert_eq!(block.agent.take(&block.daemon, 70), Ok(()));
            }
        },
    );
}

#[test]
fn a_refusal_comes_with_its_answer() {
    race(
        |block| {
            if let Some((seq, _)) = block.agent.wanted() {
                block.daemon.answer_want(seq, false);
            }
        },
        |block| {
            let seq = block.agent.want(70);
            if block.daemon.answered_want() == seq {
                assert!(block.daemon.is_refused(seq));
            }
        },
    );
}

#[test]
fn a_grant_comes_after_all_that_the_daemon_saw() {
    race(
        |block| {
            if block.agent.jobs().is_some() {
                block.daemon.grant(1);
            }
        },
        |block| {
            block.agent.request_job(1, JobKind::Implicit);
            let granted = block.daemon.granted();
            assert!(granted == 0 || granted == 1);
        },
    );
}

#[test]
fn a_confirmed_volume_comes_with_its_bytes() {
    race(
        |block| {
            block.daemon.set_volume(48);
            let (seq, bytes) = block.agent.backing();
            assert!(seq == 0 || bytes == 48);
        },
        |block| {
            if let Some((seq, bytes)) = block.daemon.volume() {
                if seq != 0 {
                    assert_eq!(bytes, 48);
                    block.agent.confirm_volume(seq, bytes);
                }
            }
        },
    );
}

#[test]
fn a_restored_state_is_what_the_daemon_reads() {
    race(
        |block| {
            if let Some(jobs) = block.agent.jobs() {
                assert_eq!((jobs.requested, jobs.completed), (4, 3));
                assert_eq!(block.agent.usage().resident_bytes, 9);
                assert_eq!(block.agent.backing().1, 7);
            }
        },
        |block| {
            let usage = UsageReport {
                resident_bytes: 9,
                swapped_bytes: 2,
                arena_bytes: 10,
                peak_bytes: 11,
            };
            block.agent.restore(usage, 7, 3);
            block.agent.request_job(4, JobKind::Implicit);
        },
    );
}
