//! Agents whose program gives hints: what is copied out, and that no byte is lost.

use proptest::prelude::*;
use rtswap_wire::page::{Direction, SwapOutcome};

use crate::agent::tests::{Bench, CHUNK, bench, pattern};
use crate::memory::Policy;
use crate::memory::hints;
use crate::writes::Writes;

const CHUNKS: u64 = 4;
const BYTES: u64 = CHUNKS * CHUNK;

/// A task with memory of known bytes, and all of it in the swap set.
fn task(name: &str) -> (Bench, u64, Vec<u8>) {
    let bench = bench(name, |_| ());
    let (at, data) = (bench.alloc(BYTES), pattern(9, BYTES as usize));
    bench.daemon.set_volume(BYTES);
    bench.launch(|| bench.driver.write(at, &data).unwrap());
    bench.idle();
    (bench, at, data)
}

/// The same with a hint for all of it, after a first round.
fn hinted(name: &str) -> (Bench, u64, Vec<u8>) {
    let (mut bench, at, data) = task(name);
    bench.agent.hint_read_only(at, BYTES);
    assert_eq!(round(&mut bench), BYTES, "never copied before");
    assert_eq!(round(&mut bench), 0);
    (bench, at, data)
}

fn swap(bench: &mut Bench, direction: Direction, chunks: u64) {
    let outcome = bench.daemon.swap(direction, chunks * CHUNK);
    assert_eq!(outcome, SwapOutcome::Done);
}

/// Out and in again; the bytes copied out.
fn round(bench: &mut Bench) -> u64 {
    let arena = bench.daemon.block().agent.usage().arena_bytes;
    let before = bench.driver.copied().0;
    swap(bench, Direction::Out, arena / CHUNK);
    let out = bench.driver.copied().0 - before;
    swap(bench, Direction::In, 0);
    out
}

/// A call that writes these bytes, as the hooks make it.
fn write(bench: &Bench, writes: Writes, at: u64, bytes: &[u8]) {
    bench.launch(|| {
        assert!(hints::any(), "the hooks would not note it");
        bench.agent.note_writes(writes);
        bench.driver.write(at, bytes).unwrap();
    });
    bench.idle();
}

/// A kernel.
fn kernel(bench: &Bench, at: u64, bytes: &[u8]) {
    bench.launch(|| bench.driver.write(at, bytes).unwrap());
    bench.idle();
}

#[test]
fn what_kernels_only_read_is_copied_out_once() {
    let (mut bench, at, data) = hinted("hint");
    let before = bench.driver.copied().0;
    for _ in 0..3 {
        bench.launch(|| drop(bench.driver.read(at, data.len()).unwrap()));
        bench.idle();
        assert_eq!(round(&mut bench), 0);
    }
    assert_eq!(bench.driver.copied().0, before);
    assert_eq!(bench.driver.read(at, data.len()).unwrap(), data);
}

#[test]
fn without_a_hint_or_the_policy_everything_is_copied() {
    let (mut bench, at, _) = task("hint-none");
    for _ in 0..3 {
        assert_eq!(round(&mut bench), BYTES);
    }
    bench.agent.devices[0].memory().set_clean(Policy::Off);
    bench.agent.hint_read_only(at, BYTES);
    for _ in 0..3 {
        assert_eq!(round(&mut bench), BYTES);
    }
}

#[test]
fn a_hint_trusts_no_byte_that_was_written_before_it() {
    let (mut bench, at, mut data) = task("hint-late");
    round(&mut bench);
    data[3] ^= 1;
    // The slots have other bytes than the chunks when the hint comes.
    kernel(&bench, at, &data[..8]);
    bench.agent.hint_read_only(at, BYTES);
    assert_eq!(round(&mut bench), BYTES);
    assert_eq!(round(&mut bench), 0);
    assert_eq!(bench.driver.read(at, data.len()).unwrap(), data);
}

#[test]
fn a_hint_counts_from_the_next_copy_in() {
    let (mut bench, at, data) = task("hint-out");
    swap(&mut bench, Direction::Out, CHUNKS);
    bench.agent.hint_read_only(at, BYTES);
    swap(&mut bench, Direction::In, 0);
    assert_eq!(round(&mut bench), 0);
    assert_eq!(bench.driver.read(at, data.len()).unwrap(), data);
}

#[test]
fn a_written_byte_dirties_its_chunk_alone() {
    let (mut bench, at, mut data) = hinted("hint-byte");
    let edges = CHUNK - 1..=CHUNK;
    for place in [0, BYTES - 1].into_iter().chain(edges).chain([BYTES / 2]) {
        data[place as usize] ^= 1;
        let (at_byte, byte) = (at + place, [data[place as usize]]);
        let writes = Writes::Range {
            at: at_byte,
            bytes: 1,
        };
        write(&bench, writes, at_byte, &byte);
        assert_eq!(round(&mut bench), CHUNK, "at {place}");
        assert_eq!(bench.driver.read(at, data.len()).unwrap(), data);
        assert_eq!(round(&mut bench), 0, "equal again");
    }
}

