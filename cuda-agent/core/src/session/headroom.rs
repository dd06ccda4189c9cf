//! Where the agent's descriptors lie: above the program's own limit, so that the program loses none
//! of its numbers and meets none of ours by counting up to its limit. A descriptor stays open above
//! a limit that is lowered again.

use std::sync::atomic::{AtomicI32, Ordering};

use libc::rlim_t;

/// More numbers than the agent ever has open.
const ROOM: rlim_t = 16;
/// Where a limit is higher than this the descriptors lie below it, at [`HIGH`]: the kernel keeps a
/// table of all numbers up to the highest in use, and copies it at each fork.
const TABLE_MOST: rlim_t = 4096;
/// Above those that a program meets by counting up.
const HIGH: i32 = 500;
/// A program that may not have more descriptors than this has none to spare.
const LEAST: rlim_t = 64;

static FLOOR: AtomicI32 = AtomicI32::new(HIGH);

/// The lowest number that the agent's descriptors may have.
pub(super) fn floor() -> i32 {
    FLOOR.load(Ordering::Relaxed)
}

/// While it lives, descriptors can be opened above the program's limit, also by a program that has
/// none left.
#[derive(Debug)]
pub struct Headroom(Option<(Limit, Limit)>);

/// The limit is too low to share.
#[derive(Debug, thiserror::Error)]
#[error(
    "it may have no more than {0} descriptors, and rtswap would take 6 of them: raise the limit (ulimit -n)"
)]
pub struct NoHeadroom(rlim_t);

impl Headroom {
    /// Lifts the limit where the hard one allows.
    pub fn make() -> Result<Self, NoHeadroom> {
        let Some(before) = Limit::get().filter(|limit| limit.soft <= TABLE_MOST) else {
            FLOOR.store(HIGH, Ordering::Relaxed);
            return Ok(Self(None));
        };
        let lifted = Limit {
            soft: before.soft + ROOM,
            ..before
        };
        if lifted.soft <= lifted.hard && lifted.set() {
            FLOOR.store(before.soft as i32, Ordering::Relaxed);
            return Ok(Self(Some((before, lifted))));
        }
        if before.soft < LEAST {
            return Err(NoHeadroom(before.soft));
        }
        FLOOR.store(HIGH.min((before.soft - ROOM) as i32), Ordering::Relaxed);
        Ok(Self(None))
    }
}

impl Drop for Headroom {
    fn drop(&mut self) {
        if let Some((before, lifted)) = self.0.take()
            // The program may have set another meanwhile.
            && Limit::get() == Some(lifted)
        {
            // Lowering is always allowed.
            before.set();
        }
    }
}

/// RLIMIT_NOFILE. By libc, because rustix takes it for a call that cannot fail: sandboxes forbid it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limit {
    soft: rlim_t,
    hard: rlim_t,
}

impl Limit {
    fn get() -> Option<Self> {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: fills a local.
        let rc = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
        (rc == 0).then_some(Self {
            soft: limit.rlim_cur,
            hard: limit.rlim_max,
        })
    }

    /// Whether it was set.
    fn set(self) -> bool {
        let limit = libc::rlimit {
            rlim_cur: self.soft,
            rlim_max: self.hard,
        };
        // SAFETY: reads a local.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) == 0 }
    }
}
