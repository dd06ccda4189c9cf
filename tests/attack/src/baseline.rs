//! What the victims meet beside as many processes that only burn CPU, without rtswap.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::attack::{Attack, PLAIN, Setting};
use crate::attacker::Attacker;
use crate::crew::Crew;
use crate::host::Host;
use crate::judge;
use crate::stage::Stage;
use crate::victims::{CAMERA, Jobs};

/// Longer than most attacks.
const SPAN: Duration = Duration::from_secs(3);

/// The name under which a burner is started.
pub(crate) const BURNER: Attack = Attack {
    name: "burner",
    span: SPAN,
    act: |attacker| {
        burn(attacker);
        Ok(())
    },
    ..PLAIN
};

/// Measurements on a host that stalls, of which the best counts.
const ATTEMPTS: u32 = 3;

/// Between two looks at the capacity.
const LOOK: Duration = Duration::from_millis(250);

/// What was met beside burners.
#[derive(Clone, Debug)]
pub(crate) struct Baseline {
    /// The victims' jobs.
    pub jobs: Jobs,
    /// The largest capacity that `status` had, in bytes.
    pub capacity: u64,
    /// Lines that the daemon logged in a second.
    pub lines: f64,
}

impl Baseline {
    /// One second of waiting is worth another, a missed deadline is not.
    fn add(&mut self, other: Self) {
        let Jobs { waits, misses, .. } = &mut self.jobs;
        waits.extend(other.jobs.waits);
        waits.sort_unstable();
        *misses = other.jobs.misses.max(*misses);
        self.capacity = self.capacity.max(other.capacity);
        self.lines = self.lines.max(other.lines);
    }
}

/// The baselines that were measured. Burners run only when no other process wants to, however many they are: the waits
/// beside any number of them are one sample.
#[derive(Default)]
pub(crate) struct Baselines(BTreeMap<(Setting, u32), Baseline>);

impl Baselines {
    /// At least so many jobs of the victim beside so many burners of `user`.
    pub(crate) fn beside(
        &mut self,
        stage: &Stage,
        burners: u32,
        user: u32,
        host: &Host,
        jobs: usize,
    ) -> Result<Baseline> {
        loop {
            if let Some(met) = self.known(stage.setting, burners)
                && met.jobs.waits.len() >= jobs
            {
                return Ok(met);
            }
            self.measure(stage, burners, user, host)?;
        }
    }

    /// What was measured beside so many, with all waits of that stage.
    fn known(&self, setting: Setting, burners: u32) -> Option<Baseline> {
        let mut all = self.0.get(&(setting, burners))?.clone();
        let others = self
            .0
            .iter()
            .filter(|((stage, number), _)| *stage == setting && *number != burners);
        for (_, other) in others {
            all.jobs.waits.extend(&other.jobs.waits);
        }
        all.jobs.waits.sort_unstable();
        Some(all)
    }

    /// Measures once more, and adds it to what was measured before.
    fn measure(&mut self, stage: &Stage, burners: u32, user: u32, host: &Host) -> Result<()> {
        let mut met = once(stage, burners, user, host)?;
        // A host that stalls makes the victims late, and would excuse any attack.
        for _ in 1..ATTEMPTS {
            if met.jobs.misses == 0 && host.stall().is_none() {
                break;
            }
            let other = once(stage, burners, user, host)?;
            let badness = |met: &Baseline| {
                let jobs = &met.jobs;
                (jobs.waits.is_empty(), jobs.misses, jobs.p99())
            };
            if badness(&other) < badness(&met) {
                met = other;
            }
        }
        // Enough jobs of a victim that has ended would never be met.
        ensure!(
            !met.jobs.waits.is_empty(),
            "{CAMERA} did no job in {SPAN:?} beside {burners} burners"
        );
        let known = self.0.entry((stage.setting, burners));
        known
            .and_modify(|known| known.add(met.clone()))
            .or_insert(met);
        Ok(())
    }
}

fn once(stage: &Stage, burners: u32, user: u32, host: &Host) -> Result<Baseline> {
    let attack = Attack {
        attackers: burners,
        ..BURNER
    };
    host.begin();
    let from = stage.victims.mark();
    let logged = stage.daemon.stderr().lines().count();
    let crew = Crew::start(stage, &attack, user)?;
    let mut capacity = 0;
    for _ in 0..SPAN.as_millis() / LOOK.as_millis() {
        std::thread::sleep(LOOK);
        capacity = capacity.max(judge::capacity(&stage.status()?));
    }
    let to = stage.victims.mark();
    crew.end()?;
    let lines = stage.daemon.stderr().lines().count() - logged;
    Ok(Baseline {
        jobs: stage.victims.between(from, to),
        capacity,
        lines: lines as f64 / SPAN.as_secs_f64(),
    })
}

fn burn(attacker: &Attacker) {
    while attacker.goes_on() {
        for _ in 0..10_000 {
            std::hint::spin_loop();
        }
    }
}
