//! Sizes in bytes and times in nanoseconds, as newtypes that do not mix.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Sub, SubAssign};

/// An amount of memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A span of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

/// An instant in nanoseconds since an origin of the caller's choosing (the daemon's is
/// CLOCK_MONOTONIC's, a simulation's is its start).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// A share in parts per million.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ppm(pub u32);

macro_rules! amount {
    ($name:ident) => {
        impl $name {
            /// The amount zero.
            pub const ZERO: Self = Self(0);
            /// The largest amount; sums saturate here, so it also stands for "unbounded".
            pub const MAX: Self = Self(u64::MAX);

            /// `self - other`, or zero where that would be negative.
            #[must_use]
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }

        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }

        impl SubAssign for $name {
            fn sub_assign(&mut self, other: Self) {
                *self = *self - other;
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
                iter.fold(Self::ZERO, Add::add)
            }
        }
    };
}

amount!(Bytes);
amount!(Nanos);

impl Ppm {
    /// All of it.
    pub const ONE: Self = Self(1_000_000);
}

impl Nanos {
    /// `self / share`, rounded up: how long what takes `self` takes at that share of its speed.
    #[must_use]
    pub fn slowed(self, share: Ppm) -> Self {
        let longer = (u128::from(self.0) * u128::from(Ppm::ONE.0))
            .checked_next_multiple_of(u128::from(share.0))
            .and_then(|scaled| u64::try_from(scaled / u128::from(share.0)).ok());
        longer.map_or(Self::MAX, Self)
    }
}

impl Bytes {
    /// `self` rounded up to a multiple of `chunk` (itself for a zero chunk).
    #[must_use]
    pub const fn round_up(self, chunk: Self) -> Self {
        match self.0.checked_next_multiple_of(chunk.0) {
            Some(rounded) => Self(rounded),
            None => self,
        }
    }

    /// How many chunks of size `chunk` hold `self`; zero for a zero chunk.
    pub const fn chunks(self, chunk: Self) -> u64 {
        match chunk.0 {
            0 => 0,
            size => self.0.div_ceil(size),
        }
    }

    /// `self` rounded down to a multiple of `chunk` (itself for a zero chunk).
    #[must_use]
    pub const fn round_down(self, chunk: Self) -> Self {
        match self.0.checked_rem(chunk.0) {
            Some(rest) => Self(self.0 - rest),
            None => self,
        }
    }
}

impl Time {
    /// The origin of the caller's monotonic clock.
    pub const ZERO: Self = Self(0);
    /// An instant that is never reached: the deadline of what has none.
    pub const MAX: Self = Self(u64::MAX);
}

impl Add<Nanos> for Time {
    type Output = Self;
    fn add(self, span: Nanos) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub for Time {
    type Output = Nanos;
    /// The span from `earlier` to `self`, zero if `earlier` is later.
    fn sub(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const GIB: u64 = 1 << 30;
        const MIB: u64 = 1 << 20;
        match self.0 {
            b if b >= GIB => write!(f, "{:.2} GiB", b as f64 / GIB as f64),
            b if b >= MIB => write!(f, "{:.1} MiB", b as f64 / MIB as f64),
            b => write!(f, "{b} B"),
        }
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= 1_000_000 => write!(f, "{:.3} ms", n as f64 / 1e6),
            n if n >= 10_000 => write!(f, "{:.1} µs", n as f64 / 1e3),
            n => write!(f, "{n} ns"),
        }
    }
}
