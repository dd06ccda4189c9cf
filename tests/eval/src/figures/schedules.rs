//! Fig. 5 and 6: what the scheduler does in the situations that its rules are for.
//!
//! 5(b), 6(b), 6(c) and 6(d) are played by the real scheduler. 5(a) and 6(a) show what happens
//! without a rule; our scheduler has no such mode, so their bars are written down here, with the
//! same spans and by the paper's text. The paper's figures have no numbers but the memory of
//! Fig. 5: spans are ours, in milliseconds.

use rtswap_policy::admission::Test;
use rtswap_policy::assign::Objective;
use rtswap_policy::cost::{DirectionCost, SwapCost};
use rtswap_policy::scheduler::{Config, Direction, Overrun, Sharing, Undrained};
use rtswap_policy::task::{Class, MemoryProfile, TaskSpec, Timing, Weight};
use rtswap_policy::units::{Bytes, Nanos, Ppm, Time};

use rtswap_simulator::record::{Observer, Record, SwapRecord};
use rtswap_simulator::scenario::{Arrivals, Checks, Execution, Scenario, SimTask};
use rtswap_simulator::{SimError, observe};

const MILLI: u64 = 1_000_000;
/// Chunks of 50, as Fig. 5 counts memory.
const CHUNK: u64 = 50;

/// What a bar stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The execution of a job.
    Run,
    /// Memory of the task leaving.
    Out,
    /// Memory of the task coming back.
    In,
}

/// One bar; times from the panel's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bar {
    /// When it begins.
    pub from: Nanos,
    /// When it ends.
    pub to: Nanos,
    /// Whose: place in `Panel::tasks`.
    pub task: usize,
    /// What.
    pub kind: Kind,
}

/// One part of a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panel {
    /// Its name in the paper.
    pub name: &'static str,
    /// What it shows.
    pub shows: &'static str,
    /// Played by the scheduler; otherwise written down.
    pub played: bool,
    /// By increasing relative deadline.
    pub tasks: Vec<String>,
    /// Releases of jobs.
    pub releases: Vec<(usize, Nanos)>,
    /// By time.
    pub bars: Vec<Bar>,
    /// How long the first task's job waits, and what the paper says that bounds it.
    pub blocking: Option<(Nanos, Nanos)>,
}

/// A task of a panel; times in milliseconds.
struct Actor {
    name: &'static str,
    deadline: u64,
    wcet: u64,
    swaps: bool,
    /// Relative to the panel's start.
    releases: Vec<i64>,
}

fn actor(name: &'static str, deadline: u64, wcet: u64, swaps: bool, releases: &[i64]) -> Actor {
    Actor {
        name,
        deadline,
        wcet,
        swaps,
        releases: releases.to_vec(),
    }
}

/// A situation; times in milliseconds.
struct Scene {
    name: &'static str,
    shows: &'static str,
    out: u64,
    in_: u64,
    capacity: u64,
    actors: Vec<Actor>,
}

/// From the simulation's start to the panel's: long enough for what must have happened before.
const PROLOGUE: i64 = 1_000;

/// The scene of Fig. 5: m = 100 each, x = 0, 50, 50, mᴰ = 250, and τ2 resident.
fn unnecessary_swaps() -> Scene {
    Scene {
        name: "5(b)",
        shows: "swap-in and execution are one region: tau3 runs before tau1 and tau2, which came \
                during its swap-in; tau2 is swapped in while tau1 runs",
        out: 4,
        in_: 6,
        capacity: 250,
        actors: vec![
            actor("tau1", 300, 12, false, &[8]),
            actor("tau2", 400, 8, true, &[-1_000, 8]),
            actor("tau3", 600, 8, true, &[0]),
        ],
    }
}

/// A scene of Fig. 6: `high` comes at `comes`, while `tau1` executes and something is done for
/// `tau2`, in `out` for the eviction and `in_` for the swap-in.
fn blocked(name: &'static str, shows: &'static str, out: u64, in_: u64, comes: i64) -> Scene {
    Scene {
        name,
        shows,
        out,
        in_,
        capacity: 350,
        actors: vec![
            actor("high", 300, 5, false, &[comes]),
            actor("tau1", 400, 12, false, &[0]),
            actor("tau2", 600, 8, true, &[1]),
            actor("tau3", 700, 8, true, &[-1_000]),
        ],
    }
}

/// Fig. 5: (a) written down, (b) played.
///
/// # Errors
///
/// If the run fails, which would be a bug.
pub fn figure_5() -> Result<Vec<Panel>, SimError> {
    let played = unnecessary_swaps().play()?;
    // τ1 preempts between the swap-in of τ3 and its execution, and then τ2, which needs the
    // memory: what was brought in leaves again unused, and comes back for τ3 in the end.
    let written = [
        (2, Kind::In, 4, 10),
        (1, Kind::Out, 0, 4),
        (0, Kind::Run, 10, 22),
        (2, Kind::Out, 22, 26),
        (1, Kind::In, 26, 32),
        (1, Kind::Run, 32, 40),
        (1, Kind::Out, 40, 44),
        (2, Kind::In, 44, 50),
        (2, Kind::Run, 50, 58),
    ];
    let shows = "without the region: the first swap-in of tau3 was in vain";
    Ok(vec![written_down("5(a)", shows, &played, &written), played])
}

