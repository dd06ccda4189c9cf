//! Numbers exactly as they are written in decimal: no binary fraction comes between.

use super::error::Fault;

/// A number of 0 or more: `digits`·10^`exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    digits: u128,
    exponent: i64,
}

/// The direction in which a value between two whole numbers is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Round {
    Up,
    Down,
}

/// So many digits times the largest unit, 2⁴⁰, fit in 128 bits.
const MOST_DIGITS: u32 = 26;

/// Beyond this an exponent only says "too large", or "almost nothing".
const MOST_EXPONENT: i64 = 1_000_000;

impl Decimal {
    /// Reads a number as TOML and JSON write it, without `_`.
    pub(super) fn parse(text: &str) -> Result<Self, Fault> {
        let wrong = || Fault::NotANumber(text.into());
        let number = match text.strip_prefix('-') {
            Some(number) if Self::unsigned(number).is_some() => {
                return Err(Fault::Negative(text.into()));
            }
            Some(_) => return Err(wrong()),
            None => text.strip_prefix('+').unwrap_or(text),
        };
        Self::unsigned(number)
            .ok_or_else(wrong)?
            .map_err(|()| Fault::TooManyDigits(MOST_DIGITS))
    }

    /// None: not a number. `Err`: too many digits.
    fn unsigned(text: &str) -> Option<Result<Self, ()>> {
        for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
            if let Some(number) = text.strip_prefix(prefix) {
                let sound = !number.is_empty() && number.chars().all(|c| c.is_digit(radix));
                return sound.then(|| {
                    let digits = u128::from_str_radix(number, radix).map_err(|_| ())?;
                    let fits = digits < 10_u128.pow(MOST_DIGITS);
                    fits.then_some(Self {
                        digits,
                        exponent: 0,
                    })
                    .ok_or(())
                });
            }
        }
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, power(exponent)?),
            None => (text, 0),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((_, "")) => return None,
            Some(parts) => parts,
            None => (mantissa, ""),
        };
        let is_digit = |byte: u8| byte.is_ascii_digit();
        if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(is_digit) {
            return None;
        }
        let (mut digits, mut zeros) = (0_u128, 0_u32);
        for byte in whole.bytes().chain(fraction.bytes()) {
            if byte == b'0' {
                zeros += u32::from(digits > 0);
                continue;
            }
            let shift = 10_u128.checked_pow(zeros + 1);
            let shifted = shift.and_then(|shift| digits.checked_mul(shift));
            match shifted {
                Some(shifted) if shifted < 10_u128.pow(MOST_DIGITS) => {
                    digits = shifted + u128::from(byte - b'0');
                    zeros = 0;
                }
                _ => return Some(Err(())),
            }
        }
        let behind_point = i64::try_from(fraction.len()).unwrap_or(i64::MAX);
        let exponent = (exponent + i64::from(zeros)).saturating_sub(behind_point);
        Some(Ok(Self { digits, exponent }))
    }

    /// `self`·`unit` in whole numbers, `unit` being at most 2⁴⁰. None if that is 2⁶⁴ or more.
    pub(super) fn times(self, unit: u64, round: Round) -> Option<u64> {
        let product = self.digits * u128::from(unit);
        if product == 0 {
            return Some(0);
        }
        let power = u32::try_from(self.exponent.unsigned_abs()).ok();
        let power = power.and_then(|power| 10_u128.checked_pow(power));
        let whole = match (self.exponent >= 0, power, round) {
            (true, power, _) => product.checked_mul(power?)?,
            (false, Some(power), Round::Up) => product.div_ceil(power),
            (false, Some(power), Round::Down) => product / power,
            (false, None, Round::Up) => 1,
            (false, None, Round::Down) => 0,
        };
        u64::try_from(whole).ok()
    }

    /// As a whole number, if it is one below 2⁶⁴.
    pub(super) fn whole(self) -> Option<u64> {
        let down = self.times(1, Round::Down)?;
        (self.times(1, Round::Up)? == down).then_some(down)
    }
}

/// An exponent with its sign.
fn power(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let most = || MOST_EXPONENT;
    Some(sign * digits.parse().unwrap_or_else(|_| most()).min(MOST_EXPONENT))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(text: &str, unit: u64, round: Round) -> Option<u64> {
        Decimal::parse(text).unwrap().times(unit, round)
    }

    #[test]
    fn decimal_fractions_are_exact() {
        // As binary fractions 0.3 and 4.35 are less than they say.
        for (text, nanos) in [
            ("0.3", 300_000),
            ("4.35", 4_350_000),
            ("4e3", 4_000_000_000),
            ("+63.0", 63_000_000),
            ("0x10", 16_000_000),
            ("1.5E-3", 1_500),
            ("18446744073709.551615", u64::MAX),
            (
                "0.000000000000000000000000000000000000e999999999999999999999",
                0,
            ),
            ("33000000000000000000000000000000000e-30", 33_000_000_000),
        ] {
            assert_eq!(times(text, 1_000_000, Round::Up), Some(nanos), "{text}");
            assert_eq!(times(text, 1_000_000, Round::Down), Some(nanos), "{text}");
        }
    }

    #[test]
    fn what_is_finer_goes_to_the_side_that_was_asked_for() {
        for text in ["33.3333333", "33.33333300000000000000001", "333333330e-7"] {
            assert_eq!(
                times(text, 1_000_000, Round::Down),
                Some(33_333_333),
                "{text}"
            );
            let up = if text.starts_with("333") {
                33_333_333
            } else {
                33_333_334
            };
            assert_eq!(times(text, 1_000_000, Round::Up), Some(up), "{text}");
        }
        assert_eq!(times("1e-999999999999", 1, Round::Up), Some(1));
        assert_eq!(times("1e-999999999999", 1, Round::Down), Some(0));
    }

    #[test]
    fn what_is_too_much_or_no_number_is_told() {
        for text in [
            "18446744073709551616",
            "1e20",
            "1e400",
            "1e99999999999999999999",
        ] {
            assert_eq!(times(text, 1, Round::Down), None, "{text}");
        }
        for text in [
            "", "nan", "inf", "-inf", "-", "1.", ".5", "1e", "1e+", "0x", "1_0", "１",
        ] {
            let wrong = Err(Fault::NotANumber(text.into()));
            assert_eq!(Decimal::parse(text), wrong, "{text}");
        }
        for text in ["-0", "-0.0", "-5", "-1e3"] {
            assert_eq!(Decimal::parse(text), Err(Fault::Negative(text.into())));
        }
        let long = "1.00000000000000000000000001";
        assert_eq!(Decimal::parse(long), Err(Fault::TooManyDigits(26)));
        assert_eq!(
            Decimal::parse("0xffffffffffffffffffffffffffffffffff"),
            Err(Fault::TooManyDigits(26))
        );
        let whole = |text| Decimal::parse(text).unwrap().whole();
        assert_eq!(
            (whole("24.0"), whole("2e3"), whole("0.5")),
            (Some(24), Some(2_000), None)
        );
    }
}
