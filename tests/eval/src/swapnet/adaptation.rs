//! Fig. 18: a budget that changes while the model serves.

use rtswap_planner::blocks::{BlockPlanner, LookupTable, Partition};
use rtswap_planner::plan::Plan;

use super::models::Prepared;

/// Budgets for the table of a model, in bytes: from all its parameters down to `least`, by a fiftieth of them.
pub fn budgets(model: &Prepared, least: u64) -> impl Iterator<Item = u64> {
    let whole = model.costs.whole().bytes;
    let budgets = (0..50).map(move |at| whole - whole * at / 50);
    budgets.take_while(move |budget| *budget >= least)
}

/// The blocks of a model for a changed budget, and their plan: what the paper's adaptation makes, operations 2 and 3 of its
/// section 6.2. None where no entry of the table fits.
pub fn adapt(
    table: &LookupTable,
    planner: &BlockPlanner<'_>,
    budget: u64,
) -> Option<(Partition, Plan)> {
    let partition = table.at(budget)?.clone();
    let plan = planner.plan(&partition);
    Some((partition, plan))
}
