//! Graphs and texts for tests.

use proptest::prelude::*;
use rtswap_planner::graph::{Graph, Kind, Operator, Tensor};
use rtswap_planner::machine::Roofline;
use serde_json::json;

use crate::graph::{GraphFile, read_graph};
use crate::{MAX_TEXT, TaskSetError};

/// A GPU with round numbers.
pub(crate) const GPU: Roofline = Roofline {
    dense: 10e12,
    depthwise: 100e9,
    bandwidth: 1e12,
    launch_ns: 20_000.0,
};

/// A graph with a value for each key.
pub(crate) const GOOD: &str = r#"{
"version": 1,
"name": "tiny",
"tensors": [
{"name":"weight","kind":"parameter","bytes":4096},
{"kind":"input","bytes":1024},
{"kind":"activation","bytes":2048},
{"kind":"gradient","bytes":4096},
{"kind":"scratch","bytes":512}
],
"operators": [
{"name":"convolution","inputs":[0,1],"outputs":[2,4],"flops":100000000,"bytes":7168},
{"name":"backward","inputs":[0,2],"outputs":[3],"flops":900000,"arithmetic":"depthwise","random":true},
{"name":"update","inputs":[3],"updates":[0],"time_ns":1000}
]
}
"#;

pub(crate) fn good() -> GraphFile {
    read_graph(GOOD, &GPU).unwrap()
}

/// One line for each error.
pub(crate) fn told<T: std::fmt::Debug>(result: Result<T, Vec<TaskSetError>>) -> String {
    let errors = result.unwrap_err();
    let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
    errors.join("\n")
}

/// A graph as its file has it.
pub(crate) fn written(file: &GraphFile) -> String {
    let rows = |rows: Vec<serde_json::Value>| {
        let rows: Vec<_> = rows.iter().map(ToString::to_string).collect();
        rows.join(",\n")
    };
    let tensor = |tensor: &Tensor| match &*tensor.name {
        "" => json!({ "kind": word(tensor.kind), "bytes": tensor.bytes }),
        name => json!({ "name": name, "kind": word(tensor.kind), "bytes": tensor.bytes }),
    };
    let operator = |operator: &Operator| {
        json!({
            "name": operator.name,
            "inputs": operator.inputs,
            "outputs": operator.outputs,
            "updates": operator.updates,
            "flops": operator.flops,
            "bytes": operator.bytes,
            "time_ns": operator.time_ns,
            "random": operator.is_random,
        })
    };
    format!(
        "{{\n\"version\": 1,\n\"name\": {},\n\"tensors\": [\n{}\n],\n\"operators\": [\n{}\n]\n}}\n",
        json!(file.name),
        rows(file.graph.tensors().iter().map(tensor).collect()),
        rows(file.graph.operators().iter().map(operator).collect()),
    )
}

const fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Parameter => "parameter",
        Kind::OptimizerState => "optimizer_state",
        Kind::Input => "input",
        Kind::Activation => "activation",
        Kind::Gradient => "gradient",
        Kind::Scratch => "scratch",
    }
}

/// A chain of so many operators with names and numbers as long as those of real models.
pub(crate) fn chain(operators: u32) -> GraphFile {
    let tensor = |number: u32| Tensor {
        name: String::new(),
        kind: match number {
            0 => Kind::Input,
            _ => Kind::Activation,
        },
        bytes: 822_083_584 + u64::from(number),
    };
    let operator = |number: u32| Operator {
        name: "convolution_backward".into(),
        inputs: (number.saturating_sub(3)..=number).collect(),
        outputs: vec![number + 1],
        updates: Vec::new(),
        flops: 11_098_128_384,
        bytes: 860_000_000,
        time_ns: 1_000_000,
        is_random: false,
    };
    let tensors = (0..=operators).map(tensor).collect();
    let operators = (0..operators).map(operator).collect();
    GraphFile {
        name: "chain".into(),
        graph: Graph::new(tensors, operators).unwrap(),
    }
}

