//! The place in the text where a graph cannot run. Places are not kept while a graph is read: a graph that cannot run is
//! read once more up to there.

use rtswap_planner::graph::{GraphError, TensorId};

use super::read::{LISTS, OPERATOR};
use crate::error::Fault;
use crate::rows::{ANY, Object, Part, Reader};

/// Notes `error` at the tensor or the operator that it names, or at the number of a tensor in the lists of an operator.
pub(super) fn note<'t, const N: usize>(
    reader: &mut Reader<'t>,
    root: &Object<'_, 't, N>,
    error: GraphError,
) {
    use GraphError as E;
    let (list, row, tensor) = match &error {
        E::TooMany { what, .. } | E::TooLarge { what } if matches!(*what, "tensors" | "bytes") => {
            ("tensors", None, None)
        }
        E::NoBytes { tensor } | E::NotMade { tensor } => ("tensors", Some(*tensor), None),
        E::NoSuchTensor { op, tensor, .. }
        | E::Twice { op, tensor }
        | E::MakesGiven { op, tensor }
        | E::TooEarly { op, tensor, .. }
        | E::SharedScratch { op, tensor }
        | E::MadeTwice {
            second: op, tensor, ..
        } => ("operators", Some(*op), Some(*tensor)),
        E::Cycle { ops } => ("operators", ops.first().copied(), None),
        _ => ("operators", None, None),
    };
    let fault = Fault::Graph(error);
    let Some(list) = root.get(list) else {
        return;
    };
    match (row.and_then(|row| list.item(row as usize)), tensor) {
        (Some(row), Some(tensor)) => note_number(reader, row, tensor, fault),
        (Some(row), None) => reader.note(&row, fault),
        (None, _) => reader.note(&list, fault),
    }
}

/// Notes `fault` at the number `tensor` of an operator, or at the operator.
fn note_number<'t>(reader: &mut Reader<'t>, row: Part<'_, 't>, tensor: TensorId, fault: Fault) {
    let Some(operator) = reader.object(row, &OPERATOR) else {
        return;
    };
    let lists = LISTS.map(|key| operator.get(key));
    let mut found = None;
    for list in lists.iter().flatten() {
        reader.each(list, usize::MAX, "0", |reader, index, item| {
            if reader.whole(&item, &ANY) == Some(u64::from(tensor)) {
                // Of a number that is there twice, the latter is wrong.
                found = Some((list, index));
            }
        });
    }
    match found.and_then(|(list, index)| list.item(index)) {
        Some(number) => reader.note(&number, fault),
        None => reader.note(&row, fault),
    }
}
