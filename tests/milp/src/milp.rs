//! (1a)–(1d) of the paper as a mixed-integer linear program for HiGHS, with the costs per
//! operation where there are any. Times are in milliseconds.

use good_lp::solvers::highs::highs;
use good_lp::{
    Expression, ResolutionError, Solution, SolverModel, Variable, constraint, variable, variables,
};
use rtswap_policy::assign::Objective;

use crate::draw::Instance;

const MILLI: f64 = 1e6;
/// Within this HiGHS takes a constraint for met and a number for whole.
pub const TOLERANCE: f64 = 1e-9;
/// Seconds for one instance.
const MOST_SECONDS: f64 = 20.0;

/// What HiGHS says.
pub enum Answer {
    /// The optimum's volumes in chunks.
    Volumes(Vec<u64>),
    /// There are none.
    Infeasible,
    /// It gave up.
    Unknown,
}

/// Solves `instance`, with the left side of Eq. (3) at most `bound`.
pub fn solve(instance: &Instance, objective: Objective, bound: f64) -> Answer {
    let platform = &instance.platform;
    let chunk = platform.chunk;
    let ms = |nanos: u64| nanos as f64 / MILLI;
    let (out, in_) = (&platform.cost.out, &platform.cost.in_);
    let (a, b) = (ms(out.chunk_time(chunk).0), ms(in_.chunk_time(chunk).0));
    let (base_out, base_in) = (ms(out.base.0), ms(in_.base.0));
    let tasks = &instance.demands;
    let most = |place: usize| (tasks[place].memory.swappable.0 / chunk.0) as f64;
    let held: u64 = tasks
        .iter()
        .map(|d| d.memory.footprint.0.div_ceil(chunk.0))
        .sum();
    // In whole chunks: what is left of the GPU beyond them serves nobody.
    let overflow = held as f64 - (instance.capacity.0 / chunk.0) as f64;
    let charged = base_out > 0.0 || base_in > 0.0;

    let mut variables = variables!();
    let k: Vec<Variable> = (0..tasks.len())
        .map(|place| variables.add(variable().integer().min(0).max(most(place))))
        .collect();
    let y: Vec<Expression> = (0..tasks.len())
        .map(|_| {
            if charged {
                variables.add(variable().binary()).into()
            } else {
                Expression::from(0.0)
            }
        })
        .collect();
    let blocking = variables.add(variable().min(0));
    let deadline = |place: usize| ms(tasks[place].timing.deadline.0);
    let run = |place: usize| ms(tasks[place].timing.wcet.0);
    let swapping: Expression = (0..tasks.len())
        .map(|i| ((a + b) * k[i] + (3.0 * base_out + base_in) * y[i].clone()) / deadline(i))
        .sum();
    let total: Expression = k.iter().sum();
    let goal = match objective {
        // In thousandths, so that HiGHS's absolute gap is small beside it.
        Objective::Time => 1_000.0 * swapping.clone(),
        Objective::Volume => total.clone(),
    };
    let mut model = variables
        .minimise(goal)
        .using(highs)
        .set_time_limit(MOST_SECONDS)
        .set_threads(1)
        .set_option("mip_rel_gap", 0.0)
        .set_option("mip_abs_gap", TOLERANCE)
        .set_option("mip_feasibility_tolerance", TOLERANCE)
        .set_option("primal_feasibility_tolerance", TOLERANCE);
    for i in 0..tasks.len() {
        model.add_constraint(constraint!(total.clone() - k[i] >= overflow));
        if charged {
            model.add_constraint(constraint!(k[i] <= most(i) * y[i].clone()));
        }
        model.add_constraint(constraint!(
            blocking >= a * k[i] + 3.0 * base_out * y[i].clone()
        ));
        model.add_constraint(constraint!(
            blocking >= b * k[i] + base_in * y[i].clone() + run(i)
        ));
        for j in 0..i {
            model.add_constraint(constraint!(blocking >= run(i) + run(j)));
        }
    }
    let shortest = (0..tasks.len()).map(deadline).fold(f64::INFINITY, f64::min);
    let running: f64 = (0..tasks.len()).map(|i| run(i) / deadline(i)).sum();
    let bases = (tasks.len() as f64 - 1.0) * base_out / shortest;
    model.add_constraint(constraint!(
        blocking / shortest + swapping <= bound - running - bases
    ));
    match model.solve() {
        Ok(solution) => {
            let whole = |&k: &Variable| solution.value(k).round() as u64;
            Answer::Volumes(k.iter().map(whole).collect())
        }
        Err(ResolutionError::Infeasible) => Answer::Infeasible,
        Err(_) => Answer::Unknown,
    }
}
