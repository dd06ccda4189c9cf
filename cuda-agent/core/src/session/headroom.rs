//! Where the agent's descriptors lie: above the program's own limit, so that the program loses none
//! of its numbers and meets none of ours by counting up to its limit. A descriptor stays open above
//! a limit that is lowered again.

use std::sync::atomic::{AtomicI32, Ordering};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More numbers than the agent ever has open.
const ROOM: u64 = 16;
/// Where a limit is higher than this the descriptors lie below it, at [`HIGH`]: the kernel keeps a
/// table of all numbers up to the highest in use, and copies it at each fork.
const TABLE_MOST: u64 = 4096;
/// Above those that a program meets by counting up.
const HIGH: i32 = 500;
/// A program that may not have more descriptors than this has none to spare.
const LEAST: u64 = 64;

static FLOOR: AtomicI32 = AtomicI32::new(HIGH);

/// The lowest number that the agent's descriptors may have.
pub(super) fn floor() -> i32 {
    FLOOR.load(Ordering::Relaxed)
}

/// While it lives, descriptors can be opened above the program's limit, also by a program that has
/// none left.
#[derive(Debug)]
pub struct Headroom(Option<(Rlimit, Rlimit)>);

/// The limit is too low to share.
#[derive(Debug, thiserror::Error)]
#[error(
    "it may have no more than {0} descriptors, and rtswap would take 6 of them: raise the limit (ulimit -n)"
)]
pub struct NoHeadroom(u64);

impl Headroom {
    /// Lifts the limit where the hard one allows.
    pub fn make() -> Result<Self, NoHeadroom> {
        let before = getrlimit(Resource::Nofile);
        let Some(soft) = before.current.filter(|&soft| soft <= TABLE_MOST) else {
            FLOOR.store(HIGH, Ordering::Relaxed);
            return Ok(Self(None));
        };
        let lifted = Rlimit {
            current: Some(soft + ROOM),
            maximum: before.maximum,
        };
        let allowed = before.maximum.is_none_or(|hard| hard >= soft + ROOM);
        if allowed && setrlimit(Resource::Nofile, lifted).is_ok() {
            FLOOR.store(soft as i32, Ordering::Relaxed);
            return Ok(Self(Some((before, lifted))));
        }
        if soft < LEAST {
            return Err(NoHeadroom(soft));
        }
        FLOOR.store(HIGH.min((soft - ROOM) as i32), Ordering::Relaxed);
        Ok(Self(None))
    }
}

impl Drop for Headroom {
    fn drop(&mut self) {
        if let Some((before, lifted)) = self.0.take()
            // The program may have set another meanwhile.
            && getrlimit(Resource::Nofile) == lifted
        {
            // Lowering is always allowed.
            let _ = setrlimit(Resource::Nofile, before);
        }
    }
}
