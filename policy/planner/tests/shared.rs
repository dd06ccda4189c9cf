//! Several jobs on one GPU: runs worked out by hand, and random mixes of jobs that start and end.

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use common::graphs::{operator, random, tensor, trace};
use common::plans::Planner;
use rtswap_planner::advisor::Rng;
use rtswap_planner::graph::{Graph, Kind};
use rtswap_planner::machine::{Director, Gpu, Iteration, Link, Sharer, Then, run, share};
use rtswap_planner::plan::Plan;
use rtswap_planner::stays::{Gap, Stays};
use rtswap_planner::tensile::{self, Estimates, Job, Settings};
use rtswap_planner::validator::validate;

/// Ten bytes a nanosecond, and five nanoseconds for each copy.
const LINK: Link = Link {
    alone: 10.0,
    duplex: 10.0,
    latency_ns: 5.0,
};

const EVEN: Gpu = Gpu {
    link: LINK,
    noise: 0.0,
    seed: 1,
};

/// What is kept of an iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    job: usize,
    began_ns: u64,
    ended_ns: u64,
    passive: u32,
    passive_ns: u64,
    times: Vec<u64>,
}

/// Gives each job its plans, one for each iteration, and keeps what it is told.
struct Script {
    plans: Vec<Vec<Plan>>,
    seen: Vec<Seen>,
}

impl Director for Script {
    fn launch(&mut self, job: usize, _: u64) -> Plan {
        self.plans[job][0].clone()
    }

    fn follow(&mut self, iteration: &Iteration<'_>) -> Then {
        self.seen.push(Seen {
            job: iteration.job,
            began_ns: iteration.began_ns,
            ended_ns: iteration.ended_ns,
            passive: iteration.passive,
            passive_ns: iteration.passive_ns,
            times: iteration.times.to_vec(),
        });
        let plans = &self.plans[iteration.job];
        let at = iteration.number as usize;
        match plans.get(at + 1) {
            None => Then::End,
            Some(next) if *next == plans[at] => Then::Continue,
            Some(next) => Then::Change(next.clone()),
        }
    }
}

/// Runs jobs, each with its launch and its plans.
fn script(jobs: &[(&Graph, u64, Vec<Plan>)], gpu: &Gpu) -> (u64, Vec<Seen>) {
    let sharers: Vec<Sharer<'_>> = jobs
        .iter()
        .map(|(graph, begins_ns, _)| Sharer {
            graph,
            begins_ns: *begins_ns,
        })
        .collect();
    let mut script = Script {
        plans: jobs.iter().map(|(_, _, plans)| plans.clone()).collect(),
        seen: Vec::new(),
    };
    for (graph, _, plans) in jobs {
        for plan in plans {
            validate(graph, plan).unwrap();
        }
    }
    let total = share(&sharers, gpu, &mut script).expect("proven plans do not deadlock");
    (total, script.seen)
}

/// A plan in which nothing swaps but the input.
fn whole(graph: &Graph) -> Plan {
    let stays = Stays::new(graph, trace(graph), 1);
    stays.plan(stays.peak().1).unwrap()
}

/// An operator of 100 ns that reads an input of 1,000 bytes, and one that reads what it made.
fn chain() -> Graph {
    let tensors = vec![tensor(Kind::Input, 1000), tensor(Kind::Activation, 2000)];
    let operators = vec![operator(&[0], &[], &[1], 100), operator(&[1], &[], &[], 60)];
    Graph::new(tensors, operators).unwrap()
}

/// Only operators, one after the other, of these times.
fn busy(times: &[u64]) -> Graph {
    let tensors = vec![tensor(Kind::Activation, 1)];
    let mut operators = vec![operator(&[], &[], &[0], times[0])];
    operators.extend(
        times[1..]
            .iter()
            .map(|time| operator(&[0], &[], &[], *time)),
    );
    Graph::new(tensors, operators).unwrap()
}

#[test]
fn an_operator_waits_for_its_input() {
    let graph = chain();
    let plan = whole(&graph);
    let (total, seen) = script(&[(&graph, 7, vec![plan.clone(), plan])], &EVEN);
    // The input takes 5 + 100 ns, the operators 160.
    assert_eq!(total, 7 + 2 * 265);
    let passive: Vec<_> = seen
        .iter()
        .map(|one| (one.passive, one.passive_ns))
        .collect();
    assert_eq!(passive, [(1, 105), (1, 105)]);
    assert_eq!((seen[1].began_ns, seen[1].ended_ns), (272, 537));
    assert_eq!(seen[1].times, [100, 60]);
}