/// Fig. 6: (a) written down, (b) to (d) played.
///
/// # Errors
///
/// If the run fails, which would be a bug.
pub fn figure_6() -> Result<Vec<Panel>, SimError> {
    let shows = "tau2 is not swapped in ahead of high, which came before that began";
    let played = blocked("6(b)", shows, 4, 14, 3).play()?;
    // The swap queue goes on with τ2 although `high` is first in the computation queue.
    let written = [
        (1, Kind::Run, 0, 12),
        (3, Kind::Out, 1, 5),
        (2, Kind::In, 5, 19),
        (2, Kind::Run, 19, 27),
        (0, Kind::Run, 27, 32),
    ];
    let shows = "without the rule: high waits for a swap-in that began after its release";
    let mut without = written_down("6(a)", shows, &played, &written);
    without.blocking = played.blocking.map(|(_, bound)| (Nanos(24 * MILLI), bound));
    // `high` comes when the swap-in of τ2 has just begun. That ends after the execution of τ1, or before.
    let shows = "high waits for the swap-in of tau2 and its execution";
    let long_swap_in = blocked("6(c)", shows, 4, 14, 6).play()?;
    let shows = "high waits for the executions of tau1 and of tau2";
    let short_swap_in = blocked("6(d)", shows, 1, 3, 3).play()?;
    Ok(vec![without, played, long_swap_in, short_swap_in])
}

fn written_down(
    name: &'static str,
    shows: &'static str,
    like: &Panel,
    bars: &[(usize, Kind, u64, u64)],
) -> Panel {
    let bar = |&(task, kind, from, to): &(usize, Kind, u64, u64)| Bar {
        from: Nanos(from * MILLI),
        to: Nanos(to * MILLI),
        task,
        kind,
    };
    let mut bars: Vec<Bar> = bars.iter().map(bar).collect();
    bars.sort_unstable();
    Panel {
        name,
        shows,
        played: false,
        bars,
        blocking: None,
        ..like.clone()
    }
}

impl Scene {
    fn play(&self) -> Result<Panel, SimError> {
        let scenario = self.scenario();
        let mut film = Film::default();
        observe(&scenario, &mut film)?;
        let origin = film.start + Nanos(PROLOGUE as u64 * MILLI);
        let since = |at: Time| at - origin;
        let mut bars: Vec<Bar> = film
            .bars
            .iter()
            .filter(|(from, ..)| *from >= origin)
            .map(|&(from, to, task, kind)| Bar {
                from: since(from),
                to: since(to),
                task,
                kind,
            })
            .collect();
        bars.sort_unstable();
        let releases = self.actors.iter().enumerate().flat_map(|(place, actor)| {
            let within = actor.releases.iter().filter(|at| **at >= 0);
            within.map(move |at| (place, Nanos(*at as u64 * MILLI)))
        });
        let mut panel = Panel {
            name: self.name,
            shows: self.shows,
            played: true,
            tasks: self.actors.iter().map(|a| String::from(a.name)).collect(),
            releases: releases.collect(),
            bars,
            blocking: None,
        };
        panel.blocking = self.blocking(&panel);
        Ok(panel)
    }

    /// From the release of the first task's job to its execution, and Eq. (2)'s bound.
    fn blocking(&self, panel: &Panel) -> Option<(Nanos, Nanos)> {
        let run = |bar: &&Bar| bar.task == 0 && bar.kind == Kind::Run;
        let began = panel.bars.iter().find(run)?.from;
        let (_, released) = panel.releases.iter().find(|(task, _)| *task == 0)?;
        let mut wcets: Vec<u64> = self.actors.iter().map(|a| a.wcet).collect();
        wcets.sort_unstable_by(|a, b| b.cmp(a));
        let region = self.actors.iter().filter(|a| a.swaps).map(|a| a.wcet).max();
        let bound = (wcets[0] + wcets[1])
            .max(self.in_ + region.unwrap_or(0))
            .max(self.out);
        Some((began.saturating_sub(*released), Nanos(bound * MILLI)))
    }