#[test]
fn a_write_over_an_edge_dirties_both_sides_and_one_elsewhere_none() {
    let (mut bench, at, mut data) = hinted("hint-edge");
    let other = bench.alloc(CHUNK);
    bench.daemon.set_volume(BYTES + CHUNK);
    assert_eq!(round(&mut bench), CHUNK, "the new object's");
    let range = |at, bytes| Writes::Range { at, bytes };
    let edge = CHUNK as usize - 1..CHUNK as usize + 1;
    data[edge.clone()].fill(7);
    write(&bench, range(at + CHUNK - 1, 2), at + CHUNK - 1, &[7, 7]);
    assert_eq!(round(&mut bench), 3 * CHUNK);
    write(&bench, range(other, CHUNK), other, &[1; 8]);
    write(&bench, range(at, 0), at, &[]);
    write(&bench, Writes::Nothing, other, &[2; 8]);
    assert_eq!(round(&mut bench), CHUNK);
    assert_eq!(bench.driver.read(at, data.len()).unwrap(), data);
}

#[test]
fn a_write_that_cannot_be_told_dirties_everything_once() {
    let (mut bench, at, mut data) = hinted("hint-any");
    data[77] ^= 1;
    write(&bench, Writes::Anything, at + 77, &data[77..78]);
    assert_eq!(round(&mut bench), BYTES);
    assert_eq!(round(&mut bench), 0);
    assert_eq!(bench.driver.read(at, data.len()).unwrap(), data);
}

#[test]
fn a_hint_ends_with_its_object() {
    let (mut bench, at, mut data) = hinted("hint-free");
    bench.agent.free(at).expect("ours").unwrap();
    assert_eq!(bench.alloc(BYTES), at, "the same place");
    for round_number in 0..3 {
        // The new owner said nothing: its kernels write.
        data.fill(round_number);
        kernel(&bench, at, &data);
        assert_eq!(round(&mut bench), BYTES);
        assert_eq!(bench.driver.read(at, data.len()).unwrap(), data);
    }
}

#[test]
fn what_is_taken_back_is_copied_and_nothing_else() {
    let (mut bench, at, mut data) = hinted("hint-back");
    // Said while the chunk is out: what is written after its way in must not be lost.
    swap(&mut bench, Direction::Out, CHUNKS);
    bench.agent.forget_hints(at + CHUNK + 5, 1);
    swap(&mut bench, Direction::In, 0);
    for seed in 0..3 {
        let written = pattern(seed, CHUNK as usize);
        kernel(&bench, at + CHUNK, &written);
        data[CHUNK as usize..2 * CHUNK as usize].copy_from_slice(&written);
        assert_eq!(round(&mut bench), CHUNK);
        assert_eq!(bench.driver.read(at, data.len()).unwrap(), data);
    }
    // And again while it is in.
    bench.agent.forget_hints(at, BYTES);
    kernel(&bench, at, &pattern(7, BYTES as usize));
    assert_eq!(round(&mut bench), BYTES);
    let found = bench.driver.read(at, data.len()).unwrap();
    assert_eq!(found, pattern(7, BYTES as usize));
}

#[test]
fn a_new_object_in_a_hinted_chunk_makes_it_dirty() {
    let bench = &mut bench("hint-joined", |_| ());
    let half = CHUNK / 2;
    let one = bench.alloc(half);
    bench.agent.hint_read_only(one, half);
    bench.daemon.set_volume(CHUNK);
    kernel(bench, one, &pattern(1, half as usize));
    assert_eq!(round(bench), CHUNK);
    assert_eq!(round(bench), 0, "nobody has the other half");
    let two = bench.alloc(half);
    assert_eq!(two, one + half, "the same chunk");
    for seed in 0..3 {
        kernel(bench, two, &pattern(seed, half as usize));
        assert_eq!(round(bench), CHUNK);
        let found = bench.driver.read(two, half as usize).unwrap();
        assert_eq!(found, pattern(seed, half as usize));
    }
    bench.agent.hint_read_only(two, half);
    assert_eq!(round(bench), CHUNK);
    assert_eq!(round(bench), 0, "both are hinted");
    bench.agent.free(two).expect("ours").unwrap();
    assert_eq!(round(bench), CHUNK, "dirty once");
    assert_eq!(round(bench), 0);
}

