//! Two implementations of processor demand, written independently, agree.

use rtswap_policy::admission::Test;
use rtswap_simulator::Rng;
use rtswap_soundness::search::{Kind, draw, tighten};
use rtswap_soundness::verdict::{Admission, Demand};

fn agree(test: Test, kind: Kind, seed: u64) {
    let own = Demand::right(test == Test::Pipelined);
    let mut rng = Rng::new(seed);
    let (mut admitted, mut refused) = (0, 0);
    for _ in 0..4_000 {
        let mut case = draw(&mut rng, kind);
        tighten(&mut case, Admission::Own(own));
        // At the edge, and a little beyond it.
        let place = rng.within(0, case.tasks.len() as u64 - 1) as usize;
        let task = &mut case.tasks[place];
        task.deadline = task
            .deadline
            .saturating_sub(rng.within(0, 2).cast_signed())
            .max(task.wcet);
        if !kind.constrained {
            task.period = task.deadline;
        }
        let (platform, set) = (case.platform(), case.before());
        let Some(verdict) = own.verdict(&platform, &set) else {
            continue;
        };
        assert_eq!(test.holds(&platform, &set), verdict, "{platform:?} {set:?}");
        admitted += u32::from(verdict);
        refused += u32::from(!verdict);
    }
    assert!(
        admitted > 80 && refused > 80,
        "{admitted} admitted, {refused} refused"
    );
}

#[test]
fn on_every_kind_of_set() {
    for (seed, test) in [(1, Test::Demand), (2, Test::Pipelined)] {
        for bits in 0..8 {
            let kind = Kind {
                constrained: bits & 1 != 0,
                base: bits & 2 != 0,
                best_effort: bits & 4 != 0,
                ..Kind::PLAIN
            };
            agree(test, kind, seed * 100 + bits);
        }
    }
}

#[test]
fn on_crowds() {
    let kind = Kind {
        swaps: false,
        constrained: true,
        tasks: 24,
        crowd: true,
        ..Kind::PLAIN
    };
    agree(Test::Demand, kind, 7);
}
