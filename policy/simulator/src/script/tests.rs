//! Times of small scripts, worked out by hand.

use super::*;

/// A byte takes a nanosecond out and two in, and 5/4 of that beside a copy in the other direction.
const LINK: Link = Link {
    out: 1_000_000_000,
    in_: 500_000_000,
    duplex: Ppm(800_000),
    latency: Nanos::ZERO,
};

fn compute(count: u32) -> After {
    After {
        compute: count,
        ..After::default()
    }
}

fn times(fill: impl Fn(&mut Script)) -> (Option<Nanos>, Option<Nanos>) {
    let mut script = Script::new(LINK);
    fill(&mut script);
    (script.idle(), script.loaded())
}

const fn both(idle: u64, loaded: u64) -> (Option<Nanos>, Option<Nanos>) {
    (Some(Nanos(idle)), Some(Nanos(loaded)))
}

#[test]
fn one_copy_has_the_engine_or_half_of_a_slowed_one() {
    let one = |direction| times(|script| script.copy(direction, Bytes(1_000), After::default()));
    assert_eq!(one(Direction::Out), both(1_000, 2_500));
    assert_eq!(one(Direction::In), both(2_000, 5_000));
}

#[test]
fn what_a_copy_takes_beside_its_bytes_is_never_slower() {
    let mut script = Script::new(Link {
        latency: Nanos(300),
        ..LINK
    });
    script.copy(Direction::In, Bytes(100), After::default());
    script.copy(Direction::In, Bytes::ZERO, After::default());
    let times = (script.idle(), script.loaded());
    assert_eq!(times, both(300 + 200 + 300, 300 + 500 + 300));
}

#[test]
fn both_directions_slow_each_other_while_both_copy() {
    let found = times(|script| {
        script.copy(Direction::Out, Bytes(1_000), After::default());
        script.copy(Direction::In, Bytes(1_000), After::default());
    });
    // Out ends at 1,250. Until then 500 bytes came in, and the other 500 take 1,000 alone.
    assert_eq!(found, both(2_250, 5_000));
}

#[test]
fn copies_of_one_direction_go_one_after_the_other() {
    let found = times(|script| {
        script.copy(Direction::In, Bytes(100), compute(1));
        script.copy(Direction::In, Bytes(200), After::default());
        script.compute(Nanos(50), After::default());
    });
    assert_eq!(found, both(50 + 600, 50 + 1_500));
}

#[test]
fn computing_hides_a_copy_until_engines_are_loaded() {
    // Prefetch for the second operator while the first computes.
    let found = times(|script| {
        script.copy(Direction::In, Bytes(100), After::default());
        script.compute(Nanos(300), After::default());
        let in_ = 1;
        script.compute(
            Nanos(40),
            After {
                in_,
                ..After::default()
            },
        );
    });
    assert_eq!(found, both(340, 540));
}

#[test]
fn a_copy_in_waits_for_the_memory_that_a_copy_out_frees() {
    let found = times(|script| {
        script.compute(Nanos(10), After::default());
        script.copy(Direction::Out, Bytes(100), compute(1));
        let out = 1;
        script.copy(
            Direction::In,
            Bytes(100),
            After {
                out,
                ..After::default()
            },
        );
        let in_ = 1;
        script.compute(
            Nanos(5),
            After {
                in_,
                ..After::default()
            },
        );
    });
    assert_eq!(found, both(10 + 100 + 200 + 5, 10 + 250 + 500 + 5));
}

#[test]
fn parts_of_a_nanosecond_are_rounded_up_and_nothing_takes_no_time() {
    assert_eq!(
        times(|script| script.copy(Direction::Out, Bytes(3), After::default())),
        both(3, 8)
    );
    assert_eq!(times(|_| {}), both(0, 0));
    assert_eq!(
        times(|script| script.compute(Nanos::ZERO, After::default())),
        both(0, 0)
    );
}

#[test]
fn what_waits_for_itself_or_for_nothing_never_ends() {
    let crossed = times(|script| {
        script.copy(Direction::Out, Bytes(1), compute(1));
        let out = 1;
        script.compute(
            Nanos(1),
            After {
                out,
                ..After::default()
            },
        );
    });
    assert_eq!(crossed, (None, None));
    assert_eq!(
        times(|script| script.compute(Nanos(1), compute(2))),
        (None, None)
    );
    let mut still = Script::new(Link { out: 0, ..LINK });
    still.copy(Direction::Out, Bytes(1), After::default());
    assert_eq!((still.idle(), still.loaded()), (None, None));
}
