//! One attack from its beginning to its verdict.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::attack::Attack;
use crate::baseline::Baselines;
use crate::crew::{Crew, USERS};
use crate::host::Host;
use crate::judge::{self, Bounds, Measured, Scene};
use crate::report::{Outcome, Verdict};
use crate::stage::Stage;
use crate::victims::{CAMERA_PERIOD, Jobs, Mark};

/// Between two looks at the daemon's memory and descriptors.
const LOOK: Duration = Duration::from_millis(40);
/// In this time what an attack took must be back: what leaks never is, and a busy host gives it back late.
const BACK: Duration = Duration::from_secs(10);
/// In this time each realtime task must do a job once an attack is over.
const NEXT_JOB: Duration = Duration::from_millis(2_500);
/// The least number of the victim's jobs in each run of one attack. All but the last run may stay unjudged: of a few
/// jobs one late one says little, of a hundred it is the 99th percentile.
const RUNS: [usize; 3] = [7, 50, 100];

/// All attacks of one run, with what they share.
pub(crate) struct Run {
    stage: Option<Stage>,
    baselines: Baselines,
    /// Whom the next attack becomes.
    user: u32,
    bystander: u32,
    host: Host,
}

impl Run {
    /// Nothing is started yet.
    pub(crate) fn new() -> Self {
        // Users of runs beside this one are others.
        let first = 20_000 + std::process::id() % 40 * 1_000;
        Self {
            stage: None,
            baselines: Baselines::default(),
            user: first + 1,
            bystander: first,
            host: Host::watch(),
        }
    }

    /// Makes one attack; again and longer, where the host or the luck of few jobs may have made the victims late.
    pub(crate) fn of(&mut self, attack: &Attack) -> Result<Outcome> {
        let [all_but_last @ .., _] = RUNS;
        for (run, jobs) in (1..).zip(all_but_last) {
            let (outcome, doubt) = self.attempt(attack, jobs)?;
            let Some(doubt) = doubt else {
                return Ok(outcome);
            };
            let (name, runs) = (attack.name, RUNS.len());
            eprintln!("UNJUDGED: {name}: run {run} of {runs}: {doubt}");
        }
        self.last_of(attack)
    }

    /// Makes one attack once, for as many jobs as its last run takes.
    pub(crate) fn last_of(&mut self, attack: &Attack) -> Result<Outcome> {
        let [.., last] = RUNS;
        let (outcome, _) = self.attempt(attack, last)?;
        Ok(outcome)
    }

