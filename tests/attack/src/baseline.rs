//! What the victims meet beside as many processes that only burn CPU, without rtswap; beside an honest program, too, where
//! an attack takes memory.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

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

/// The name under which a burner is started that has the memory of an honest program, too.
pub(crate) const HOLDER: Attack = Attack {
    name: "holder",
    act: |attacker| {
        hold(attacker)?;
        burn(attacker);
        Ok(())
    },
    ..BURNER
};

/// What an honest program takes: realtime must be rid of some of it before each of its jobs.
const HELD: &str = "18MiB";

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

/// What one is measured for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    setting: Setting,
    /// Whether the first of the burners has memory.
    takes_memory: bool,
    burners: u32,
}

/// The baselines that were measured. Burners run only when no other process wants to, however many they are: the waits
/// beside any number of them are one sample.
#[derive(Default)]
pub(crate) struct Baselines(BTreeMap<Kind, Baseline>);

impl Kind {
    /// Whether the two differ in the number of burners at most.
    fn is_like(self, other: Self) -> bool {
        (self.setting, self.takes_memory) == (other.setting, other.takes_memory)
    }
}

impl Baselines {
    /// At least so many jobs of the victim beside as many burners of `user` as attack.
    pub(crate) fn beside(
        &mut self,
        stage: &Stage,
        attack: &Attack,
        user: u32,
        host: &Host,
        jobs: usize,
    ) -> Result<Baseline> {
        let kind = Kind {
            setting: stage.setting,
            takes_memory: attack.takes_memory,
            burners: attack.attackers,
        };
        loop {
            if let Some(met) = self.known(kind)
                && met.jobs.waits.len() >= jobs
            {
                return Ok(met);
            }
            self.measure(stage, kind, user, host)?;
        }
    }

    /// What was measured beside so many, with all waits of that stage.
    fn known(&self, kind: Kind) -> Option<Baseline> {
        let mut all = self.0.get(&kind)?.clone();
        let others = self
            .0
            .iter()
            .filter(|(other, _)| other.burners != kind.burners && kind.is_like(**other));
        for (_, other) in others {
            all.jobs.waits.extend(&other.jobs.waits);
        }
        all.jobs.waits.sort_unstable();
        Some(all)
    }

    /// Measures once more, and adds it to what was measured before.
    fn measure(&mut self, stage: &Stage, kind: Kind, user: u32, host: &Host) -> Result<()> {
        let mut met = once(stage, kind, user, host)?;
        // A host that stalls makes the victims late, and would excuse any attack.
        for _ in 1..ATTEMPTS {
            if met.jobs.misses == 0 && host.stall().is_none() {
                break;
            }
            let other = once(stage, kind, user, host)?;
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
            "{CAMERA} did no job in {SPAN:?} beside {} burners",
            kind.burners
        );
        let known = self.0.entry(kind);
        known
            .and_modify(|known| known.add(met.clone()))
            .or_insert(met);
        Ok(())
    }
}

fn once(stage: &Stage, kind: Kind, user: u32, host: &Host) -> Result<Baseline> {
    let attack = Attack {
        attackers: kind.burners,
        ..if kind.takes_memory { HOLDER } else { BURNER }
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

/// Starts an honest program with memory. It ends with its user's other processes.
fn hold(attacker: &Attacker) -> Result<()> {
    if attacker.order.number > 0 {
        return Ok(());
    }
    let bin = attacker.order.folder.join("bin");
    let name = format!("holder-{}", attacker.order.user);
    let mut command = Command::new(bin.join("rtswapctl"));
    command.args(["run", "--name", &name, "--"]);
    command.arg(bin.join("dnn"));
    command.args(["--memory", HELD, "--layers", "4", "--period", "120ms"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().context("an honest program")?;
    Ok(())
}

fn burn(attacker: &Attacker) {
    while attacker.goes_on() {
        for _ in 0..10_000 {
            std::hint::spin_loop();
        }
    }
}
