//! Base: unified memory with on-demand paging and LRU under non-preemptive EDF.
//!
//! Nothing bounds offline what such a job swaps, so its jobs are played: each touches all pages of
//! its task in the same order, a page that is not there comes in and pushes the least recently
//! used one out, and both copies are waited for. What cannot be swapped stays.

use rtswap_policy::assign::Demand;
use rtswap_policy::cost::SwapCost;
use rtswap_policy::units::{Bytes, Nanos, Time};

use super::lru::{Lru, Touch};

/// One job that was played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagedJob {
    /// Place of its task.
    pub task: usize,
    /// When it was asked for.
    pub release: Time,
    /// When it began.
    pub start: Time,
    /// When it ended.
    pub end: Time,
    /// What was brought in for it.
    pub moved_in: Bytes,
    /// What left for it.
    pub moved_out: Bytes,
}

#[derive(Clone, Debug)]
struct Program {
    demand: Demand,
    first: u32,
    pages: u32,
    next_release: Time,
}

/// Plays job after job, all tasks periodic and first released at once, after each has touched its
/// memory once. A program has one job at a time: what is due before that has ended is asked for
/// when it has.
#[derive(Clone, Debug)]
pub struct Paging {
    programs: Vec<Program>,
    lru: Lru,
    page: Bytes,
    cost: SwapCost,
    now: Time,
}

impl Paging {
    /// Tasks on a GPU of `capacity` whose memory moves in pages of `page`, each of which costs
    /// what `cost` says of a chunk. None if what cannot be swapped leaves no page, or if there are
    /// 2³² pages or more.
    pub fn new(demands: &[Demand], capacity: Bytes, page: Bytes, cost: SwapCost) -> Option<Self> {
        let fixed: Bytes = demands
            .iter()
            .map(|d| d.memory.footprint.saturating_sub(d.memory.swappable))
            .sum();
        let frames = capacity.saturating_sub(fixed).round_down(page).chunks(page);
        let mut programs = Vec::with_capacity(demands.len());
        let mut first = 0_u32;
        for demand in demands {
            let pages = u32::try_from(demand.memory.swappable.chunks(page)).ok()?;
            programs.push(Program {
                demand: *demand,
                first,
                pages,
                next_release: Time::ZERO,
            });
            first = first.checked_add(pages)?;
        }
        if frames == 0 && first > 0 {
            return None;
        }
        let mut lru = Lru::new(first, u32::try_from(frames).unwrap_or(u32::MAX));
        (0..first).for_each(|page| {
            lru.touch(page);
        });
        Some(Self {
            programs,
            lru,
            page,
            cost,
            now: Time::ZERO,
        })
    }

    /// Plays the next job; none without tasks.
    pub fn step(&mut self) -> Option<PagedJob> {
        let earliest = self.programs.iter().map(|p| p.next_release).min()?;
        self.now = self.now.max(earliest);
        let now = self.now;
        let (task, program) = self
            .programs
            .iter_mut()
            .enumerate()
            .filter(|(_, program)| program.next_release <= now)
            .min_by_key(|(_, program)| program.next_release + program.demand.timing.deadline)?;
        let (mut moved_in, mut moved_out) = (0, 0);
        for page in program.first..program.first + program.pages {
            match self.lru.touch(page) {
                Touch::Hit => {}
                Touch::Filled => moved_in += 1,
                Touch::Replaced => {
                    moved_in += 1;
                    moved_out += 1;
                }
            }
        }
        let took = self.cost.in_.chunks(moved_in, self.page, 1)
            + self.cost.out.chunks(moved_out, self.page, 1)
            + program.demand.timing.wcet;
        let release = program.next_release;
        self.now = now + took;
        program.next_release = self.now.max(release + program.demand.timing.period);
        Some(PagedJob {
            task,
            release,
            start: now,
            end: self.now,
            moved_in: Bytes(moved_in * self.page.0),
            moved_out: Bytes(moved_out * self.page.0),
        })
    }

    /// Until when has been played.
    pub const fn now(&self) -> Time {
        self.now
    }
}

