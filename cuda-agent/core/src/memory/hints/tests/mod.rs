//! What is covered, against a plain model; `swaps` has whole agents.

mod swaps;

use proptest::prelude::*;

use super::*;

const CHUNK: u64 = 16;

#[derive(Clone, Copy, Debug)]
enum Said {
    Add,
    Forget,
}

proptest! {
    #[test]
    fn what_is_covered_is_what_was_said_last(
        said in proptest::collection::vec(
            (prop_oneof![Just(Said::Add), Just(Said::Forget)], 0..80u64, 0..40u64),
            0..20,
        ),
    ) {
        let hints = Hints::new(CHUNK);
        let mut model = [false; 120];
        for (said, at, bytes) in said {
            match said {
                Said::Add => hints.add(at, bytes),
                Said::Forget => hints.forget(at, bytes),
            }
            model[at as usize..(at + bytes) as usize].fill(matches!(said, Said::Add));
        }
        let book = lock_briefly(&hints.book);
        for start in 0..model.len() {
            for end in start + 1..=model.len() {
                let covered = model[start..end].iter().all(|covered| *covered);
                prop_assert_eq!(book.covers(start as u64, end as u64), covered);
            }
        }
        let mut ends = book.ranges.iter().zip(book.ranges.keys().skip(1));
        prop_assert!(ends.all(|((_, end), next)| end < next), "neither overlap nor touch");
    }

    #[test]
    fn a_write_changes_the_chunks_that_it_meets(at in 0..64u64, bytes in 0..64u64) {
        let hints = Hints::new(CHUNK);
        hints.add(0, 128);
        let chunks: Vec<u64> = (0..8).map(|index| index * CHUNK).collect();
        for &chunk in &chunks {
            hints.copied(chunk, [(chunk, chunk + CHUNK)].into_iter());
        }
        hints.written(at, bytes);
        for chunk in chunks {
            let met = (at..at + bytes).any(|byte| (chunk..chunk + CHUNK).contains(&byte));
            prop_assert_eq!(hints.equals_slot(chunk), !met || bytes == 0);
        }
    }
}
