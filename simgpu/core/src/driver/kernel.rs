//! The kernels: a named set, really computed on device memory, in wrapping
//! integer arithmetic so that a real GPU with the same PTX gives the same bytes.
//! None depends on grid or block dimensions.

use std::ptr;

use super::space::{Access, Segment};
use super::work::Executor;
use crate::{Error, Result};

/// Multiplier of `fill`'s seed.
const GOLDEN: u32 = 0x9e37_79b9;
/// Multiplier of `layer`'s accumulator.
const LAYER: u32 = 0x0100_0193;

/// A kernel by what it computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// `fill(u32* dst, u64 n, u32 seed)`: `dst[i] = mix(i + seed·0x9e3779b9)`.
    Fill,
    /// `axpy(u32* y, const u32* x, u64 n, u32 a)`: `y[i] += a·x[i]`.
    Axpy,
    /// `layer(u32* act, u64 width, const u32* weights, u64 n)`: for each
    /// `j < width`, over i = j, j+width, … < n: `act[j] = act[j]·0x01000193 + weights[i]`.
    Layer,
    /// `checksum(u64* out, const u32* data, u64 n)`:
    /// `*out += Σ (data[i]+1)·(i|1)` in 64 bits.
    Checksum,
    /// `fingerprint(u64* out, const u64* data, u64 n, u64 first, u64 low, u64 high)`: `out[k] +=
    /// Σ mix64(data[i] ^ mix64(first + i + key))` in 64 bits, `low` being the first key.
    Fingerprint,
    /// `spin(u64 ns)`: the compute engine is busy that long.
    Spin,
}

impl Kernel {
    /// The kernel that images call so.
    pub fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "fill" => Self::Fill,
            "axpy" => Self::Axpy,
            "layer" => Self::Layer,
            "checksum" => Self::Checksum,
            "fingerprint" => Self::Fingerprint,
            "spin" => Self::Spin,
            _ => return None,
        })
    }

    /// Bytes of each parameter in order; each lies at a multiple of its size.
    pub fn params(self) -> &'static [usize] {
        match self {
            Self::Fill => &[8, 8, 4],
            Self::Axpy => &[8, 8, 8, 4],
            Self::Layer => &[8, 8, 8, 8],
            Self::Checksum => &[8, 8, 8],
            Self::Fingerprint => &[8; 6],
            Self::Spin => &[8],
        }
    }

    /// Offset of a parameter in a packed buffer.
    pub fn param_offset(self, index: usize) -> Option<usize> {
        let params = self.params();
        let size = *params.get(index)?;
        let before = params[..index]
            .iter()
            .fold(0, |at: usize, size| at.next_multiple_of(*size) + size);
        Some(before.next_multiple_of(size))
    }
}

/// A kernel with its arguments: as many as it has parameters.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    pub(crate) kernel: Kernel,
    pub(crate) args: Vec<u64>,
}

impl Launch {
    /// Bytes read plus bytes written, which is what a launch costs.
    pub(crate) fn bytes_touched(&self) -> u64 {
        match (self.kernel, &self.args[..]) {
            (Kernel::Fill, &[_, n, _]) => n.saturating_mul(4),
            (Kernel::Axpy, &[_, _, n, _]) => n.saturating_mul(12),
            (Kernel::Layer, &[_, width, _, n]) => {
                n.saturating_add(width.saturating_mul(2)).saturating_mul(4)
            }
            (Kernel::Checksum, &[_, _, n]) => n.saturating_mul(4).saturating_add(16),
            (Kernel::Fingerprint, &[_, _, n, ..]) => n.saturating_mul(8).saturating_add(32),
            _ => 0,
        }
    }

    /// How long a `spin` lasts beyond its launch, ns.
    pub(crate) fn spin_ns(&self) -> u64 {
        // A day is for ever here, and keeps the sum of times in range.
        if self.kernel == Kernel::Spin {
            self.args[0].min(86_400_000_000_000)
        } else {
            0
        }
    }

