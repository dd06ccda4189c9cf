//! The residents and the three queues of a swap plan.

use rtswap_planner::graph::{Graph, OpId, TensorId};
use rtswap_planner::plan::{Compute, Extent, Place, Plan, SwapIn, SwapOut, Waits};

use crate::error::Fault;
use crate::graph::tensor_numbers;
use crate::rows::{Keys, Object, Part, Range, Reader};

/// The most extents of all places together: 64 MiB of memory.
const MAX_EXTENTS: usize = 1 << 22;

/// The most steps of a queue, and the most residents: more do not fit in a text.
const MAX_STEPS: usize = 1 << 22;

const TENSOR: (&str, &str) = ("tensor", "0");
const EXTENTS: (&str, &str) = ("extents", "[[0, 2097152]]");
const WAITS: (&str, &str) = ("waits", "[0, 0, 0]");

const PLACE: Keys<2> = [TENSOR, EXTENTS];
const COMPUTE: Keys<3> = [("operator", "0"), WAITS, ("outputs", "[{ … }]")];
const SWAP_IN: Keys<3> = [TENSOR, EXTENTS, WAITS];
const SWAP_OUT: Keys<2> = [TENSOR, WAITS];

/// Any number of steps.
const COUNT: Range = ("a number of steps", 0..=u32::MAX as u64);

/// A plan that is being read.
pub(super) struct Steps<'g> {
    graph: &'g Graph,
    plan: Plan,
}

impl<'g> Steps<'g> {
    pub(super) fn new(graph: &'g Graph, budget: u64, chunk: u64) -> Self {
        let plan = Plan {
            budget,
            chunk,
            ..Plan::default()
        };
        Self { graph, plan }
    }

    pub(super) fn into_plan(self) -> Plan {
        self.plan
    }

    /// Reads the residents and the queues.
    pub(super) fn read<'t, const N: usize>(
        &mut self,
        reader: &mut Reader<'t>,
        root: &Object<'_, 't, N>,
    ) {
        rows(reader, root, "residents", MAX_STEPS, |reader, row| {
            let row = reader.object(row, &PLACE)?;
            let place = self.place(reader, &row)?;
            self.plan.residents.push(place);
            Some(())
        });
        rows(reader, root, "compute", MAX_STEPS, |reader, row| {
            self.compute(reader, row)
        });
        rows(reader, root, "swap_in", MAX_STEPS, |reader, row| {
            let row = reader.object(row, &SWAP_IN)?;
            let (place, waits) = (self.place(reader, &row), waits(reader, &row));
            let (place, waits) = (place?, waits?);
            self.plan.swap_in.push(SwapIn { place, waits });
            Some(())
        });
        rows(reader, root, "swap_out", MAX_STEPS, |reader, row| {
            let row = reader.object(row, &SWAP_OUT)?;
            let (tensor, waits) = (self.tensor(reader, &row), waits(reader, &row));
            let (tensor, waits) = (tensor?, waits?);
            self.plan.swap_out.push(SwapOut { tensor, waits });
            Some(())
        });
    }

    fn compute<'t>(&mut self, reader: &mut Reader<'t>, row: Part<'_, 't>) -> Option<()> {
        let row = reader.object(row, &COMPUTE)?;
        let last = self.graph.operators().len().saturating_sub(1) as u64;
        let range = ("the number of an operator", 0..=last);
        let op = reader.need(&row, "operator");
        let op = op.and_then(|part| reader.whole(&part, &range));
        let waits = waits(reader, &row);
        let outputs = self.plan.outputs.len() as u32;
        let tensors = self.graph.tensors().len();
        rows(reader, &row, "outputs", tensors, |reader, row| {
            let row = reader.object(row, &PLACE)?;
            let place = self.place(reader, &row)?;
            self.plan.outputs.push(place);
            Some(())
        });
        self.plan.compute.push(Compute {
            op: op? as OpId,
            waits: waits?,
            outputs,
        });
        Some(())
    }

    fn tensor<'t, const N: usize>(
        &self,
        reader: &mut Reader<'t>,
        row: &Object<'_, 't, N>,
    ) -> Option<TensorId> {
        let part = reader.need(row, "tensor")?;
        let range = tensor_numbers(self.graph.tensors().len());
        let number = reader.whole(&part, &range)?;
        Some(number as TensorId)
    }

    /// A tensor and its extents, which are added to the plan's.
    fn place<'t, const N: usize>(
        &mut self,
        reader: &mut Reader<'t>,
        row: &Object<'_, 't, N>,
    ) -> Option<Place> {
        let tensor = self.tensor(reader, row);
        let part = reader.need(row, "extents")?;
        let budget = self.plan.budget;
        let ranges = [
            ("an offset in the budget", 0..=budget),
            ("a number of bytes in the budget", 1..=budget),
        ];
        let extents = &mut self.plan.extents;
        let first = extents.len() as u32;
        let most = MAX_EXTENTS - extents.len();
        reader.each(&part, most, "[0, 2097152]", |reader, _, item| {
            let Some([offset, bytes]) = reader.wholes(&item, &ranges) else {
                return;
            };
            if bytes > budget - offset {
                reader.note(&item, Fault::BeyondBudget { budget });
            }
            extents.push(Extent { offset, bytes });
        });
        Some(Place {
            tensor: tensor?,
            first,
            count: extents.len() as u32 - first,
        })
    }

    /// Notes where a step waits for more steps than a queue has. Everything else must be sound.
    pub(super) fn check_waits<'t, const N: usize>(
        &self,
        reader: &mut Reader<'t>,
        root: &Object<'_, 't, N>,
    ) {
        let plan = &self.plan;
        let counts = [plan.compute.len(), plan.swap_in.len(), plan.swap_out.len()];
        let compute = plan.compute.iter().map(|step| step.waits);
        let swap_in = plan.swap_in.iter().map(|step| step.waits);
        let swap_out = plan.swap_out.iter().map(|step| step.waits);
        check(reader, root.get("compute"), &COMPUTE, compute, counts);
        check(reader, root.get("swap_in"), &SWAP_IN, swap_in, counts);
        check(reader, root.get("swap_out"), &SWAP_OUT, swap_out, counts);
    }
}