    fn scenario(&self) -> Scenario {
        let direction = |millis: u64| DirectionCost {
            base: Nanos::ZERO,
            // One nanosecond is the copy: 50 bytes at the highest speed.
            per_chunk: Nanos(millis * MILLI - 1),
            bytes_per_second: u64::MAX,
        };
        let config = Config {
            capacity: Bytes(self.capacity),
            chunk: Bytes(CHUNK),
            swap_cost: SwapCost {
                out: direction(self.out),
                in_: direction(self.in_),
            },
            best_effort_reserve: Bytes::ZERO,
            drain: Nanos::ZERO,
            sharing: Sharing::Exclusive,
            dispatch_latency: Nanos::ZERO,
            overrun: Overrun::Continue,
            undrained: Undrained::Beside,
            swap_share: Ppm(100_000),
            longest_wait: Nanos(150 * MILLI),
            idle_gap: Nanos(2 * MILLI),
            objective: Objective::Volume,
            test: Test::Theorem1,
            duplex: Ppm::ONE,
        };
        Scenario {
            config,
            tasks: self.actors.iter().map(Actor::task).collect(),
            capacity: Vec::new(),
            classes: Vec::new(),
            duration: Nanos(2 * PROLOGUE as u64 * MILLI),
            shortest_drain: Nanos::ZERO,
            ignores_aborts: false,
            checks: Checks::Every,
            seed: 0,
        }
    }
}

impl Actor {
    fn task(&self) -> SimTask {
        let timing = Timing {
            period: Nanos(self.deadline * MILLI),
            deadline: Nanos(self.deadline * MILLI),
            wcet: Nanos(self.wcet * MILLI),
        };
        let at = |release: &i64| Nanos((PROLOGUE + release) as u64 * MILLI);
        SimTask {
            spec: TaskSpec {
                name: String::from(self.name),
                class: Class::Realtime(timing),
                memory: MemoryProfile {
                    footprint: Bytes(2 * CHUNK),
                    swappable: Bytes(if self.swaps { CHUNK } else { 0 }),
                },
                weight: Weight::default(),
                idle_after: None,
            },
            arrivals: Arrivals::At(self.releases.iter().map(at).collect()),
            execution: Execution::Between {
                least: timing.wcet,
                most: timing.wcet,
            },
            arrives: None,
            departs: None,
        }
    }
}

/// What was seen of a run.
#[derive(Default)]
struct Film {
    start: Time,
    bars: Vec<(Time, Time, usize, Kind)>,
}

impl Observer for Film {
    fn start(&mut self, now: Time) {
        self.start = now;
    }

    fn job(&mut self, record: &Record) {
        let account = &record.account;
        if let Some(granted) = account.granted {
            let task = account.task.0 as usize;
            self.bars.push((granted, account.ended, task, Kind::Run));
        }
    }

    fn swap(&mut self, record: &SwapRecord) {
        let kind = match record.direction {
            Direction::Out => Kind::Out,
            Direction::In => Kind::In,
        };
        let task = record.task.0 as usize;
        self.bars.push((record.started, record.ended, task, kind));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(panel: &Panel) -> Vec<(usize, Kind, u64, u64)> {
        let millis = |bar: &Bar| (bar.task, bar.kind, bar.from.0 / MILLI, bar.to.0 / MILLI);
        panel.bars.iter().map(millis).collect()
    }

    #[test]
    fn figure_5b_is_what_the_paper_tells() {
        let panels = figure_5().unwrap();
        let expected = [
            (1, Kind::Out, 0, 4),
            (2, Kind::In, 4, 10),
            (2, Kind::Run, 10, 18),
            (2, Kind::Out, 18, 22),
            (0, Kind::Run, 18, 30),
            (1, Kind::In, 22, 28),
            (1, Kind::Run, 30, 38),
        ];
        assert_eq!(bars(&panels[1]), expected);
        // Two swap operations fewer, and everything is done earlier, with the same spans.
        let swaps = |panel: &Panel| panel.bars.iter().filter(|b| b.kind != Kind::Run).count();
        assert_eq!((swaps(&panels[0]), swaps(&panels[1])), (6, 4));
        assert!(!panels[0].played && panels[1].played);
    }

    #[test]
    fn figure_6_is_bounded_as_the_paper_tells() {
        let panels = figure_6().unwrap();
        let waited: Vec<_> = panels
            .iter()
            .map(|panel| {
                let (waited, bound) = panel.blocking.unwrap();
                assert_eq!(waited <= bound, panel.played, "{}", panel.name);
                waited.0 / MILLI
            })
            .collect();
        // (b): the rest of τ1. (c): the rest of the swap-in and τ2. (d): the rest of τ1 and τ2.
        assert_eq!(waited, [24, 9, 21, 17]);
    }

    #[test]
    fn what_is_written_down_has_the_spans_of_what_is_played() {
        for panels in [figure_5().unwrap(), figure_6().unwrap()] {
            for bar in &panels[0].bars {
                let alike = |other: &&Bar| other.task == bar.task && other.kind == bar.kind;
                if let Some(other) = panels[1].bars.iter().find(alike) {
                    assert_eq!(bar.to - bar.from, other.to - other.from, "{bar:?}");
                }
            }
        }
    }
}
