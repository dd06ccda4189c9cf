//! The probes, by area: each is one program of `probes/` with one argument.

mod alloc;
mod copy;
mod graphs;
mod hint;
mod launch;
mod lookup;
mod node;
mod nvml;
mod older;
mod pool;
mod query;
mod request;
mod trap;
mod vmm;

use crate::check::{Check, Outcome, Own};

/// One way into the driver, or one trap.
#[derive(Clone, Copy)]
pub struct Probe {
    /// The source in `probes/`, without `.c`.
    pub file: &'static str,
    /// Its only argument.
    pub argument: &'static str,
    /// The functions that it goes through, or what it tries, for the matrix.
    pub doors: &'static str,
    /// What is done to it.
    pub check: Check,
    /// What must come of it.
    pub expected: Outcome,
    /// Why it is left alone, where it is.
    pub why: &'static str,
    /// Simulated GPUs that it needs; the first is managed.
    pub gpus: u32,
}

impl Probe {
    /// Its name in all reports.
    pub fn name(&self) -> String {
        format!("{}.{}", self.file, self.argument)
    }

    const fn new(file: &'static str, argument: &'static str, doors: &'static str) -> Self {
        Self {
            file,
            argument,
            doors,
            check: Check::Same,
            expected: Outcome::Caught,
            why: "",
            gpus: 1,
        }
    }

    /// Memory that must lie in the arena and survive being swapped out.
    pub const fn swapped(file: &'static str, argument: &'static str, doors: &'static str) -> Self {
        let mut probe = Self::new(file, argument, doors);
        probe.check = Check::Swapped;
        probe
    }

    /// GPU work that must wait at the closed gate.
    pub const fn gated(file: &'static str, argument: &'static str, doors: &'static str) -> Self {
        let mut probe = Self::new(file, argument, doors);
        probe.check = Check::Gated;
        probe
    }

    /// Questions that are answered while the memory is out, without a job.
    pub const fn answers(file: &'static str, argument: &'static str, doors: &'static str) -> Self {
        let mut probe = Self::new(file, argument, doors);
        probe.check = Check::Answers;
        probe
    }

    /// Memory as a framework asks for it: swapped until it is given to others, also under torture.
    pub const fn requested(
        file: &'static str,
        argument: &'static str,
        doors: &'static str,
    ) -> Self {
        let mut probe = Self::new(file, argument, doors);
        probe.check = Check::Requested;
        probe
    }

    /// A program that must print what it prints on the bare driver.
    pub const fn same(file: &'static str, argument: &'static str, doors: &'static str) -> Self {
        Self::new(file, argument, doors)
    }

    /// Memory that is left alone, but counted, and why.
    pub const fn counted(
        file: &'static str,
        argument: &'static str,
        doors: &'static str,
        why: &'static str,
    ) -> Self {
        let mut probe = Self::new(file, argument, doors);
        probe.check = Check::Counted;
        probe.expected = Outcome::Counted;
        probe.why = why;
        probe
    }

    /// A program that must run as without rtswap, with no agent active, and why.
    pub const fn inert(
        file: &'static str,
        argument: &'static str,
        doors: &'static str,
        why: &'static str,
    ) -> Self {
        let mut probe = Self::new(file, argument, doors);
        probe.check = Check::Inert;
        probe.expected = Outcome::Inert;
        probe.why = why;
        probe
    }

    /// A program that needs a check of its own, which must give `expected`.
    pub const fn own(
        file: &'static str,
        argument: &'static str,
        doors: &'static str,
        own: Own,
        expected: Outcome,
    ) -> Self {
        let mut probe = Self::new(file, argument, doors);
        probe.check = Check::Own(own);
        probe.expected = expected;
        probe
    }

    /// Says why it is left alone.
    #[must_use]
    pub const fn because(mut self, why: &'static str) -> Self {
        self.why = why;
        self
    }

    /// The same on a machine with two GPUs.
    #[must_use]
    pub const fn on_two_gpus(mut self) -> Self {
        self.gpus = 2;
        self
    }
}

/// All probes in the order of the matrix: a title and its probes.
pub fn areas() -> Vec<(&'static str, &'static [Probe])> {
    vec![
        ("Allocation and free", alloc::PROBES),
        ("Memory in a stream's order", pool::PROBES),
        ("The program's own virtual memory", vmm::PROBES),
        ("Memory as frameworks ask for it", request::PROBES),
        ("Launches and work in a stream's order", launch::PROBES),
        ("Graphs by their nodes", graphs::PROBES),
        ("Nodes of graphs", node::PROBES),
        ("Copies and sets", copy::PROBES),
        ("Memory that kernels do not write", hint::PROBES),
        ("Questions", query::PROBES),
        ("NVML", nvml::PROBES),
        ("Ways to a function", lookup::PROBES),
        ("Beside the usual functions", older::PROBES),
        ("Traps", trap::PROBES),
        ("Living in other people's processes", crate::life::PROBES),
    ]
}

/// All probes.
pub fn all() -> Vec<&'static Probe> {
    areas().into_iter().flat_map(|(_, probes)| probes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_what_is_left_alone_has_a_reason() {
        let mut names: Vec<String> = all().iter().map(|probe| probe.name()).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        for probe in all() {
            let left_alone = matches!(probe.expected, Outcome::Counted | Outcome::Inert);
            assert_eq!(left_alone, !probe.why.is_empty(), "{}", probe.name());
        }
    }
}