/// Gives the rows of a list that must be there to `read`.
fn rows<'t, const N: usize>(
    reader: &mut Reader<'t>,
    object: &Object<'_, 't, N>,
    key: &'static str,
    most: usize,
    mut read: impl FnMut(&mut Reader<'t>, Part<'_, 't>) -> Option<()>,
) {
    if let Some(list) = reader.need(object, key) {
        reader.each(&list, most, "{ … }", |reader, _, row| {
            // None: what is wrong was noted.
            let _ = read(reader, row);
        });
    }
}

fn waits<'t, const N: usize>(reader: &mut Reader<'t>, row: &Object<'_, 't, N>) -> Option<Waits> {
    let part = reader.need(row, "waits")?;
    let counts = reader.wholes(&part, &[COUNT, COUNT, COUNT])?;
    Some(Waits(counts.map(|count| count as u32)))
}

/// Notes the steps of a list that wait for more steps than there are, which are `counts`. The text is read once more only
/// where there is such a step.
fn check<'t, const N: usize>(
    reader: &mut Reader<'t>,
    list: Option<Part<'_, 't>>,
    keys: &'static Keys<N>,
    mut waits: impl Iterator<Item = Waits> + Clone,
    counts: [usize; 3],
) {
    let is_wrong = |Waits(waits): Waits| (0..3).any(|at| waits[at] as usize > counts[at]);
    let Some(list) = list.filter(|_| waits.clone().any(is_wrong)) else {
        return;
    };
    let ranges: [Range; 3] = [
        ("a number of compute steps", 0..=counts[0] as u64),
        ("a number of swap_in steps", 0..=counts[1] as u64),
        ("a number of swap_out steps", 0..=counts[2] as u64),
    ];
    reader.each(&list, MAX_STEPS, "{ … }", |reader, _, row| {
        if waits.next().is_some_and(is_wrong)
            && let Some(step) = reader.object(row, keys)
            && let Some(part) = step.get("waits")
        {
            reader.wholes(&part, &ranges);
        }
    });
}
