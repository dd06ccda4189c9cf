//! What the arena's chunks hold beside objects: less than one chunk while a program only allocates,
//! a bounded share while objects come and go.
#![allow(missing_docs)]

use std::collections::HashSet;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use rtswap_agent_core::cuda::Context;
use rtswap_agent_core::memory::{ALIGN, Arena};

const MIB: u64 = 1 << 20;
const HERE: Context = Context(1);

/// An arena, and which chunks are backed because of it.
struct Task {
    arena: Arena,
    chunk: u64,
    chunks: HashSet<u64>,
    objects: Vec<(u64, u64)>,
}

impl Task {
    fn new(chunk: u64) -> Self {
        let mut arena = Arena::new(chunk);
        arena.add_region(1 << 40, 1 << 40);
        Self {
            arena,
            chunk,
            chunks: HashSet::new(),
            objects: Vec::new(),
        }
    }

    fn alloc(&mut self, bytes: u64) {
        let at = self.arena.find_room(bytes).expect("a terabyte has room");
        self.chunks.extend(self.arena.untouched(at, bytes));
        self.arena.insert(at, bytes, HERE);
        self.objects.push((at, bytes));
    }

    /// Frees one of the objects, and returns its size.
    fn free(&mut self, which: usize) -> u64 {
        let (at, bytes) = self.objects.swap_remove(which % self.objects.len());
        for chunk in self.arena.remove(at).expect("an object lies there") {
            assert!(self.chunks.remove(&chunk), "an idle chunk was backed");
        }
        bytes
    }

    fn held(&self) -> u64 {
        self.chunks.len() as u64 * self.chunk
    }

    fn asked(&self) -> u64 {
        self.objects.iter().map(|(_, bytes)| bytes).sum()
    }
}

proptest! {
    #[test]
    fn a_list_wastes_less_than_a_chunk(
        sizes in proptest::collection::vec((0_u32..26, any::<u64>()), 1..400),
        chunk in prop_oneof![Just(2 * MIB), Just(64 * MIB)],
    ) {
        let mut task = Task::new(chunk);
        for (octave, draw) in sizes {
            task.alloc((1 << octave) + draw % (1 << octave));
        }
        let aligned: u64 = task.objects.iter().map(|(_, b)| b.next_multiple_of(ALIGN)).sum();
        prop_assert!(task.held() - aligned < chunk);
    }
}

proptest! {
    // The bound holds for what programs do, not for every sequence that chance could bring.
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::with_cases(12)
    })]

    /// As many objects, and of such sizes, as Table II of the paper counts in a model, three
    /// quarters of them alive.
    #[test]
    fn random_frees_lose_a_bounded_share(seed in any::<u64>()) {
        const MOST_LOST: f64 = 0.40;
        for chunk in [2 * MIB, 64 * MIB] {
            let mut state = seed | 1;
            let mut draw = || {
                // Knuth's MMIX generator; its high bits are the good ones.
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                state >> 33
            };
            let mut task = Task::new(chunk);
            for _ in 0..1000 {
                let octave = 12 + draw() % 9;
                task.alloc((1 << octave) + draw() % (1 << octave));
            }
            for _ in 0..300 {
                task.alloc(2 * MIB + draw() % (6 * MIB));
            }
            let mut waiting: Vec<u64> = (0..325).map(|_| task.free(draw() as usize)).collect();
            for step in 0..2000 {
                let next = draw() as usize % waiting.len();
                task.alloc(waiting.swap_remove(next));
                waiting.push(task.free(draw() as usize));
                if step % 100 == 0 {
                    let lost = 1.0 - task.asked() as f64 / task.held() as f64;
                    prop_assert!(lost < MOST_LOST, "{lost} lost in chunks of {chunk}");
                }
            }
            while !task.objects.is_empty() {
                task.free(0);
            }
            prop_assert_eq!(task.held(), 0, "whole free chunks are given back");
        }
    }
}
