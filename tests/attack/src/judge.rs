//! What every attack must leave whole, and the words in which an attack's own judgement asks.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::baseline::Baseline;
use crate::stage::Stage;
use crate::victims::{CAMERA, Jobs, PAINTER, PLANNER};

/// The wait for a grant may be so many times the baseline's.
const RATIO: f64 = 1.5;
/// Lines of the log a second, for one user's doing.
const LINES: f64 = 20.0;
/// Bytes that the daemon may take during an attack, and keep of them.
const GROWTH: u64 = 64 << 20;
const KEPT: u64 = 8 << 20;
/// Descriptors that may be open beyond those before, once an attack is over.
const SPARE: u64 = 12;

/// The daemon's memory and open descriptors.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bounds {
    resident: u64,
    descriptors: u64,
    limit: u64,
}

impl Bounds {
    /// Of a process, now.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
        let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
        let line = limits
            .lines()
            .find(|line| line.starts_with("Max open files"))?;
        Some(Self {
            resident: kib << 10,
            descriptors: fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64,
            limit: line.split_whitespace().nth(3)?.parse().ok()?,
        })
    }

    /// The larger of each.
    pub(crate) fn or_more(self, other: Option<Self>) -> Self {
        let other = other.unwrap_or(self);
        Self {
            resident: self.resident.max(other.resident),
            descriptors: self.descriptors.max(other.descriptors),
            limit: self.limit,
        }
    }

    /// Whether it is what it was before.
    pub(crate) fn is_back(self, before: Self) -> bool {
        self.resident <= before.resident + KEPT && self.descriptors <= before.descriptors + SPARE
    }
}

/// What was measured beside an attack.
pub(crate) struct Measured {
    /// The victims' jobs.
    pub jobs: Jobs,
    /// Their jobs beside burners.
    pub baseline: Baseline,
    /// The daemon before, at most, and after.
    pub bounds: [Bounds; 3],
    /// How long the attack went on.
    pub took: Duration,
}

impl Measured {
    /// The victim's wait for a grant over the baseline's.
    pub(crate) fn ratio(&self) -> f64 {
        self.p99().as_secs_f64() / self.baseline.jobs.p99().as_secs_f64()
    }

    /// Who got no grant at all waits for longer than the attack went on.
    fn p99(&self) -> Duration {
        if self.jobs.waits.is_empty() {
            return self.took;
        }
        self.jobs.p99()
    }

    /// Missed deadlines, if there are more than beside burners.
    pub(crate) fn misses(&self) -> Option<String> {
        let (misses, allowed) = (self.jobs.misses, self.baseline.jobs.misses);
        let text = || format!("{misses} deadlines were missed, and {allowed} beside burners");
        (misses > allowed).then(text)
    }

    /// Grants that came later than beside burners.
    pub(crate) fn late_grants(&self) -> Option<String> {
        let (now, before) = (self.p99(), self.baseline.jobs.p99());
        let text =
            || format!("the 99th percentile of grants is {now:?}, and {before:?} beside burners");
        (self.ratio() > RATIO).then(text)
    }

    /// Fewer jobs of the best-effort victim than there should be.
    pub(crate) fn starved(&self, least: usize) -> Option<String> {
        let painted = self.jobs.painted;
        let text =
            || format!("the best-effort task did {painted} jobs, and should have done {least}");
        (painted < least).then(text)
    }

    /// Broken promises that no host excuses.
    pub(crate) fn bounds_exceeded(&self) -> Vec<String> {
        let [before, most, after] = self.bounds;
        let mut reasons = Vec::new();
        if self.jobs.wrong > 0 {
            reasons.push(format!(
                "{} jobs of the victims had wrong results",
                self.jobs.wrong
            ));
        }
        let mib = |bytes: u64| bytes >> 20;
        if most.resident > before.resident + GROWTH {
            let (most, before) = (mib(most.resident), mib(before.resident));
            reasons.push(format!("the daemon took {most} MiB, and {before} before"));
        }
        let free = before.limit.saturating_sub(before.descriptors);
        if most.descriptors > before.descriptors + free / 2 + SPARE {
            let taken = most.descriptors - before.descriptors;
            reasons.push(format!("one user took {taken} of {free} free descriptors"));
        }
        if !after.is_back(before) {
            reasons.push(format!(
                "{} MiB and {} descriptors did not come back",
                mib(after.resident.saturating_sub(before.resident)),
                after.descriptors.saturating_sub(before.descriptors)
            ));
        }
        reasons
    }
}

/// More lines than the daemon may have logged in this time. So many lines a second it logs without an attack.
pub(crate) fn rate_of_log(text: &str, span: Duration, calm: f64) -> Option<String> {
    let lines = text.lines().count();
    // A second is the least that a rate is counted over.
    let seconds = span.as_secs_f64().max(1.0);
    let last = text.lines().last().unwrap_or_default();
    (lines as f64 > ((LINES + calm) * seconds).ceil())
        .then(|| format!("{lines} lines of log in {seconds:.1} s, at last: {last}"))
}