/// The copy out of one tensor and the copy in of another do not overlap, as they do with an engine for each direction.
#[test]
fn one_copy_is_made_at_a_time() {
    let tensors = vec![
        tensor(Kind::Activation, 1000),
        tensor(Kind::Input, 2000),
        tensor(Kind::Input, 500),
    ];
    let operators = vec![
        operator(&[], &[], &[0], 100),
        operator(&[1], &[], &[], 10),
        operator(&[2, 0], &[], &[], 100),
    ];
    let graph = Graph::new(tensors, operators).unwrap();
    let mut stays = Stays::new(&graph, trace(&graph), 1);
    // The activation leaves behind the first operator and comes with the third; the second input comes with the second.
    stays.set(
        0,
        1,
        Gap::Swaps {
            leaves: 2,
            comes: 3,
        },
    );
    stays.set(
        2,
        0,
        Gap::Swaps {
            leaves: 0,
            comes: 2,
        },
    );
    let plan = stays.plan(stays.peak().1).unwrap();
    let alone = run(&graph, &plan, LINK).unwrap();
    let (total, seen) = script(&[(&graph, 0, vec![plan])], &EVEN);
    // In 0 to 205, out 205 to 310, in 310 to 365 and 365 to 470. The second operator runs at 205, the third at 470.
    assert_eq!(total, 570);
    assert_eq!((seen[0].passive, seen[0].passive_ns), (2, 105 + 255));
    // Both directions at once: out 100 to 205, in 205 to 260 and 260 to 365.
    assert_eq!(alone.total_ns, 465);
}

#[test]
fn operators_share_the_compute_engine_evenly() {
    let graph = busy(&[100]);
    let plan = whole(&graph);
    let jobs = [(&graph, 0, vec![plan.clone()]), (&graph, 50, vec![plan])];
    let (total, seen) = script(&jobs, &EVEN);
    // Half of the first is done at 50; its other half and half of the second take 100; the rest of the second 50.
    assert_eq!(total, 200);
    let ends: Vec<_> = seen
        .iter()
        .map(|one| (one.job, one.ended_ns, one.times[0]))
        .collect();
    assert_eq!(ends, [(0, 150, 150), (1, 200, 150)]);
}

#[test]
fn the_link_serves_first_what_was_ready_first() {
    let graph = chain();
    let plan = whole(&graph);
    let jobs = [
        (&graph, 2, vec![plan.clone()]),
        (&graph, 1, vec![plan.clone()]),
        (&graph, 0, vec![plan]),
    ];
    let (_, seen) = script(&jobs, &EVEN);
    let jobs: Vec<_> = seen.iter().map(|one| one.job).collect();
    assert_eq!(jobs, [2, 1, 0]);
    // Each waits for the copies of those before it.
    let waited: Vec<_> = seen.iter().map(|one| one.passive_ns).collect();
    assert_eq!(waited, [105, 209, 313]);
}

#[test]
fn copies_that_are_ready_at_once_come_in_first() {
    let tensors = vec![tensor(Kind::Parameter, 1000), tensor(Kind::Input, 500)];
    let operators = vec![operator(&[1], &[], &[], 100), operator(&[], &[0], &[], 100)];
    let graph = Graph::new(tensors, operators).unwrap();
    let mut stays = Stays::new(&graph, trace(&graph), 1);
    // The parameter changed in the iteration before.
    stays.set(
        0,
        0,
        Gap::Swaps {
            leaves: 1,
            comes: 2,
        },
    );
    // There is room for both, so that the input need not wait.
    let plan = stays.plan(2 * stays.peak().1).unwrap();
    let (_, seen) = script(&[(&graph, 0, vec![plan])], &EVEN);
    // The parameter came before the iteration. In to 55, out to 160, in to 265.
    assert_eq!((seen[0].began_ns, seen[0].ended_ns), (105, 105 + 365));
    assert_eq!((seen[0].passive, seen[0].passive_ns), (2, 55 + 110));
}

#[test]
fn residents_move_with_the_plan() {
    // A parameter that its operator changes, one that it reads, and one that stays resident.
    let tensors = [1000, 500, 200].map(|bytes| tensor(Kind::Parameter, bytes));
    let graph = Graph::new(tensors.to_vec(), vec![operator(&[1, 2], &[0], &[], 100)]).unwrap();
    let resident = whole(&graph);
    let mut stays = Stays::new(&graph, trace(&graph), 1);
    stays.set_absent(0, 2, 1);
    stays.set_absent(1, 2, 1);
    let absent = stays.plan(stays.peak().1).unwrap();
    let plans = vec![resident.clone(), absent, resident];
    let (total, seen) = script(&[(&graph, 0, plans)], &EVEN);
    let spans: Vec<_> = seen
        .iter()
        .map(|one| (one.began_ns, one.ended_ns))
        .collect();
    // Three in, and 100 ns; one out, as host memory has the other; two in, 100 ns, and one out; two in, and 100 ns; one out.
    assert_eq!(spans, [(185, 285), (390, 755), (915, 1015)]);
    assert_eq!(total, 1120);
}

