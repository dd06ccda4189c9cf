use super::*;
use rtswap_policy::scheduler::{Discipline, Moment};
use rtswap_policy::units::{Nanos, Time};

const SECOND: u64 = 1_000_000_000;

fn at(seconds: u64) -> Time {
    Time(seconds * SECOND)
}

fn seconds(count: u64) -> Nanos {
    Nanos(count * SECOND)
}

fn moment(since: u64, granted: u64) -> Moment {
    Moment {
        now: at(granted),
        since: at(since),
        granted: at(granted),
        settled: Nanos::ZERO,
        change: seconds(2),
        waiting: 2,
        rounds: seconds(8),
    }
}

fn asked(second: u64) -> Standing {
    Standing {
        requested: at(second),
        ..Standing::default()
    }
}

#[test]
fn a_lock_is_given_up_after_the_job_and_in_order() {
    let holder = asked(0);
    assert_eq!(
        FirstCome.turn_ends(&holder, &asked(1), &moment(0, 0)),
        Time::MAX
    );
    assert_eq!(FirstCome.keeps(&holder, &moment(0, 0)), Nanos::ZERO);
    let rank = |second| FirstCome.rank(&mut asked(second), Nanos::ZERO, &moment(0, 0));
    assert!(rank(1) < rank(2));
}

#[test]
fn nvshare_gives_quanta_one_after_another() {
    let ends = |asks| Fixed::NVSHARE.turn_ends(&asked(0), &asked(asks), &moment(100, 125));
    // Asked before the turn began, within its first quantum, and within its third.
    assert_eq!(ends(90), at(130));
    assert_eq!(ends(129), at(130));
    assert_eq!(ends(161), at(190));
    assert_eq!(
        Fixed::NVSHARE.keeps(&asked(0), &moment(100, 125)),
        seconds(5)
    );
    assert_eq!(Fixed::NVSHARE.longest_wait(&moment(0, 0)), seconds(68));
}

#[test]
fn a_job_had_a_tenth_of_a_second() {
    let ends = Fixed::EACH_JOB.turn_ends(&asked(0), &asked(90), &moment(100, 125));
    assert_eq!(ends, at(125) + Nanos(SECOND / 10));
    assert!(Fixed::EACH_JOB.manners().brings_ahead && !Fixed::NVSHARE.manners().brings_ahead);
}

#[test]
fn suspension_takes_all_and_keeps_a_minute() {
    let policy = SuspendAll::default();
    assert!(policy.manners().suspends);
    assert_eq!(
        policy.turn_ends(&asked(0), &asked(3), &moment(0, 0)),
        at(60)
    );
}

/// A program at a level, and what it has computed there.
fn program(level: u8, had: u64) -> Standing {
    Standing {
        virtual_time: seconds(had),
        rank: Rank { level, place: 0 },
        ..Standing::default()
    }
}

#[test]
fn a_program_sinks_as_it_computes_and_rises_as_it_is_idle() {
    let after = |level, had, idle| {
        let mut task = program(level, had);
        task.idle = idle;
        let rank = Feedback.rank(&mut task, Nanos::ZERO, &moment(0, 0));
        (rank.level, task.virtual_time)
    };
    assert_eq!(after(3, 9, Nanos::MAX), (0, Nanos::ZERO), "a new one");
    assert_eq!(after(0, 8, Nanos::ZERO), (0, seconds(8)));
    assert_eq!(after(0, 9, Nanos::ZERO), (1, seconds(1)));
    assert_eq!(after(0, 60, Nanos::ZERO), (3, seconds(4)));
    assert_eq!(after(3, 70, Nanos::ZERO), (3, seconds(6)), "the lowest");
    // Twice the 16 s of its level, and half of them and what it had.
    assert_eq!(after(1, 3, seconds(32)), (1, seconds(3)));
    assert_eq!(after(1, 3, seconds(33)), (0, Nanos::ZERO));
    assert_eq!(after(2, 3, seconds(65)), (1, Nanos::ZERO));
    assert_eq!(after(2, 3, seconds(97)), (0, Nanos::ZERO));
}

#[test]
fn a_higher_level_comes_at_once_the_same_after_its_time_a_lower_one_when_the_holder_sinks() {
    let ends = |holder: &Standing, other| {
        Feedback.turn_ends(holder, &program(other, 0), &moment(100, 110))
    };
    assert_eq!(ends(&program(2, 0), 1), at(110));
    assert_eq!(ends(&program(3, 0), 3), at(164));
    assert_eq!(ends(&program(1, 12), 1), at(114), "it sinks before 16 s");
    assert_eq!(ends(&program(0, 5), 1), at(113));
    assert_eq!(ends(&program(0, 5), 3), at(161));
}