    /// Computes it.
    pub(crate) fn run(&self, executor: &Executor) -> Result<()> {
        let array = |address: u64, count: u64, size: u64, access| {
            if !address.is_multiple_of(size) {
                return Err(Error::MisalignedAddress);
            }
            let len = count
                .checked_mul(size)
                .and_then(|len| usize::try_from(len).ok());
            executor.device(address, len.ok_or(Error::IllegalAddress)?, access)
        };
        match (self.kernel, &self.args[..]) {
            (Kernel::Fill, &[dst, n, seed]) => {
                let mut first = (seed as u32).wrapping_mul(GOLDEN);
                for run in runs(&array(dst, n, 4, Access::ReadWrite)?) {
                    fill(run.start, run.len, first);
                    first = first.wrapping_add(run.len as u32);
                }
            }
            (Kernel::Axpy, &[y, x, n, a]) => {
                let (y, x) = (
                    array(y, n, 4, Access::ReadWrite)?,
                    array(x, n, 4, Access::Read)?,
                );
                for (y, x, len) in pair(&y, &x) {
                    axpy(y, x, len, a as u32);
                }
            }
            (Kernel::Layer, &[act, width, weights, n]) => {
                let act = array(act, width, 4, Access::ReadWrite)?;
                let weights = array(weights, n, 4, Access::Read)?;
                layer(&act, width as usize, &weights);
            }
            (Kernel::Checksum, &[out, data, n]) => {
                let out = array(out, 1, 8, Access::ReadWrite)?;
                let mut sum = 0_u64;
                let mut first = 0;
                for run in runs(&array(data, n, 4, Access::Read)?) {
                    sum = sum.wrapping_add(checksum(run.start, run.len, first));
                    first += run.len as u64;
                }
                let out = out[0].start.cast::<u64>();
                // SAFETY: eight aligned bytes that this GPU may write.
                unsafe { out.write(out.read().wrapping_add(sum)) };
            }
            (Kernel::Fingerprint, &[out, data, n, first, low, high]) => {
                let out = array(out, 2, 8, Access::ReadWrite)?;
                let mut place = first;
                let mut sums = [0_u64; 2];
                for run in runs(&array(data, n, 8, Access::Read)?) {
                    let words = run.len / 2;
                    for (sum, key) in sums.iter_mut().zip([low, high]) {
                        let first = key.wrapping_add(place);
                        *sum = sum.wrapping_add(fingerprint(run.start.cast(), words, first));
                    }
                    place += words as u64;
                }
                // Sixteen bytes at a multiple of eight never cross segments of whole pages.
                let out = out[0].start.cast::<u64>();
                for (k, sum) in sums.into_iter().enumerate() {
                    // SAFETY: two aligned words that this GPU may write.
                    unsafe { out.add(k).write(out.add(k).read().wrapping_add(sum)) };
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// A run of words.
#[derive(Clone, Copy)]
struct Run {
    start: *mut u32,
    len: usize,
}

fn runs(segments: &[Segment]) -> impl Iterator<Item = Run> {
    // Arrays of words start at multiples of four, so no word crosses segments.
    segments.iter().map(|segment| Run {
        start: segment.start.cast(),
        len: segment.len / 4,
    })
}

/// Cuts two arrays of the same length into runs that are contiguous in both.
fn pair(a: &[Segment], b: &[Segment]) -> Vec<(*mut u32, *mut u32, usize)> {
    let (mut a, mut b) = (runs(a), runs(b));
    let (mut left, mut right) = (a.next(), b.next());
    let mut pairs = Vec::new();
    while let (Some(l), Some(r)) = (left, right) {
        let len = l.len.min(r.len);
        pairs.push((l.start, r.start, len));
        left = l.rest(len).or_else(|| a.next());
        right = r.rest(len).or_else(|| b.next());
    }
    pairs
}

impl Run {
    fn rest(self, done: usize) -> Option<Self> {
        let (start, len) = (self.start.wrapping_add(done), self.len - done);
        (len > 0).then_some(Self { start, len })
    }
}

/// Defines loops that are compiled twice: as the target has it, and with AVX2,
/// taken where the CPU has that.
macro_rules! vectorised {
    ($(fn $name:ident($($arg:ident: $type:ty),*) $(-> $out:ty)? $body:block)*) => {$(
        fn $name($($arg: $type),*) $(-> $out)? {
            #[inline(always)]
            fn plain($($arg: $type),*) $(-> $out)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn avx2($($arg: $type),*) $(-> $out)? {
                    plain($($arg),*)
                }
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: the CPU has AVX2.
                    return unsafe { avx2($($arg),*) };
                }
            }
            plain($($arg),*)
        }
    )*};
}

// The pointers are to at least as many words as the length says, of memory
// that all processes map: hence raw accesses, never references.
vectorised! {
    fn fill(dst: *mut u32, len: usize, first: u32) {
        for i in 0..len {
            // SAFETY: within the run.
            unsafe { dst.add(i).write(mix(first.wrapping_add(i as u32))) };
        }
    }

    fn axpy(y: *mut u32, x: *const u32, len: usize, a: u32) {
        for i in 0..len {
            // SAFETY: within both runs.
            unsafe {
                let sum = y.add(i).read().wrapping_add(a.wrapping_mul(x.add(i).read()));
                y.add(i).write(sum);
            }
        }
    }

    fn layer_row(act: *mut u32, weights: *const u32, len: usize) {
        for j in 0..len {
            // SAFETY: within both runs.
            unsafe {
                let old = act.add(j).read();
                act.add(j).write(old.wrapping_mul(LAYER).wrapping_add(weights.add(j).read()));
            }
        }
    }

    fn fingerprint(data: *const u64, len: usize, first: u64) -> u64 {
        let mut sum = 0_u64;
        for i in 0..len {
            // SAFETY: within the run.
            let word = unsafe { data.add(i).read() };
            sum = sum.wrapping_add(mix64(word ^ mix64(first.wrapping_add(i as u64))));
        }
        sum
    }

    fn checksum(data: *const u32, len: usize, first: u64) -> u64 {
        let mut sum = 0_u64;
        for i in 0..len {
            // SAFETY: within the run.
            let word = u64::from(unsafe { data.add(i).read() });
            sum = sum.wrapping_add((word + 1).wrapping_mul((first + i as u64) | 1));
        }
        sum
    }
}

#[inline]
fn mix(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x7feb_352d);
    x ^= x >> 15;
    x = x.wrapping_mul(0x846c_a68b);
    x ^ x >> 16
}

#[inline]
fn mix64(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// Row after row of `width` weights, so that the inner loop runs over `j`.
fn layer(act: &[Segment], width: usize, weights: &[Segment]) {
    if width == 0 {
        return;
    }
    let mut acc = vec![0_u32; width];
    let mut at = 0;
    for run in runs(act) {
        // SAFETY: the runs of `act` have `width` words together.
        unsafe { ptr::copy_nonoverlapping(run.start, acc[at..].as_mut_ptr(), run.len) };
        at += run.len;
    }
    let mut column = 0;
    for run in runs(weights) {
        let mut rest = Some(run);
        while let Some(run) = rest {
            let len = run.len.min(width - column);
            layer_row(acc[column..].as_mut_ptr(), run.start, len);
            column = (column + len) % width;
            rest = run.rest(len);
        }
    }
    let mut at = 0;
    for run in runs(act) {
        // SAFETY: as above, in the other direction.
        unsafe { ptr::copy_nonoverlapping(acc[at..].as_ptr(), run.start, run.len) };
        at += run.len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cuts words at odd places, as granules scattered in memory would be.
    fn scattered(words: &mut [u32], cut: usize) -> Vec<Segment> {
        words
            .chunks_mut(cut)
            .map(|part| Segment {
                start: part.as_mut_ptr().cast(),
                len: part.len() * 4,
            })
            .collect()
    }

    fn words(n: usize, seed: u32) -> Vec<u32> {
        (0..n as u32).map(|i| mix(i ^ seed)).collect()
    }

    #[test]
    fn mix_is_the_contracts() {
        // By hand from the definition.
        assert_eq!(mix(0), 0);
        let mut x = 1_u32;
        x = x.wrapping_mul(0x7feb_352d);
        x ^= x >> 15;
        x = x.wrapping_mul(0x846c_a68b);
        x ^= x >> 16;
        assert_eq!(mix(1), x);
    }

    #[test]
    fn layer_equals_its_definition_across_segments() {
        for (width, n) in [(1, 10), (7, 100), (100, 7), (64, 1000), (5, 0)] {
            let (mut act, mut weights) = (words(width, 1), words(n, 2));
            let mut expected = act.clone();
            for (j, acc) in expected.iter_mut().enumerate() {
                for i in (j..n).step_by(width) {
                    *acc = acc.wrapping_mul(0x0100_0193).wrapping_add(weights[i]);
                }
            }
            layer(&scattered(&mut act, 3), width, &scattered(&mut weights, 11));
            assert_eq!(act, expected, "{width} {n}");
        }
    }

    #[test]
    fn axpy_pairs_segments_and_may_alias() {
        let (mut y, mut x) = (words(50, 3), words(50, 4));
        let expected: Vec<_> = y
            .iter()
            .zip(&x)
            .map(|(y, x)| y.wrapping_add(x.wrapping_mul(9)))
            .collect();
        for (y, x, len) in pair(&scattered(&mut y, 7), &scattered(&mut x, 5)) {
            axpy(y, x, len, 9);
        }
        assert_eq!(y, expected);
        let doubled: Vec<_> = y.iter().map(|y| y.wrapping_mul(2)).collect();
        axpy(y.as_mut_ptr(), y.as_ptr(), y.len(), 1);
        assert_eq!(y, doubled);
    }

    #[test]
    fn a_fingerprint_depends_on_position_key_and_every_word() {
        let data: Vec<u64> = words(1000, 6).into_iter().map(u64::from).collect();
        let print = |data: &[u64], first| fingerprint(data.as_ptr(), data.len(), first);
        let whole = print(&data, 7);
        let halves = print(&data[..333], 7).wrapping_add(print(&data[333..], 340));
        assert_eq!(whole, halves);
        assert_ne!(whole, print(&data, 8));
        let mut swapped = data.clone();
        swapped.swap(0, 999);
        assert_ne!(whole, print(&swapped, 7));
        let mut changed = data;
        changed[500] ^= 1 << 63;
        assert_ne!(whole, print(&changed, 7));
    }

    #[test]
    fn checksum_depends_on_position() {
        let data = words(1000, 5);
        let expected = data.iter().enumerate().fold(0_u64, |sum, (i, word)| {
            sum.wrapping_add((u64::from(*word) + 1).wrapping_mul(i as u64 | 1))
        });
        let halves =
            checksum(data.as_ptr(), 333, 0).wrapping_add(checksum(data[333..].as_ptr(), 667, 333));
        assert_eq!(halves, expected);
    }

    #[test]
    fn parameters_lie_at_multiples_of_their_size() {
        let offsets = |kernel: Kernel| -> Vec<_> {
            (0..kernel.params().len())
                .filter_map(|index| kernel.param_offset(index))
                .collect()
        };
        assert_eq!(offsets(Kernel::Fill), [0, 8, 16]);
        assert_eq!(offsets(Kernel::Axpy), [0, 8, 16, 24]);
        assert_eq!(Kernel::Spin.param_offset(1), None);
    }
}
