//! Sums of fractions against one, exactly where 128 bits allow it.

use core::cmp::Ordering;

/// One, in the fixed point that the searches use.
pub(crate) const ONE: u128 = 1 << 64;

/// `numerator / denominator` in units of 2⁻⁶⁴, rounded down; more than any bound for x/0.
pub(crate) fn fixed(numerator: u64, denominator: u64) -> u128 {
    (u128::from(numerator) << 64)
        .checked_div(u128::from(denominator))
        .unwrap_or(u128::MAX >> 1)
}

/// How the sum of the fractions compares to one. Exact as long as the least common denominator
/// fits in 128 bits; beyond that each term is rounded up by at most 2⁻⁶⁴, so that the answer errs
/// only towards `Greater`.
pub(crate) fn sum_against_one<I>(terms: I) -> Ordering
where
    I: Iterator<Item = (u64, u64)> + Clone,
{
    let (mut least, mut count) = (0_u128, 0_u128);
    for (numerator, denominator) in terms.clone() {
        least = least.saturating_add(fixed(numerator, denominator));
        count += 1;
    }
    let most = least.saturating_add(count);
    // Only within rounding of one is the exact sum worth its cost.
    if least > ONE {
        Ordering::Greater
    } else if most < ONE {
        Ordering::Less
    } else {
        exact(terms).unwrap_or_else(|| most.cmp(&ONE))
    }
}

fn exact(terms: impl Iterator<Item = (u64, u64)>) -> Option<Ordering> {
    let (mut numerator, mut denominator) = (0_u128, 1_u128);
    for (n, d) in terms {
        if d == 0 {
            return Some(Ordering::Greater);
        }
        let common = gcd(denominator, u128::from(d));
        let scale = u128::from(d) / common;
        let other = denominator / common;
        numerator = numerator
            .checked_mul(scale)?
            .checked_add(u128::from(n).checked_mul(other)?)?;
        denominator = denominator.checked_mul(scale)?;
        let common = gcd(numerator, denominator);
        numerator /= common;
        denominator /= common;
    }
    Some(numerator.cmp(&denominator))
}

/// The greatest common divisor; `b` is not zero.
fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirds_and_sevenths_are_exactly_one() {
        let thirds = [(1, 3), (1, 3), (1, 3)];
        assert_eq!(sum_against_one(thirds.iter().copied()), Ordering::Equal);
        let mixed = [(1, 7), (2, 21), (16, 21)];
        assert_eq!(sum_against_one(mixed.iter().copied()), Ordering::Equal);
        let over = [(1, 3), (2, 3), (1, u64::MAX)];
        assert_eq!(sum_against_one(over.iter().copied()), Ordering::Greater);
    }

    #[test]
    fn beyond_128_bits_it_errs_upwards_only() {
        let primes = [
            18_446_744_073_709_551_557_u64,
            18_446_744_073_709_551_533,
            18_446_744_073_709_551_521,
            18_446_744_073_709_551_437,
        ];
        let quarters = primes.map(|p| (p / 4, p));
        assert!(exact(quarters.iter().copied()).is_none());
        assert_ne!(sum_against_one(quarters.iter().copied()), Ordering::Greater);
        let above = quarters.iter().copied().chain([(1, 1_000)]);
        assert_eq!(sum_against_one(above), Ordering::Greater);
    }

    #[test]
    fn nothing_fits_a_zero_denominator() {
        assert_eq!(sum_against_one([(0, 0)].into_iter()), Ordering::Greater);
    }
}