/// A line of the daemon's log that would move a terminal.
pub(crate) fn control_characters(text: &str) -> Option<String> {
    let line = text
        .lines()
        .find(|line| line.chars().any(char::is_control))?;
    Some(format!(
        "a line of the log has control characters: {line:?}"
    ))
}

/// The end of the best-effort victim, where nothing else is wrong with the daemon and the victims, and the daemon killed
/// it because it was late to leave, as a host can make it.
pub(crate) fn excused_end(stage: &mut Stage) -> Option<String> {
    let is_excused = stage.daemon.is_running()
        && stage.victims.ended() == Some(PAINTER)
        && was_killed_for_lateness(PAINTER, &stage.daemon.stderr());
    is_excused.then(|| end_of(PAINTER, stage))
}

/// Whether the daemon ended the victim that has ended because it was late, as a host can make it.
pub(crate) fn ended_for_lateness(stage: &mut Stage) -> bool {
    let victim = stage
        .daemon
        .is_running()
        .then(|| stage.victims.ended())
        .flatten();
    victim.is_some_and(|victim| was_killed_for_lateness(victim, &stage.daemon.stderr()))
}

/// Whether the daemon killed one of the victims because it was late, as a host can make it.
pub(crate) fn was_any_late(text: &str) -> bool {
    let victims = [CAMERA, PLANNER, PAINTER];
    victims
        .iter()
        .any(|victim| was_killed_for_lateness(victim, text))
}

/// Whether the daemon says in its log that it killed a victim's process because it was late to leave the
/// GPU, or a copy engine.
fn was_killed_for_lateness(victim: &str, text: &str) -> bool {
    const LATE: [&str; 2] = ["kind=\"undrainable\"", "kind=\"swap-overdue\""];
    text.lines().any(|line| {
        line.contains(victim)
            && line.contains(" is killed")
            && LATE.iter().any(|kind| line.contains(kind))
    })
}

/// What is wrong with the daemon and the victims themselves.
pub(crate) fn alive(stage: &mut Stage, status: &Value) -> Vec<String> {
    if !stage.daemon.is_running() {
        let stderr = stage.daemon.stderr();
        let last: Vec<_> = stderr.lines().rev().take(3).collect();
        return vec![format!("the daemon ended: {}", last.join(" / "))];
    }
    if let Some(victim) = stage.victims.ended() {
        return vec![end_of(victim, stage)];
    }
    let class = |name: &str| task(status, name).map(|task| task["class"].clone());
    let expected = [
        (CAMERA, "realtime"),
        (PLANNER, "realtime"),
        (PAINTER, "best-effort"),
    ];
    let wrong = expected
        .iter()
        .filter(|(name, kind)| class(name) != Some((*kind).into()));
    wrong
        .map(|(name, kind)| format!("{name} is no longer registered as {kind}"))
        .collect()
}

/// That a victim has ended, with what the daemon said of it last.
fn end_of(victim: &str, stage: &Stage) -> String {
    let log = stage.daemon.stderr();
    let last = log.lines().rev().find(|line| line.contains(victim));
    let last = last.unwrap_or("the daemon said nothing of it");
    format!("{victim} has ended: {last}")
}

/// The capacity of the GPU in a `status`, in bytes.
pub(crate) fn capacity(status: &Value) -> u64 {
    status["gpus"][0]["capacity_bytes"]
        .as_u64()
        .unwrap_or_default()
}

/// The row of a task in a `status`.
pub(crate) fn task<'a>(status: &'a Value, name: &str) -> Option<&'a Value> {
    let tasks = status["tasks"].as_array()?;
    tasks.iter().find(|task| task["name"] == name)
}

/// An attack that is over, as its own judgement sees it.
pub(crate) struct Scene {
    /// The machine.
    pub stage: Stage,
    /// The attackers' user.
    pub user: u32,
    /// `status` before the attack.
    pub before: Value,
    /// `status` now and then.
    pub during: Vec<Value>,
    /// `status` once all attackers have ended.
    pub after: Value,
    /// The last words of each attacker.
    pub said: Vec<Value>,
    /// The largest capacity beside burners, in bytes.
    pub capacity: u64,
}

impl Scene {
    /// How often all attackers together counted `key`.
    pub(crate) fn count(&self, key: &str) -> u64 {
        let counts = self
            .said
            .iter()
            .filter_map(|said| said["counts"][key].as_u64());
        counts.sum()
    }

    /// All different texts that attackers kept.
    pub(crate) fn texts(&self) -> BTreeSet<&str> {
        let all = self.said.iter().filter_map(|said| said["texts"].as_array());
        all.flatten().filter_map(Value::as_str).collect()
    }