impl PagedJob {
    /// Paging and computing, without waiting for others.
    pub fn latency(&self) -> Nanos {
        self.end - self.start
    }

    /// From release to end.
    pub fn response(&self) -> Nanos {
        self.end - self.release
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtswap_policy::cost::DirectionCost;
    use rtswap_policy::task::{MemoryProfile, Timing};

    /// A page is a byte and takes 2 ns in and 1 ns out.
    fn cost() -> SwapCost {
        let direction = |nanos| DirectionCost {
            base: Nanos::ZERO,
            per_chunk: Nanos(nanos),
            bytes_per_second: u64::MAX,
        };
        // One byte at the highest speed still counts as one nanosecond.
        SwapCost {
            out: direction(0),
            in_: direction(1),
        }
    }

    fn task(period: u64, wcet: u64, swappable: u64) -> Demand {
        Demand {
            timing: Timing {
                period: Nanos(period),
                deadline: Nanos(period),
                wcet: Nanos(wcet),
            },
            memory: MemoryProfile {
                footprint: Bytes(swappable + 1),
                swappable: Bytes(swappable),
            },
        }
    }

    fn play(demands: &[Demand], capacity: u64, jobs: usize) -> Vec<(usize, u64, u64, u64, u64)> {
        let mut paging = Paging::new(demands, Bytes(capacity), Bytes(1), cost()).unwrap();
        (0..jobs)
            .map(|_| {
                let job = paging.step().unwrap();
                let (start, end) = (job.start.0, job.end.0);
                (job.task, start, end, job.moved_in.0, job.moved_out.0)
            })
            .collect()
    }

    #[test]
    fn what_fits_is_never_moved() {
        let set = [task(100, 10, 4), task(200, 20, 4)];
        let expected = [
            (0, 0, 10, 0, 0),
            (1, 10, 30, 0, 0),
            (0, 100, 110, 0, 0),
            // At 200 both are released; the deadline of the first is 300, of the second 400.
            (0, 200, 210, 0, 0),
            (1, 210, 230, 0, 0),
        ];
        assert_eq!(play(&set, 10, 5), expected);
    }

    #[test]
    fn a_page_too_few_evicts_what_comes_next() {
        // Seven frames for eight pages. Touching all once in order leaves page 0 out. The first
        // task's walk then chases its own pages: each fault evicts the page that it wants next,
        // the last one (its page 3 left for page 2) the second task's first.
        let set = [task(100, 10, 4), task(200, 20, 4)];
        let jobs = play(&set, 9, 2);
        assert_eq!(jobs[0], (0, 0, 10 + 4 * 3, 4, 4));
        assert_eq!(jobs[1], (1, 22, 22 + 20 + 4 * 3, 4, 4));
    }

    #[test]
    fn what_cannot_be_swapped_takes_its_frames_for_ever() {
        let set = [task(100, 10, 1), task(200, 20, 1)];
        assert!(Paging::new(&set, Bytes(2), Bytes(1), cost()).is_none());
        let jobs = play(&set, 3, 3);
        // One frame for two pages: the second task's page is there first.
        assert_eq!(jobs[0], (0, 0, 13, 1, 1));
        assert_eq!(jobs[1], (1, 13, 36, 1, 1));
        assert_eq!(jobs[2], (0, 100, 113, 1, 1));
    }

    #[test]
    fn a_job_that_is_late_is_followed_by_one_that_comes_late() {
        let set = [task(10, 8, 0), task(10, 8, 0)];
        let mut paging = Paging::new(&set, Bytes(2), Bytes(1), cost()).unwrap();
        let jobs: Vec<_> = (0..4).filter_map(|_| paging.step()).collect();
        let times = |job: &PagedJob| (job.task, job.release.0, job.start.0, job.response().0);
        let seen: Vec<_> = jobs.iter().map(times).collect();
        assert_eq!(
            seen,
            [
                (0, 0, 0, 8),
                (1, 0, 8, 16),
                (0, 10, 16, 14),
                (1, 16, 24, 16)
            ]
        );
    }
}
