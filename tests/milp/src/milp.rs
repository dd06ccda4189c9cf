//! (1a)–(1d) of the paper as a mixed-integer linear program, with the costs per operation where
//! there are any. Times are in milliseconds.

use std::time::Duration;

use rtswap_policy::assign::Objective;

use crate::draw::Instance;
use crate::program::Program;
use crate::protocol::Status;
use crate::solver::{Solver, SolverError};

const MILLI: f64 = 1e6;

/// HiGHS's answer for an instance.
pub(crate) enum Answer {
    /// The optimum's volumes in chunks.
    Volumes(Vec<u64>),
    /// No volumes are allowed.
    Infeasible,
    /// HiGHS gave up.
    Unknown,
}

/// Solves `instance` with the left side of Eq. (3) at most `bound`; also the time that HiGHS took.
pub(crate) fn solve(
    solver: &mut Solver,
    instance: &Instance,
    objective: Objective,
    bound: f64,
) -> Result<(Answer, Duration), SolverError> {
    let solved = solver.solve(&formulate(instance, objective, bound))?;
    let answer = match solved.status {
        Status::Optimal => {
            let chunks = &solved.values[..instance.demands.len()];
            Answer::Volumes(chunks.iter().map(|value| value.round() as u64).collect())
        }
        Status::Infeasible => Answer::Infeasible,
        Status::Unknown => Answer::Unknown,
    };
    Ok((answer, solved.time))
}

/// The columns: each task's swap volume k in chunks; with costs per operation also y of each task,
/// which is one where k is not zero; the blocking.
fn formulate(instance: &Instance, objective: Objective, bound: f64) -> Program {
    let platform = &instance.platform;
    let chunk = platform.chunk;
    let ms = |nanos: u64| nanos as f64 / MILLI;
    let (out, in_) = (&platform.cost.out, &platform.cost.in_);
    let (a, b) = (ms(out.chunk_time(chunk).0), ms(in_.chunk_time(chunk).0));
    let (base_out, base_in) = (ms(out.base.0), ms(in_.base.0));
    let demands = &instance.demands;
    let tasks = 0..demands.len();
    let most = |task: usize| (demands[task].memory.swappable.0 / chunk.0) as f64;
    let deadline = |task: usize| ms(demands[task].timing.deadline.0);
    let run = |task: usize| ms(demands[task].timing.wcet.0);

    let mut program = Program::default();
    let k: Vec<usize> = tasks
        .clone()
        .map(|task| program.column(Some(most(task)), true))
        .collect();
    let charged = base_out > 0.0 || base_in > 0.0;
    let y: Vec<usize> = tasks
        .clone()
        .filter(|_| charged)
        .map(|_| program.column(Some(1.0), true))
        .collect();
    let blocking = program.column(None, false);
    let per_operation = |task: usize, cost: f64| y.get(task).map(|&y| (y, cost));

    // Σ (Oᴼᵘᵗ+Oᴵⁿ)/D.
    let swapping: Vec<(usize, f64)> = tasks
        .clone()
        .flat_map(|task| {
            let base = (3.0 * base_out + base_in) / deadline(task);
            [(k[task], (a + b) / deadline(task))]
                .into_iter()
                .chain(per_operation(task, base))
        })
        .collect();
    match objective {
        // In thousandths, so that HiGHS's absolute gap is small beside it.
        Objective::Time => swapping
            .iter()
            .for_each(|&(column, share)| program.cost[column] = 1_000.0 * share),
        Objective::Volume => k.iter().for_each(|&k| program.cost[k] = 1.0),
    }

    let held: u64 = demands
        .iter()
        .map(|demand| demand.memory.footprint.0.div_ceil(chunk.0))
        .sum();
    // In whole chunks: no task can use what is left of the GPU beyond them.
    let overflow = held as f64 - (instance.capacity.0 / chunk.0) as f64;
    for i in tasks.clone() {
        let others = k.iter().filter(|&&other| other != k[i]);
        program.at_most(others.map(|&other| (other, -1.0)), -overflow);
        if let Some(y) = per_operation(i, -most(i)) {
            program.at_most([(k[i], 1.0), y], 0.0);
        }
        let blocked_by = |chunk: f64, base: f64| {
            let moved = [(blocking, -1.0), (k[i], chunk)];
            moved.into_iter().chain(per_operation(i, base))
        };
        program.at_most(blocked_by(a, 3.0 * base_out), 0.0);
        program.at_most(blocked_by(b, base_in), -run(i));
        for j in 0..i {
            program.at_most([(blocking, -1.0)], -(run(i) + run(j)));
        }
    }
    let shortest = tasks.clone().map(deadline).fold(f64::INFINITY, f64::min);
    let running: f64 = tasks.map(|task| run(task) / deadline(task)).sum();
    let bases = (demands.len() as f64 - 1.0) * base_out / shortest;
    let side = swapping.into_iter().chain([(blocking, 1.0 / shortest)]);
    program.at_most(side, bound - running - bases);
    program
}