/// A graph that can run: each operator makes one tensor and reads and updates others.
pub(crate) fn graph() -> impl Strategy<Value = GraphFile> {
    let kind = prop::sample::select(vec![Kind::Parameter, Kind::OptimizerState, Kind::Input]);
    let given = prop::collection::vec(("[a-z.\"é]{0,9}", kind, 1_u64..1 << 50), 1..6);
    let made = prop::collection::vec(
        (
            "[ -~]{0,9}[a-z]",
            1_u64..1 << 50,
            any::<bool>(),
            prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..4),
            (0_u64..1 << 50, 0_u64..1 << 50, 0_u64..1 << 50),
            any::<bool>(),
        ),
        1..9,
    );
    ("[ -~é]{0,9}[a-z]", given, made).prop_map(|(name, given, made)| {
        let tensor = |(name, kind, bytes)| Tensor { name, kind, bytes };
        let mut tensors: Vec<_> = given.into_iter().map(tensor).collect();
        let mut operators = Vec::new();
        for (name, bytes, is_gradient, used, (flops, moved, time_ns), is_random) in made {
            let mut used: Vec<_> = used
                .into_iter()
                .map(|(index, is_update)| (index.index(tensors.len()) as u32, is_update))
                .collect();
            used.sort_unstable();
            used.dedup_by_key(|(tensor, _)| *tensor);
            let (updates, inputs): (Vec<_>, Vec<_>) = used.into_iter().partition(|(_, it)| *it);
            let kind = if is_gradient {
                Kind::Gradient
            } else {
                Kind::Activation
            };
            operators.push(Operator {
                name,
                inputs: inputs.into_iter().map(|(tensor, _)| tensor).collect(),
                outputs: vec![tensors.len() as u32],
                updates: updates.into_iter().map(|(tensor, _)| tensor).collect(),
                flops,
                bytes: moved,
                time_ns,
                is_random,
            });
            let name = String::new();
            tensors.push(Tensor { name, kind, bytes });
        }
        let graph = Graph::new(tensors, operators).unwrap();
        GraphFile { name, graph }
    })
}

/// Texts at the limit, each of which costs a reader as much as possible of something, and their names.
pub(crate) fn hostile(list: &str) -> Vec<(&'static str, String)> {
    let fill = |head: &str, unit: &str, tail: &str| {
        let left = MAX_TEXT - head.len() - tail.len();
        let mut text = String::with_capacity(MAX_TEXT);
        text.push_str(head);
        text.extend(std::iter::repeat_n(unit, left / unit.len()));
        text.push_str(tail);
        text
    };
    let rows = format!("{{\"version\":1,\"{list}\":[");
    vec![
        ("depth", fill("", "[", "")),
        ("deep objects", fill("", "{\"a\":", "")),
        ("blanks", fill("{\"version\":1", "\n", "}")),
        ("keys", fill("{\"version\":1", ",\"\":0", "}")),
        (
            "the same key",
            fill("{\"version\":1", ",\"version\":1", "}"),
        ),
        ("one key", fill("{\"version\":1,\"", "k", "\":0}")),
        ("one number", fill(&rows, "9", "]}")),
        (
            "one escaped text",
            fill("{\"version\":1,\"name\":\"", "\\u0041", "\"}"),
        ),
        ("empty rows", fill(&rows, "{},", "{}]}")),
        ("rows that are numbers", fill(&rows, "0,", "0]}")),
        (
            "long lists",
            fill(&format!("{rows}{{\"inputs\":["), "0,", "0]}]}"),
        ),
        ("deep rows", fill(&rows, "[", "")),
        (
            "a number of zeros",
            fill(&format!("{rows}{{\"bytes\":0."), "0", "}]}"),
        ),
        (
            "two bytes a character",
            fill("{\"version\":1,\"name\":\"", "é", "\"}"),
        ),
    ]
}