#[test]
fn noise_is_of_the_job_and_the_iteration() {
    let graph = busy(&[10_000; 400]);
    let plan = whole(&graph);
    // The second job runs alone as well.
    let jobs = [
        (&graph, 0, vec![plan.clone(), plan.clone()]),
        (&graph, 100_000_000, vec![plan]),
    ];
    let with = |seed| {
        let gpu = Gpu {
            noise: 0.2,
            seed,
            ..EVEN
        };
        script(&jobs, &gpu).1
    };
    let seen = with(1);
    assert_eq!(seen, with(1));
    assert_ne!(seen, with(2));
    assert_ne!(seen[0].times, seen[1].times);
    assert_ne!(seen[0].times, seen[2].times);
    for one in &seen {
        let (least, most) = (
            one.times.iter().min().unwrap(),
            one.times.iter().max().unwrap(),
        );
        assert!(
            (7_999..8_100).contains(least) && (11_900..12_002).contains(most),
            "{least} {most}"
        );
        let mean = one.times.iter().sum::<u64>() / 400;
        assert!((9_800..10_200).contains(&mean), "{mean}");
    }
}

/// Without copies out there is nothing that the one link could keep waiting.
#[test]
fn one_job_that_copies_in_only_runs_as_alone() {
    let mut compared = 0;
    for seed in 0..2_000 {
        let mut rng = Rng::new(seed);
        let operators = 1 + rng.below(40);
        let graph = random(&mut rng, operators);
        let planner = Planner::ALL[rng.below(Planner::ALL.len())];
        let Some(plan) = planner.plan(&graph, &mut rng) else {
            continue;
        };
        let alone = run(&graph, &plan, LINK).unwrap();
        let (_, seen) = script(&[(&graph, 0, vec![plan.clone()])], &EVEN);
        let total = seen[0].ended_ns - seen[0].began_ns;
        // Instants are rounded where they are told.
        if plan.swap_out.is_empty() {
            assert!(total.abs_diff(alone.total_ns) <= 1, "seed {seed}");
            compared += 1;
        }
        assert!(seen[0].passive_ns <= alone.total_ns + alone.swap_out_ns + alone.swap_in_ns);
    }
    assert!(compared > 200, "{compared}");
}

/// Plans for all jobs whenever one starts, ends or drifts, and counts the work that it orders.
struct Replanner<'a> {
    graphs: &'a [Graph],
    settings: Settings,
    /// The iterations of each job.
    iterations: Vec<u32>,
    estimates: Vec<Option<Estimates>>,
    pending: Vec<Option<Plan>>,
    current: Vec<Plan>,
    /// The least and the most that all iterations and copies take on an engine of their own, in nanoseconds.
    compute: (f64, f64),
    copies_ns: f64,
    moves_ns: f64,
    plans: u32,
    changes: u32,
}

impl Replanner<'_> {
    fn replan(&mut self) {
        let live: Vec<usize> = (0..self.graphs.len())
            .filter(|job| self.estimates[*job].is_some())
            .collect();
        let jobs: Vec<Job<'_>> = live
            .iter()
            .map(|job| Job {
                graph: &self.graphs[*job],
                schedule: tensile::early(&self.graphs[*job]),
                times: self.estimates[*job].as_ref().unwrap().times(),
                most: 1.0,
            })
            .collect();
        for (job, stays) in live.iter().zip(tensile::plan(&jobs, &self.settings)) {
            let plan = stays.plan(stays.peak().1).unwrap();
            validate(&self.graphs[*job], &plan).unwrap();
            self.pending[*job] = Some(plan);
            self.plans += 1;
        }
    }

    fn copies(&self, job: usize, ids: impl Iterator<Item = u32>) -> f64 {
        let bytes = ids.map(|id| self.graphs[job].tensor(id).bytes as f64);
        bytes
            .map(|bytes| LINK.latency_ns + bytes / LINK.alone)
            .sum()
    }

    /// All residents may move, in either direction.
    fn take(&mut self, job: usize, plan: &Plan) {
        let old = self.current[job].residents.iter();
        let moved = old.chain(&plan.residents).map(|place| place.tensor);
        self.moves_ns += self.copies(job, moved);
        self.current[job] = plan.clone();
    }
}