#[cfg(test)]
mod tests {
    use rtswap_policy::admission::Test;
    use rtswap_policy::assign::assign;

    use super::*;
    use crate::compare::{cost, side};
    use crate::draw::Family;
    use crate::random::Random;

    const NEAR: f64 = 1e-9;

    /// The columns' values for `volumes` in chunks, with the least blocking that the rows allow.
    fn point(program: &Program, volumes: &[u64]) -> Vec<f64> {
        let mut x: Vec<f64> = volumes.iter().map(|&k| k as f64).collect();
        if program.cost.len() > 2 * volumes.len() {
            x.extend(volumes.iter().map(|&k| f64::from(u8::from(k > 0))));
        }
        x.push(0.0);
        let blocking = x.len() - 1;
        let least = (0..program.rows.bound.len())
            .filter(|&row| terms(program, row).any(|term| term == (blocking, -1.0)))
            .map(|row| excess(program, row, &x));
        x[blocking] = least.fold(0.0, f64::max);
        x
    }

    fn terms(program: &Program, row: usize) -> impl Iterator<Item = (usize, f64)> {
        let rows = &program.rows;
        let terms = rows.start[row]..rows.start[row + 1];
        terms.map(|at| (rows.index[at], rows.value[at]))
    }

    /// By how much a row's sum exceeds its bound.
    fn excess(program: &Program, row: usize, x: &[f64]) -> f64 {
        let sum: f64 = terms(program, row).map(|(column, c)| c * x[column]).sum();
        sum - program.rows.bound[row]
    }

    fn worst(program: &Program, volumes: &[u64]) -> f64 {
        let x = point(program, volumes);
        let rows = 0..program.rows.bound.len();
        rows.map(|row| excess(program, row, &x))
            .fold(f64::NEG_INFINITY, f64::max)
    }

    #[test]
    fn the_program_is_that_of_the_admission_test() {
        let mut random = Random(7);
        let mut solved = 0;
        for number in 0..600 {
            let instance = random.instance(Family::ALL[number % 3]);
            let Instance {
                platform,
                capacity,
                demands,
            } = &instance;
            for (objective, unit) in [(Objective::Time, 1e3), (Objective::Volume, 1.0)] {
                let plan = assign(Test::Theorem1, platform, *capacity, demands, objective);
                let Ok(plan) = plan else { continue };
                let chunks = |x: &rtswap_policy::units::Bytes| x.0 / platform.chunk.0;
                let mut volumes: Vec<u64> = plan.volumes.iter().map(chunks).collect();
                let program = formulate(&instance, objective, 1.0);
                assert!(worst(&program, &volumes) < NEAR, "{number}: {volumes:?}");

                let x = point(&program, &volumes);
                let last = program.rows.bound.len() - 1;
                let slack = 1.0 - side(&instance, &volumes);
                assert!((excess(&program, last, &x) + slack).abs() < NEAR);
                let least: f64 = program.cost.iter().zip(&x).map(|(c, x)| c * x).sum();
                let ours = unit * cost(&instance, objective, &volumes);
                assert!((least - ours).abs() <= NEAR * ours.max(1.0), "{number}");

                // The least sum of volumes: with a chunk less there is no room for some task.
                let swapped = volumes.iter().position(|&k| k > 0);
                if let (Objective::Volume, Some(task)) = (objective, swapped) {
                    volumes[task] -= 1;
                    assert!(worst(&program, &volumes) > 0.5, "{number}: {volumes:?}");
                }
                solved += 1;
            }
        }
        assert!(solved > 400, "{solved}");
    }
}
