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
        since: at(since),
        granted: at(granted),
        settled: Nanos::ZERO,
        change: seconds(2),
        price: seconds(2),
        waiting: 2,
        presses: Time::MAX,
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

/// The level and the seconds computed there of a program that asks again after it `had` computed at
/// `level`, where it is since the origin, and was idle until `now`.
fn after(level: u8, had: u64, idle: Nanos, now: u64) -> (u8, u64) {
    let mut task = program(level, had);
    task.idle = idle;
    task.requested = at(now);
    let rank = Feedback.rank(&mut task, Nanos::ZERO, &moment(0, 0));
    // The lower bits, as long as the scheduler adds less than four minutes.
    (rank.level, (task.virtual_time.0 & ((1 << 38) - 1)) / SECOND)
}

#[test]
fn a_program_sinks_as_it_computes() {
    assert_eq!(after(3, 9, Nanos::MAX, 100), (0, 0), "a new one");
    assert_eq!(after(0, 8, Nanos::ZERO, 100), (0, 8));
    assert_eq!(after(0, 9, Nanos::ZERO, 100), (1, 1));
    assert_eq!(after(0, 60, Nanos::ZERO, 100), (3, 4));
    assert_eq!(after(3, 70, Nanos::ZERO, 100), (3, 6), "the lowest");
}

#[test]
fn a_program_rises_as_it_is_idle() {
    // Half of the 16 s of its level, and what it had; and twice the 16 s since it came there.
    assert_eq!(after(1, 3, seconds(10), 100), (1, 3));
    assert_eq!(after(1, 3, seconds(11), 100), (0, 0));
    assert_eq!(after(1, 3, seconds(20), 31), (1, 3));
    assert_eq!(after(1, 3, seconds(20), 32), (0, 0));
    // The next level takes twice its time, from then on.
    assert_eq!(after(2, 3, seconds(19), 100), (1, 0));
    assert_eq!(after(2, 3, seconds(51), 100), (0, 0));
    // It sank 2 s before it stopped.
    assert_eq!(after(0, 10, seconds(29), 100), (1, 2));
    assert_eq!(after(0, 10, seconds(30), 100), (0, 0));
}

#[test]
fn a_higher_level_comes_at_once_the_same_after_its_time_a_lower_one_when_the_holder_sinks() {
    let ends = |holder: &Standing, other| {
        let other = Standing {
            requested: at(105),
            ..program(other, 0)
        };
        Feedback.turn_ends(holder, &other, &moment(100, 110))
    };
    assert_eq!(ends(&program(2, 0), 1), at(110));
    assert_eq!(ends(&program(3, 0), 3), at(164));
    assert_eq!(ends(&program(1, 12), 1), at(114), "it sinks before 16 s");
    assert_eq!(ends(&program(0, 5), 1), at(113));
    assert_eq!(ends(&program(0, 5), 3), at(161));
    // Equal after 3 * 8 s would be later than when the holder sinks.
    assert_eq!(ends(&program(0, 0), 1), at(118));
}

#[test]
fn a_program_that_waits_rises_more_slowly() {
    let other = Standing {
        requested: at(90),
        ..program(1, 1)
    };
    let ends = |granted| {
        let holder = program(0, 0);
        Feedback.turn_ends(&holder, &other, &moment(100, granted))
    };
    // After 3 * 9 s it is equal, and the holder's 8 s have passed; or the holder sinks.
    assert_eq!(ends(105), at(113));
    assert_eq!(ends(114), at(117));
}
