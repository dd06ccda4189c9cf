//! Numbers that the graph or the plan does not have.

use rtswap_planner::validator::PlanError;

use super::{Proof, any, refused};

#[test]
fn operators_that_the_graph_does_not_have() {
    let is_expected = |error: &PlanError| matches!(error, PlanError::WrongOperator { .. });
    refused("an unknown operator", is_expected, |graph, plan, rng| {
        let beyond = [graph.operators().len() as u32, u32::MAX];
        let at = rng.below(plan.compute.len());
        plan.compute[at].op = beyond[rng.below(2)];
        Some(Proof::Certain)
    });
}

#[test]
fn outputs_of_another_operator() {
    let is_expected = |error: &PlanError| matches!(error, PlanError::WrongOperator { .. });
    refused(
        "outputs of another operator",
        is_expected,
        |_, plan, rng| {
            let makers = (1..plan.compute.len()).filter(|at| !plan.outputs_of(*at).is_empty());
            let at = any(&makers.collect::<Vec<_>>(), rng)?;
            let right = plan.compute[at].outputs;
            let wrong = [plan.outputs.len() as u32, u32::MAX, right.saturating_sub(1)];
            plan.compute[at].outputs = wrong[rng.below(3)];
            (plan.compute[at].outputs != right).then_some(Proof::Certain)
        },
    );
}

#[test]
fn tensors_that_the_graph_does_not_have() {
    let is_expected = |error: &PlanError| matches!(error, PlanError::WrongTensor { .. });
    refused("an unknown tensor", is_expected, |graph, plan, rng| {
        let beyond = [graph.tensors().len() as u32, u32::MAX];
        let copied = plan.swap_in.iter_mut().map(|swap| &mut swap.place.tensor);
        let mut all: Vec<_> = copied
            .chain(plan.swap_out.iter_mut().map(|swap| &mut swap.tensor))
            .collect();
        let count = all.len();
        let at = (count > 0).then(|| rng.below(count))?;
        *all[at] = beyond[rng.below(2)];
        Some(Proof::Certain)
    });
}

#[test]
fn residents_that_cannot_be_any() {
    let is_expected = |error: &PlanError| matches!(error, PlanError::WrongResident { .. });
    refused(
        "a resident that is not kept",
        is_expected,
        |graph, plan, rng| {
            let ids = (0..)
                .zip(graph.tensors())
                .filter(|(_, tensor)| !tensor.kind.is_kept());
            let others: Vec<u32> = ids
                .map(|(id, _)| id)
                .chain([graph.tensors().len() as u32, u32::MAX])
                .collect();
            let tensor = any(&others, rng)?;
            let at = (!plan.residents.is_empty()).then(|| rng.below(plan.residents.len()))?;
            plan.residents[at].tensor = tensor;
            Some(Proof::Certain)
        },
    );
}
