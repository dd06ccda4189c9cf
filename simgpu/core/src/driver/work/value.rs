//! Stream memory operations: waiting for a word, and writing one.

use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::thread;
use std::time::Duration;

use super::Executor;
use crate::clock::now_ns;
use crate::driver::space::Access;
use crate::{Error, Result};

/// How often a waiting stream looks.
const POLL: Duration = Duration::from_micros(50);

/// When a wait is over (CUstreamWaitValue_flags).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// The word is as far as the value or further, cyclically.
    AtLeast,
    /// It is the value.
    Equal,
    /// It has a bit in common with the value.
    And,
    /// It lacks a bit that the value lacks too.
    Nor,
}

/// What is done with one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The stream waits.
    Wait(Until),
    /// The stream writes.
    Write,
}

/// One operation on a word of 4 or 8 bytes, aligned to its size.
#[derive(Debug, Clone, Copy)]
pub struct ValueOp {
    /// Where the word is: device memory or pinned host memory.
    pub address: u64,
    /// What is compared or written.
    pub value: u64,
    /// Whether the word has 64 bits, not 32.
    pub is_wide: bool,
    /// What is done.
    pub action: Action,
}

impl ValueOp {
    fn bytes(&self) -> usize {
        if self.is_wide { 8 } else { 4 }
    }

    fn is_over(&self, until: Until, word: u64) -> bool {
        let value = self.value;
        // Comparisons are of the word's own width.
        let bits = if self.is_wide { 0 } else { 32 };
        match until {
            Until::AtLeast => (word.wrapping_sub(value) << bits).cast_signed() >= 0,
            Until::Equal => word << bits == value << bits,
            Until::And => (word & value) << bits != 0,
            Until::Nor => !(word | value) << bits != 0,
        }
    }
}

impl Executor {
    /// Fails if the word cannot be accessed.
    pub(crate) fn check_value(&self, op: &ValueOp) -> Result<()> {
        if op.address == 0 || !op.address.is_multiple_of(op.bytes() as u64) {
            return Err(Error::InvalidValue);
        }
        self.device(op.address, op.bytes(), Access::Read)
            .map(drop)
            .map_err(|_| Error::InvalidValue)
    }

    pub(super) fn value_op(&self, op: &ValueOp, ready_ns: u64) -> Result<u64> {
        match op.action {
            Action::Write => {
                self.word(op, Access::ReadWrite, Some(op.value))?;
            }
            Action::Wait(until) => {
                while !op.is_over(until, self.word(op, Access::Read, None)?) {
                    thread::sleep(POLL);
                }
            }
        }
        Ok(now_ns().max(ready_ns))
    }

    /// Reads the word, or writes it.
    fn word(&self, op: &ValueOp, access: Access, write: Option<u64>) -> Result<u64> {
        let segments = self.device(op.address, op.bytes(), access)?;
        let start = segments.first().ok_or(Error::IllegalAddress)?.start;
        // SAFETY: an aligned word that this GPU may access, in memory that is
        // shared with others and so only accessed atomically.
        unsafe {
            if op.is_wide {
                let word = AtomicU64::from_ptr(start.cast());
                if let Some(value) = write {
                    word.store(value, Release);
                }
                Ok(word.load(Acquire))
            } else {
                let word = AtomicU32::from_ptr(start.cast());
                if let Some(value) = write {
                    word.store(value as u32, Release);
                }
                Ok(word.load(Acquire).into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_end_as_the_driver_says() {
        let op = |value, is_wide| ValueOp {
            address: 8,
            value,
            is_wide,
            action: Action::Write,
        };
        let narrow = op(5, false);
        assert!(narrow.is_over(Until::AtLeast, 5) && narrow.is_over(Until::AtLeast, 6));
        assert!(!narrow.is_over(Until::AtLeast, 4));
        // Cyclic: (int32_t)(word - value) >= 0.
        assert!(op(u32::MAX.into(), false).is_over(Until::AtLeast, 0));
        assert!(!op(u32::MAX.into(), true).is_over(Until::AtLeast, 0));
        assert!(narrow.is_over(Until::Equal, 5) && !narrow.is_over(Until::Equal, 7));
        assert!(narrow.is_over(Until::And, 4) && !narrow.is_over(Until::And, 2));
        assert!(narrow.is_over(Until::Nor, 0));
        assert!(!op(0xffff_0000, false).is_over(Until::Nor, 0x0000_ffff));
    }
}