impl Director for Replanner<'_> {
    fn launch(&mut self, job: usize, _: u64) -> Plan {
        let times: Vec<u64> = self.graphs[job]
            .operators()
            .iter()
            .map(|op| op.time_ns)
            .collect();
        self.estimates[job] = Some(Estimates::new(&times));
        self.replan();
        let plan = self.pending[job].take().unwrap();
        self.take(job, &plan);
        plan
    }

    fn follow(&mut self, iteration: &Iteration<'_>) -> Then {
        let job = iteration.job;
        let plan = &self.current[job];
        let ids = plan.swap_in.iter().map(|swap| swap.place.tensor);
        let ids = ids.chain(plan.swap_out.iter().map(|swap| swap.tensor));
        self.copies_ns += self.copies(job, ids);
        let ns = iteration.ended_ns - iteration.began_ns;
        assert!(iteration.passive_ns <= ns);
        let jobs = self.graphs.len() as f64;
        for (op, took) in self.graphs[job].operators().iter().zip(iteration.times) {
            let (own, took) = (op.time_ns as f64, *took as f64);
            assert!(
                took >= 0.8 * own - 1.0 && took <= 1.2 * jobs * own + 1.0,
                "{took} of {own}"
            );
        }
        let alone: u64 = plan
            .compute
            .iter()
            .map(|step| self.graphs[job].operator(step.op).time_ns)
            .sum();
        let least = 0.8 * alone as f64;
        assert!(ns as f64 >= least - 1.0);
        self.compute.0 += least;
        self.compute.1 += 1.2 * alone as f64;
        if iteration.number + 1 == self.iterations[job] {
            self.estimates[job] = None;
            self.replan();
            self.take(job, &Plan::default());
            return Then::End;
        }
        let estimates = self.estimates[job].as_mut().unwrap();
        if estimates.record(iteration.times) {
            self.replan();
        }
        match self.pending[job].take() {
            None => Then::Continue,
            Some(plan) => {
                self.take(job, &plan);
                self.changes += 1;
                Then::Change(plan)
            }
        }
    }
}

#[test]
fn random_mixes_of_jobs_that_start_and_end_run_their_proven_plans() {
    const MIXES: u64 = 1_200;
    let (mut plans, mut changes, mut met) = (0, 0, 0);
    for seed in 0..MIXES {
        let mut rng = Rng::new(seed);
        let graphs: Vec<Graph> = (0..=rng.below(4))
            .map(|_| {
                let operators = 1 + rng.below(40);
                random(&mut rng, operators)
            })
            .collect();
        let mut begins = |graph| Sharer {
            graph,
            begins_ns: rng.below(2_000_000) as u64,
        };
        let sharers: Vec<Sharer<'_>> = graphs.iter().map(&mut begins).collect();
        let count = graphs.len();
        let mut planner = Replanner {
            graphs: &graphs,
            settings: Settings {
                chunk: 4096,
                link: LINK,
                is_across: rng.below(4) > 0,
                memory: (rng.below(4) == 0).then_some(1 << 20),
            },
            iterations: (0..count).map(|_| 1 + rng.below(6) as u32).collect(),
            estimates: vec![None; count],
            pending: vec![None; count],
            current: vec![Plan::default(); count],
            compute: (0.0, 0.0),
            copies_ns: 0.0,
            moves_ns: 0.0,
            plans: 0,
            changes: 0,
        };
        let gpu = Gpu {
            noise: 0.2,
            seed,
            ..EVEN
        };
        let total = share(&sharers, &gpu, &mut planner);
        let total = total.expect("proven plans do not deadlock") as f64;
        let last = sharers.iter().map(|one| one.begins_ns).max().unwrap() as f64;
        // Neither engine does more than one thing at a time, and one of them always works.
        assert!(total + 1.0 >= planner.compute.0 && total + 1.0 >= planner.copies_ns);
        let all = planner.compute.1 + planner.copies_ns + planner.moves_ns;
        assert!(
            total <= last + all + 1.0,
            "seed {seed}: {total} of {last} + {all}"
        );
        plans += planner.plans;
        changes += planner.changes;
        met += u32::from(planner.changes > 0 && count > 1);
    }
    println!("{plans} plans, {changes} changes");
    assert!(
        plans > 5_000 && changes > 1_000 && met > 500,
        "{plans} {changes} {met}"
    );
}
