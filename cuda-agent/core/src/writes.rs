//! What hooked calls write into memory that the program's kernels do not: only then does anybody
//! ask.

use crate::agent::Agent;
use crate::memory::hints;

/// What a call writes, now or in its stream's order, other than by the program's kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Nothing in memory that has addresses.
    Nothing,
    /// At most these.
    Range {
        /// The first address.
        at: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// That cannot be told.
    Anything,
}

impl Agent {
    /// rtswap_hint_read_only: the program's kernels do not write `bytes` from `at` on until they
    /// are freed. Nothing where no arena is.
    pub fn hint_read_only(&self, at: u64, bytes: u64) {
        for device in self.devices.iter().filter(|device| device.holds(at)) {
            device.memory().hint_read_only(at, bytes);
        }
    }

    /// Notes what a call is about to write, once it has entered.
    pub fn note_writes(&self, writes: Writes) {
        for device in &self.devices {
            match writes {
                Writes::Nothing => {}
                Writes::Range { at, bytes } => device.hints.written(at, bytes),
                Writes::Anything => device.hints.all_written(),
            }
        }
    }

    /// The program gets `bytes` at `at` as new memory, whatever it said of them before.
    pub(crate) fn forget_hints(&self, at: u64, bytes: u64) {
        if hints::any() {
            for device in &self.devices {
                device.hints.forget(at, bytes);
            }
        }
    }
}