    /// The outcome by at least so many jobs of the victim, and why it may be another one by more: only where nothing
    /// was broken that neither the host nor luck excuses.
    fn attempt(&mut self, attack: &Attack, jobs: usize) -> Result<(Outcome, Option<String>)> {
        let mut stage = match self.stage.take() {
            Some(stage) if stage.setting == attack.setting => stage,
            // The former daemon ends before the next begins.
            former => {
                drop(former);
                Stage::start(attack.setting, self.bystander)?
            }
        };
        let user = self.user;
        let (baselines, host) = (&mut self.baselines, &self.host);
        let baseline = baselines.beside(&stage, attack, user, host, jobs)?;
        if judge::excused_end(&mut stage).is_some() {
            // Beside burners it was the host: what an attack does to the best-effort victim needs one that runs.
            drop(stage);
            stage = Stage::start(attack.setting, self.bystander)?;
        }
        let least = CAMERA_PERIOD * jobs as u32;
        let span = attack.span.max(least);
        let attack = &Attack { span, ..*attack };
        let user = self.user + USERS;
        self.user = user;
        let before = stage.status()?;
        let logged = stage.daemon.stderr().len();
        let from = stage.victims.mark();
        self.host.begin();
        let begun = Instant::now();
        let mut crew = Crew::start(&stage, attack, user)?;
        let bounds = stage.bounds;
        let mut most = bounds;
        let mut at_once = Vec::new();
        let mut next_status = attack.span / 3;
        // Whoever is done earlier gives the victims their time all the same.
        while begun.elapsed() < least || begun.elapsed() < attack.span && crew.is_at_work() {
            thread::sleep(LOOK);
            most = most.or_more(Bounds::of(stage.daemon.pid()));
            if begun.elapsed() >= next_status {
                next_status += attack.span / 3;
                at_once.extend(stage.status());
            }
        }
        let took = begun.elapsed();
        let beside = stage.victims.between(from, stage.victims.mark());
        let said = crew.end()?;
        let log = stage.daemon.stderr().split_off(logged);
        let logged_for = begun.elapsed();
        let (back, next_jobs) = returned(&stage, &mut most);
        let to = next_jobs.unwrap_or_else(|| stage.victims.mark());
        let stall = self.host.stall();
        let after = stage.status().unwrap_or_default();
        let jobs = Jobs {
            painted: beside.painted,
            ..stage.victims.between(from, to)
        };
        let calm = baseline.lines;
        let measured = Measured {
            jobs,
            baseline,
            bounds: [bounds, most, back],
            took,
        };
        let lateness = [
            measured.misses(),
            measured.late_grants(),
            measured.starved(attack.painted),
        ];
        let mut reasons: Vec<_> = lateness.into_iter().flatten().collect();
        let late = reasons.len();
        if next_jobs.is_none() {
            reasons.push("a realtime task did no job after the attack".into());
        }
        reasons.extend(measured.bounds_exceeded());
        reasons.extend(judge::rate_of_log(&log, logged_for, calm));
        reasons.extend(judge::alive(&mut stage, &after));
        let all_logged = stage.daemon.stderr().split_off(logged);
        reasons.extend(judge::control_characters(&all_logged));
        let excused_end = judge::excused_end(&mut stage);
        let is_whole = stage.daemon.is_running() && stage.victims.ended().is_none();
        let mut scene = Scene {
            stage,
            user,
            before,
            during: at_once,
            after,
            said,
            capacity: measured.baseline.capacity,
        };
        if is_whole && let Err(error) = (attack.judge)(&scene) {
            reasons.push(format!("{error:#}"));
        }
        let excused = late + usize::from(excused_end.is_some());
        // Where the victims were late beside burners too, a host explains these as well.
        let is_ended_late = judge::ended_for_lateness(&mut scene.stage);
        let by_host = late + usize::from(next_jobs.is_none()) + usize::from(is_ended_late);
        let is_by_host = measured.baseline.jobs.misses > 0 && reasons.len() <= by_host;
        let is_only_late = !reasons.is_empty() && reasons.len() <= excused;
        let doubt = match (reasons.first(), stall) {
            _ if reasons.len() > excused => None,
            (Some(lateness), Some(stall)) if late > 0 => {
                Some(format!("the host stalled for {stall:?}, and {lateness}"))
            }
            (Some(lateness), None) if late > 0 => Some(lateness.clone()),
            _ => excused_end,
        };
        let outcome = Outcome {
            name: attack.name,
            is_only_late,
            is_unjudged: !reasons.is_empty() && is_by_host,
            result: if reasons.is_empty() {
                Verdict::Held
            } else {
                Verdict::Broken
            },
            victim_p99_ratio: measured.ratio(),
            misses: measured.jobs.misses,
            reasons,
        };
        // What one attack broke is not the next one's.
        if outcome.result == Verdict::Held {
            self.stage = Some(scene.stage);
        }
        Ok((outcome, doubt))
    }
}

/// The daemon's memory and descriptors once they are back, or when their time is over, and the victims' jobs once each
/// realtime task has done one more, if that is in time. Both times begin with the end of the attack. `most` is what the
/// daemon had until then. What an attack takes only after its end is found by the next one: all must come back to what
/// it was on the stage before the first.
fn returned(stage: &Stage, most: &mut Bounds) -> (Bounds, Option<Mark>) {
    let ended = stage.victims.mark();
    let over = Instant::now();
    let mut next_jobs = None;
    loop {
        let since = over.elapsed();
        let now = Bounds::of(stage.daemon.pid()).unwrap_or_default();
        *most = most.or_more(Some(now));
        // A job that began beside the attack counts, and may end after it.
        if next_jobs.is_none() && since <= NEXT_JOB && stage.victims.are_done_since(ended) {
            next_jobs = Some(stage.victims.mark());
        }
        let is_back = now.is_back(stage.bounds) || since > BACK;
        if is_back && (next_jobs.is_some() || since > NEXT_JOB) {
            return (now, next_jobs);
        }
        thread::sleep(LOOK);
    }
}
