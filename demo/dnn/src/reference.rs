//! The workload's arithmetic on the host, written independently of any GPU code.
//!
//! It is what every job's result is compared with, so nothing here may ever come from the device.

/// Words of the activations that each layer transforms; also the parallelism of a layer.
pub(crate) const WIDTH: u64 = 1 << 16;

/// Multiplier of a layer's step (the 32-bit FNV prime): odd, so no weight's influence is ever lost.
const STEP: u32 = 0x0100_0193;

/// A bijective hash of 32 bits.
fn mix(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x7feb_352d);
    x ^= x >> 15;
    x = x.wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

/// Word `i` of a buffer filled from `seed`.
fn word(i: u64, key: u32) -> u32 {
    mix((i as u32).wrapping_add(key))
}

fn key(seed: u32) -> u32 {
    seed.wrapping_mul(0x9e37_79b9)
}

/// Fills `words` as the GPU does from `seed`.
pub(crate) fn fill(words: &mut [u32], seed: u32) {
    let key = key(seed);
    for (i, place) in words.iter_mut().enumerate() {
        *place = word(i as u64, key);
    }
}

/// How many of `words` are not what [`fill`] makes of them.
pub(crate) fn differing(words: &[u32], seed: u32) -> u64 {
    let key = key(seed);
    let words = words.iter().enumerate();
    words.filter(|(i, it)| **it != word(*i as u64, key)).count() as u64
}

/// The seed of layer `layer`'s weights; the activations are filled from `seed` itself.
pub(crate) fn layer_seed(seed: u32, layer: usize) -> u32 {
    seed.wrapping_add(1).wrapping_add(layer as u32)
}

/// Words of each layer when `bytes` of weights are split over `layers`; the last takes the rest.
pub(crate) fn layer_words(bytes: u64, layers: u64) -> Vec<u64> {
    let words = bytes / 4;
    let each = words / layers;
    let mut sizes = vec![each; layers as usize];
    if let Some(last) = sizes.last_mut() {
        *last += words - each * layers;
    }
    sizes
}

/// What one job must come to: `passes` times the chain of layers over activations of
/// [`WIDTH`] words, then their checksum.
pub(crate) fn expected(seed: u32, layers: &[u64], passes: u32) -> u64 {
    let mut activations: Vec<u32> = (0..WIDTH).map(|i| word(i, key(seed))).collect();
    for _ in 0..passes {
        for (layer, &words) in layers.iter().enumerate() {
            apply(&mut activations, words, key(layer_seed(seed, layer)));
        }
    }
    checksum(&activations)
}

fn apply(activations: &mut [u32], words: u64, key: u32) {
    let width = activations.len() as u64;
    for row in (0..words).step_by(activations.len()) {
        let columns = width.min(words - row) as usize;
        for (i, activation) in (row..).zip(&mut activations[..columns]) {
            *activation = activation.wrapping_mul(STEP).wrapping_add(word(i, key));
        }
    }
}

fn checksum(words: &[u32]) -> u64 {
    (0_u64..).zip(words).fold(0, |sum, (i, &word)| {
        sum.wrapping_add((u64::from(word) + 1).wrapping_mul(i | 1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mix_has_the_contracts_values() {
        // Worked out with another implementation, in Python.
        let known = [
            (0, 0),
            (1, 0x6889_90c0),
            (0xdead_beef, 0xe628_c683),
            (u32::MAX, 0x6768_824a),
        ];
        for (x, mixed) in known {
            assert_eq!(mix(x), mixed, "mix({x:#x})");
        }
    }

    #[test]
    fn layers_share_the_weights_without_loss() {
        assert_eq!(layer_words(40, 3), [3, 3, 4]);
        assert_eq!(layer_words(4 << 20, 2), [1 << 19, 1 << 19]);
    }

    #[test]
    fn a_layer_steps_each_column_through_its_rows() {
        let mut activations = vec![10, 20, 30];
        apply(&mut activations, 5, 7);
        let step = |acc: u32, i| acc.wrapping_mul(STEP).wrapping_add(word(i, 7));
        let wanted = [step(step(10, 0), 3), step(step(20, 1), 4), step(30, 2)];
        assert_eq!(activations, wanted);
    }

    #[test]
    fn checksum_weighs_places() {
        assert_eq!(checksum(&[0, 0, 0]), 1 + 1 + 3);
        assert_eq!(checksum(&[u32::MAX, 5]), (1 << 32) + 6);
        assert_ne!(checksum(&[1, 2, 3]), checksum(&[3, 2, 1]));
    }

    #[test]
    fn every_weight_seed_and_pass_counts() {
        let layers = [WIDTH + 3, 100];
        let base = expected(1, &layers, 1);
        assert_ne!(base, expected(2, &layers, 1));
        assert_ne!(base, expected(1, &layers, 2));
        assert_ne!(base, expected(1, &[WIDTH + 2, 100], 1));
        assert_ne!(base, expected(1, &[WIDTH + 3, 99], 1));
        assert_eq!(base, expected(1, &layers, 1));
    }
}
