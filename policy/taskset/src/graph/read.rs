//! The keys of a graph, and the rules that its values obey.

use rtswap_planner::graph::{Graph, Kind, Operator, Tensor, TensorId};
use rtswap_planner::machine::{Arithmetic, Roofline};

use super::{GraphFile, wrong};
use crate::error::TaskSetError;
use crate::rows::{ANY, Keys, MAX_ROWS, Part, Range, Reader};

const ROOT: Keys<4> = [
    ("version", "1"),
    ("name", "\"vgg-16\""),
    ("tensors", "[{ … }]"),
    ("operators", "[{ … }]"),
];

const TENSOR: Keys<3> = [
    ("name", "\"features.0.weight\""),
    ("kind", "\"activation\""),
    ("bytes", "4096"),
];

pub(super) const OPERATOR: Keys<9> = [
    ("name", "\"convolution\""),
    ("inputs", "[0, 1]"),
    ("outputs", "[2]"),
    ("updates", "[3]"),
    ("flops", "1000000"),
    ("bytes", "4096"),
    ("arithmetic", "\"dense\""),
    ("random", "true"),
    ("time_ns", "28000"),
];

/// The lists of tensors of an operator.
pub(super) const LISTS: [&str; 3] = ["inputs", "outputs", "updates"];

/// The size of a tensor.
const BYTES: Range = ("a number of bytes", 1..=u64::MAX);

const KINDS: [(&str, Kind); 6] = [
    ("parameter", Kind::Parameter),
    ("optimizer_state", Kind::OptimizerState),
    ("input", Kind::Input),
    ("activation", Kind::Activation),
    ("gradient", Kind::Gradient),
    ("scratch", Kind::Scratch),
];

const ARITHMETICS: [(&str, Arithmetic); 2] = [
    ("dense", Arithmetic::Dense),
    ("depthwise", Arithmetic::Depthwise),
];

/// Reads a graph. Where an operator has no `time_ns`, it takes the time of `roofline`. Fails with at most 8 errors, in the
/// order of the text, which has at most [`crate::MAX_TEXT`] bytes.
pub fn read_graph(text: &str, roofline: &Roofline) -> Result<GraphFile, Vec<TaskSetError>> {
    let (mut reader, root) = Reader::open(text, &ROOT)?;
    let name = reader.need(&root, "name");
    let name = name.and_then(|part| reader.name(&part));
    let (mut tensors, mut operators) = (Vec::new(), Vec::new());
    let mut count = MAX_ROWS;
    if let Some(list) = reader.need(&root, "tensors") {
        let rows = reader.each(&list, MAX_ROWS, "{ … }", |reader, _, row| {
            tensors.extend(tensor(reader, row));
        });
        count = rows.unwrap_or(count);
    }
    if let Some(list) = reader.need(&root, "operators") {
        reader.each(&list, MAX_ROWS, "{ … }", |reader, _, row| {
            operators.extend(operator(reader, row, count, roofline));
        });
    }
    let graph = if reader.is_sound() {
        let graph = Graph::new(tensors, operators);
        graph.map_err(|error| wrong::note(&mut reader, &root, error))
    } else {
        Err(())
    };
    let file = name.zip(graph.ok());
    reader.finish(file.map(|(name, graph)| GraphFile { name, graph }))
}

fn tensor<'t>(reader: &mut Reader<'t>, row: Part<'_, 't>) -> Option<Tensor> {
    let row = reader.object(row, &TENSOR)?;
    let name = match row.get("name") {
        Some(part) => reader.name(&part),
        None => Some(String::new()),
    };
    let kind = reader.need(&row, "kind");
    let kind = kind.and_then(|part| reader.word(&part, &KINDS));
    let bytes = reader.need(&row, "bytes");
    let bytes = bytes.and_then(|part| reader.whole(&part, &BYTES));
    Some(Tensor {
        name: name?,
        kind: kind?,
        bytes: bytes?,
    })
}

/// `count` is the number of tensors.
fn operator<'t>(
    reader: &mut Reader<'t>,
    row: Part<'_, 't>,
    count: usize,
    roofline: &Roofline,
) -> Option<Operator> {
    let row = reader.object(row, &OPERATOR)?;
    let name = reader.need(&row, "name");
    let name = name.and_then(|part| reader.name(&part));
    let [inputs, outputs, updates] = LISTS.map(|key| numbers(reader, row.get(key).as_ref(), count));
    let [flops, bytes] = ["flops", "bytes"].map(|key| match row.get(key) {
        Some(part) => reader.whole(&part, &ANY),
        None => Some(0),
    });
    let arithmetic = match row.get("arithmetic") {
        Some(part) => reader.word(&part, &ARITHMETICS),
        None => Some(Arithmetic::Dense),
    };
    let is_random = match row.get("random") {
        Some(part) => reader.truth(&part),
        None => Some(false),
    };
    let (flops, bytes, arithmetic) = (flops?, bytes?, arithmetic?);
    let time_ns = match row.get("time_ns") {
        Some(part) => reader.whole(&part, &ANY),
        None => Some(roofline.time_ns(arithmetic, flops, bytes)),
    };
    Some(Operator {
        name: name?,
        inputs,
        outputs,
        updates,
        flops,
        bytes,
        time_ns: time_ns?,
        is_random: is_random?,
    })
}

/// The tensors of a list; none where there is no list.
fn numbers<'t>(
    reader: &mut Reader<'t>,
    list: Option<&Part<'_, 't>>,
    count: usize,
) -> Vec<TensorId> {
    let mut numbers = Vec::new();
    let Some(list) = list else {
        return numbers;
    };
    let range = tensor_numbers(count);
    reader.each(list, count, "0", |reader, _, item| {
        let number = reader.whole(&item, &range);
        numbers.extend(number.map(|number| number as TensorId));
    });
    numbers
}

/// The numbers of `count` tensors, of which there is at least one.
pub(crate) fn tensor_numbers(count: usize) -> Range {
    let last = count.saturating_sub(1) as u64;
    ("the number of a tensor", 0..=last)
}