#[test]
fn a_chunk_that_is_not_covered_whole_is_copied() {
    let (mut bench, at, data) = task("hint-part");
    bench.agent.hint_read_only(at + 1, BYTES - 2);
    round(&mut bench);
    assert_eq!(round(&mut bench), 2 * CHUNK, "a byte lacks at either end");
    bench.agent.hint_read_only(at, 1);
    bench.agent.hint_read_only(at + BYTES - 1, 1);
    round(&mut bench);
    assert_eq!(round(&mut bench), 0);
    assert_eq!(bench.driver.read(at, data.len()).unwrap(), data);
}

#[test]
fn an_interrupted_copy_leaves_a_dirty_slot() {
    let (mut bench, at, mut data) = hinted("hint-failure");
    data[5] ^= 1;
    write(&bench, Writes::Anything, at, &data[..8]);
    bench.driver.fail_copies(true);
    let outcome = bench.daemon.swap(Direction::Out, BYTES);
    assert_eq!(outcome, SwapOutcome::Failed);
    bench.driver.fail_copies(false);
    assert_eq!(round(&mut bench), BYTES);
    assert_eq!(bench.driver.read(at, data.len()).unwrap(), data);
}

#[derive(Clone, Debug)]
enum Step {
    Hint {
        place: u64,
        bytes: u64,
    },
    Write {
        place: u64,
        bytes: u64,
        told: bool,
    },
    /// In what was never hinted since it was allocated.
    Kernel {
        place: u64,
    },
    Renew,
    Out(u64),
    In(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let place = || 0..2 * CHUNK;
    prop_oneof![
        (place(), 1..3 * CHUNK).prop_map(|(place, bytes)| Step::Hint { place, bytes }),
        (place(), 1..40u64, any::<bool>()).prop_map(|(place, bytes, told)| Step::Write {
            place,
            bytes,
            told
        }),
        place().prop_map(|place| Step::Kernel { place }),
        Just(Step::Renew),
        (1..=CHUNKS).prop_map(Step::Out),
        (0..CHUNKS).prop_map(Step::In),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Two objects that share a chunk, against a model that is their bytes and hints.
    #[test]
    fn no_sequence_loses_a_byte(steps in proptest::collection::vec((any::<bool>(), step()), 1..30)) {
        const SIZE: u64 = BYTES / 2 - 512;
        let mut bench = bench("hint-model", |_| ());
        let at = [bench.alloc(SIZE), bench.alloc(SIZE)];
        bench.daemon.set_volume(BYTES);
        let mut data = [pattern(1, SIZE as usize), pattern(2, SIZE as usize)];
        let mut said = [vec![false; SIZE as usize], vec![false; SIZE as usize]];
        bench.launch(|| for (at, data) in at.iter().zip(&data) {
            bench.driver.write(*at, data).unwrap();
        });
        bench.idle();
        let mut out = 0;
        for (number, (second, step)) in steps.into_iter().enumerate() {
            let object = usize::from(second);
            let (at, data, said) = (at[object], &mut data[object], &mut said[object]);
            let part = |place: u64, bytes: u64| {
                let start = place.min(SIZE - 1);
                start as usize..(start + bytes).min(SIZE) as usize
            };
            match step {
                Step::Out(chunks) if chunks > out => {
                    swap(&mut bench, Direction::Out, chunks);
                    out = chunks;
                }
                Step::In(chunks) if chunks < out => {
                    swap(&mut bench, Direction::In, chunks);
                    out = chunks;
                }
                Step::Hint { place, bytes } => {
                    let part = part(place, bytes);
                    bench.agent.hint_read_only(at + part.start as u64, part.len() as u64);
                    said[part].fill(true);
                }
                Step::Write { place, bytes, told } if out == 0 => {
                    let part = part(place, bytes);
                    data[part.clone()].fill(number as u8);
                    let (start, bytes) = (at + part.start as u64, part.len() as u64);
                    let writes = if told {
                        Writes::Range { at: start, bytes }
                    } else {
                        Writes::Anything
                    };
                    bench.launch(|| {
                        bench.agent.note_writes(writes);
                        bench.driver.write(start, &data[part]).unwrap();
                    });
                    bench.idle();
                }
                Step::Kernel { place } if out == 0 => {
                    let place = place.min(SIZE - 1) as usize;
                    if !said[place] {
                        data[place] = number as u8;
                        kernel(&bench, at + place as u64, &data[place..=place]);
                    }
                }
                Step::Renew if out == 0 => {
                    bench.agent.free(at).expect("ours").unwrap();
                    prop_assert_eq!(bench.alloc(SIZE), at);
                    said.fill(false);
                    data.fill(number as u8);
                    kernel(&bench, at, data);
                }
                _ => {}
            }
        }
        swap(&mut bench, Direction::In, 0);
        for (at, data) in at.into_iter().zip(data) {
            prop_assert_eq!(bench.driver.read(at, data.len()).unwrap(), data);
        }
    }
}
