//! Programs that share one GPU.

use alloc::format;
use alloc::vec::Vec;

use rtswap_policy::units::Nanos;

use super::{Card, batch, chat, images, training};
use crate::scenario::{Scenario, SimTask};

/// A kind of program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Endless iterations.
    Training,
    /// Questions and answers.
    Chat,
    /// Images now and then.
    Images,
    /// Endless batches.
    Batch,
}

/// Programs that do not fit together.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// What tables call it.
    pub name: &'static str,
    /// One task each.
    pub programs: &'static [Program],
}

/// The mixes of the comparison.
pub const MIXES: [Mix; 7] = {
    use Program::{Batch, Chat, Images, Training};
    const fn mix(name: &'static str, programs: &'static [Program]) -> Mix {
        Mix { name, programs }
    }
    [
        mix("2 training", &[Training, Training]),
        mix("training, chat", &[Training, Chat]),
        mix("training, images", &[Training, Images]),
        mix("images, chat", &[Images, Chat]),
        mix("batch, chat, training", &[Batch, Chat, Training]),
        mix("4 endless", &[Training, Training, Batch, Batch]),
        mix("2 chat, images, training", &[Chat, Chat, Images, Training]),
    ]
};

impl Program {
    /// Whether it computes without end, so that nobody waits for one of its jobs.
    pub fn is_endless(self) -> bool {
        matches!(self, Self::Training | Self::Batch)
    }

    /// The n-th task of a mix, on `card`.
    pub fn task(self, place: usize, card: &Card) -> SimTask {
        let (name, make): (_, fn(&str, _) -> SimTask) = match self {
            Self::Training => ("training", training),
            Self::Chat => ("chat", chat),
            Self::Images => ("images", images),
            Self::Batch => ("batch", batch),
        };
        make(&format!("{name}-{place}"), card.memory())
    }
}

impl Mix {
    /// The mix on `card` for `duration`. Revoked jobs leave the GPU within `config.drain`.
    pub fn scenario(&self, card: &Card, duration: Nanos, seed: u64) -> Scenario {
        let programs = self.programs.iter().enumerate();
        let tasks: Vec<_> = programs
            .map(|(place, program)| program.task(place, card))
            .collect();
        Scenario {
            shortest_drain: Nanos::ZERO,
            ..Scenario::new(card.config(), tasks, duration, seed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run;

    #[test]
    fn no_two_programs_fit_together_and_each_alone_runs_as_its_file_says() {
        let minutes = |count: u64| Nanos(count * 60_000_000_000);
        for card in [Card::SMALL, Card::LARGE] {
            let memory = card.memory();
            assert!(memory.footprint + memory.footprint > card.capacity);
            assert!(card.memory().swappable < card.footprint);
        }
        for (program, least, most, bursts) in [
            (Program::Training, 99, 100, 10_000),
            (Program::Batch, 97, 100, 500),
            (Program::Chat, 10, 25, 35),
            (Program::Images, 10, 25, 9),
        ] {
            let programs: &[_] = &[program];
            let mix = Mix {
                name: "alone",
                programs: programs.to_vec().leak(),
            };
            let report = run(&mix.scenario(&Card::SMALL, minutes(30), 1)).unwrap();
            let task = &report.tasks[0];
            let busy = 100 * task.work.0 / minutes(30).0;
            assert!((least..=most).contains(&busy), "{program:?}: {busy} %");
            assert!(task.bursts >= bursts && task.revoked == 0, "{task:?}");
        }
    }
}