    /// The attackers did something, and it was never taken.
    pub(crate) fn all_refused(&self) -> Result<()> {
        let (refused, taken) = (self.count("refused"), self.count("taken"));
        ensure!(taken == 0, "{taken} were taken: {:?}", self.texts());
        ensure!(refused > 0, "nothing was tried: {:?}", self.said);
        Ok(())
    }

    /// The attackers did something at all.
    pub(crate) fn was_tried(&self) -> Result<()> {
        // One that the daemon killed says nothing.
        let was_killed = self.said.iter().any(|said| said["silent"] == "");
        ensure!(
            was_killed || self.count("tried") > 0,
            "nothing was tried: {:?}",
            self.said
        );
        Ok(())
    }

    /// Some refusal says why, in a text that has one of these words.
    pub(crate) fn says(&self, words: &[&str]) -> Result<()> {
        let texts = self.texts();
        let says = |text: &&&str| words.iter().any(|word| text.contains(word));
        ensure!(
            texts.iter().any(|text| says(&text)),
            "no refusal has one of {words:?}: {texts:?}"
        );
        Ok(())
    }

    /// The capacity of the GPU did not stay below that beside burners by more than a chunk. For a moment it falls without
    /// any attack, where a look of NVML meets a swap.
    pub(crate) fn capacity_did_not_fall(&self) -> Result<()> {
        const CHUNK: u64 = 2 << 20;
        self.was_tried()?;
        let largest = self.during.iter().map(capacity).max().unwrap_or_default();
        ensure!(
            largest + CHUNK >= self.capacity,
            "the capacity fell to {} MiB, from {} beside burners",
            largest >> 20,
            self.capacity >> 20
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn jobs(wait_ms: u64, misses: u64) -> Jobs {
        Jobs {
            waits: vec![Duration::from_millis(wait_ms)],
            misses,
            ..Jobs::default()
        }
    }

    fn measured(wait_ms: u64, misses: u64) -> Measured {
        Measured {
            jobs: jobs(wait_ms, misses),
            baseline: Baseline {
                jobs: jobs(10, 1),
                capacity: 0,
                lines: 0.0,
            },
            bounds: [Bounds::default(); 3],
            took: SECOND,
        }
    }

    #[test]
    fn the_victims_may_do_as_badly_as_beside_burners() {
        let judged = |wait_ms, misses| {
            let measured = measured(wait_ms, misses);
            (
                measured.late_grants().is_some(),
                measured.misses().is_some(),
            )
        };
        assert_eq!(judged(15, 1), (false, false));
        assert_eq!(judged(16, 1), (true, false));
        assert_eq!(judged(15, 2), (false, true));
        let starved = Measured {
            jobs: Jobs::default(),
            ..measured(0, 0)
        };
        assert!(starved.late_grants().is_some(), "who got no grant");
    }

    #[test]
    fn memory_and_descriptors_are_bounded_and_come_back() {
        let before = Bounds {
            resident: 10 << 20,
            descriptors: 100,
            limit: 1_100,
        };
        let with = |resident_mib: u64, descriptors| Bounds {
            resident: resident_mib << 20,
            descriptors,
            ..before
        };
        let broken = |most, after| {
            let measured = Measured {
                bounds: [before, most, after],
                ..measured(1, 0)
            };
            measured.bounds_exceeded().len()
        };
        assert_eq!(broken(with(70, 600), with(18, 110)), 0);
        assert_eq!(broken(with(75, 600), before), 1);
        assert_eq!(broken(with(10, 620), before), 1);
        assert_eq!(broken(before, with(19, 110)), 1);
        assert_eq!(broken(before, with(10, 120)), 1);
    }

    #[test]
    fn a_log_is_slow_and_plain() {
        let is_slow =
            |lines, calm| rate_of_log(&"a line\n".repeat(lines), 2 * SECOND, calm).is_none();
        assert!(is_slow(40, 0.0) && is_slow(44, 2.0) && !is_slow(41, 0.0));
        assert!(control_characters("a line\n").is_none());
        assert!(control_characters("a\x1b[31mline\n").is_some());
    }

    #[test]
    fn only_a_kill_for_lateness_is_excused() {
        let line = |detail: &str, kind: &str| {
            format!("WARN violation: {detail} task=\"{PAINTER}\" kind=\"{kind}\"\n")
        };
        let killed = "job 3 has not left the GPU 20 ms after it was revoked; process 7 is killed";
        let is_excused = |text: &str| was_killed_for_lateness(PAINTER, text);
        assert!(is_excused(&line(killed, "undrainable")));
        assert!(is_excused(&line(
            "late; process 7 is killed",
            "swap-overdue"
        )));
        assert!(!is_excused(&line("late", "swap-overdue")));
        assert!(!is_excused(&line(killed, "swap-failed")));
        assert!(!was_killed_for_lateness(
            CAMERA,
            &line(killed, "undrainable")
        ));
        let apart = line("late", "undrainable") + &line("process 7 is killed", "stopped");
        assert!(!is_excused(&apart));
    }
}
