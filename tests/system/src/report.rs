//! Named checks, one after another, each told as it ends.

use std::time::Instant;

use anyhow::Result;

use crate::machine::Machine;

/// The checks so far.
pub(crate) struct Report<'machine> {
    machine: &'machine Machine,
    /// How many held.
    pub passed: usize,
    /// How many did not.
    pub failed: usize,
}

impl<'machine> Report<'machine> {
    /// Of checks on `machine`.
    pub(crate) fn new(machine: &'machine Machine) -> Self {
        Self {
            machine,
            passed: 0,
            failed: 0,
        }
    }

    /// Runs one; what it learned, if it held.
    pub(crate) fn check<T>(
        &mut self,
        name: &str,
        check: impl FnOnce(&Machine) -> Result<T>,
    ) -> Option<T> {
        let start = Instant::now();
        let result = check(self.machine);
        let seconds = start.elapsed().as_secs_f64();
        match result {
            Ok(learned) => {
                self.passed += 1;
                println!("ok      {name} ({seconds:.1} s)");
                Some(learned)
            }
            Err(error) => {
                self.failed += 1;
                println!("FAILED  {name} ({seconds:.1} s): {error:#}");
                println!("{}", self.machine.journal());
                None
            }
        }
    }
}
