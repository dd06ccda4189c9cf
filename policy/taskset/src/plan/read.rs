//! The keys of a swap plan, and the rules that its values obey.

use rtswap_planner::graph::Graph;
use rtswap_policy::units::Ppm;

use super::steps::Steps;
use super::{GraphIdentity, PlanFile, Predicted};
use crate::calibration::fraction;
use crate::error::{Fault, TaskSetError};
use crate::number::{Decimal, Round};
use crate::rows::{ANY, Keys, Object, Part, Reader, shown};

const ROOT: Keys<11> = [
    ("version", "1"),
    ("graph", "{ … }"),
    ("planner", "\"advisor\""),
    ("seed", "1"),
    ("budget_bytes", "1073741824"),
    ("chunk_bytes", "2097152"),
    ("predicted", "{ … }"),
    ("residents", "[]"),
    ("compute", "[{ … }]"),
    ("swap_in", "[]"),
    ("swap_out", "[]"),
];

const GRAPH: Keys<4> = [
    ("name", "\"vgg-16\""),
    ("operators", "37"),
    ("tensors", "101"),
    ("digest", "\"0123456789abcdef\""),
];

const PREDICTED: Keys<5> = [
    ("time_ns", "1500000"),
    ("ideal_ns", "1200000"),
    ("share", "0.8"),
    ("peak_bytes", "1073741824"),
    ("unhidden_ns", "300000"),
];

/// Reads a swap plan for `graph`. Numbers of tensors and operators are the graph's, extents end within the budget, and no
/// step waits for more steps than a queue has; [`rtswap_planner::validator`] must prove the rest. Fails with at most 8
/// errors, in the order of the text, which has at most [`crate::MAX_TEXT`] bytes; with one error where the plan is for
/// another graph.
pub fn read(text: &str, graph: &Graph) -> Result<PlanFile, Vec<TaskSetError>> {
    let (mut reader, root) = Reader::open(text, &ROOT)?;
    let of = match reader.need(&root, "graph") {
        Some(part) => match identity(&mut reader, part, graph) {
            Ok(of) => of,
            // Of a plan for another graph all numbers are wrong.
            Err(other) => return Err(reader.only(&part, other)),
        },
        None => None,
    };
    let planner = reader.need(&root, "planner");
    let planner = planner.and_then(|part| reader.name(&part));
    let [seed, budget, chunk] =
        ["seed", "budget_bytes", "chunk_bytes"].map(|key| whole(&mut reader, &root, key));
    let predicted = reader.need(&root, "predicted");
    let predicted = predicted.and_then(|part| read_predicted(&mut reader, part));
    let mut steps = Steps::new(graph, budget.unwrap_or(u64::MAX), chunk.unwrap_or_default());
    steps.read(&mut reader, &root);
    if reader.is_sound() {
        steps.check_waits(&mut reader, &root);
    }
    let header = of.zip(planner).zip(seed).zip(predicted);
    reader.finish(
        header.map(|(((graph, planner), seed), predicted)| PlanFile {
            graph,
            planner,
            seed,
            predicted,
            plan: steps.into_plan(),
        }),
    )
}

/// Any whole number behind a key.
fn whole<'t, const N: usize>(
    reader: &mut Reader<'t>,
    object: &Object<'_, 't, N>,
    key: &'static str,
) -> Option<u64> {
    let part = reader.need(object, key)?;
    reader.whole(&part, &ANY)
}

/// Which graph the plan is for. Fails where it is not `graph`.
fn identity<'t>(
    reader: &mut Reader<'t>,
    part: Part<'_, 't>,
    graph: &Graph,
) -> Result<Option<GraphIdentity>, Fault> {
    let Some(object) = reader.object(part, &GRAPH) else {
        return Ok(None);
    };
    let name = reader.need(&object, "name");
    let name = name.and_then(|part| reader.name(&part));
    let found = reader.need(&object, "digest");
    let found = found.and_then(|part| digits(reader, &part));
    let own = GraphIdentity::new(name.clone().unwrap_or_default(), graph);
    if let Some(found) = found.filter(|found| *found != own.digest) {
        return Err(Fault::OtherGraph {
            name: own.name,
            found,
            expected: own.digest,
        });
    }
    let counts = [
        (
            "operators",
            "the number of the graph's operators",
            own.operators,
        ),
        ("tensors", "the number of the graph's tensors", own.tensors),
    ];
    for (key, what, expected) in counts {
        if let Some(part) = reader.need(&object, key)
            && let Some(found) = reader.whole(&part, &ANY)
            && found != expected as u64
        {
            let fault = Fault::Mismatch {
                found: found.to_string(),
                what,
                expected: expected.to_string(),
            };
            reader.note(&part, fault);
        }
    }
    Ok(name.and(found).map(|_| own))
}

/// A digest.
fn digits<'t>(reader: &mut Reader<'t>, part: &Part<'_, 't>) -> Option<u64> {
    let text = reader.text(part)?;
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() == 16 && text.bytes().all(is_digit) {
        return u64::from_str_radix(&text, 16).ok();
    }
    reader.note(part, Fault::NotADigest(shown(&text)));
    None
}

fn read_predicted<'t>(reader: &mut Reader<'t>, part: Part<'_, 't>) -> Option<Predicted> {
    let object = reader.object(part, &PREDICTED)?;
    let [time_ns, ideal_ns, peak_bytes, unhidden_ns] =
        ["time_ns", "ideal_ns", "peak_bytes", "unhidden_ns"].map(|key| whole(reader, &object, key));
    let share = reader.need(&object, "share");
    let predicted = Predicted {
        time_ns: time_ns?,
        ideal_ns: ideal_ns?,
        peak_bytes: peak_bytes?,
        unhidden_ns: unhidden_ns?,
    };
    check_share(reader, &share?, predicted.share())?;
    Some(predicted)
}

/// That a share is what the times say.
fn check_share<'t>(reader: &mut Reader<'t>, part: &Part<'_, 't>, share: Ppm) -> Option<()> {
    let found = reader.number(part)?;
    let decimal = Decimal::parse(found).ok();
    let is_share = |round| {
        let millionths = decimal.and_then(|decimal| decimal.times(1_000_000, round));
        millionths == Some(u64::from(share.0))
    };
    if is_share(Round::Up) && is_share(Round::Down) {
        return Some(());
    }
    let fault = Fault::Mismatch {
        found: shown(found),
        what: "the share that ideal_ns has of time_ns",
        expected: fraction(u64::from(share.0), 1_000_000),
    };
    reader.note(part, fault);
    None
}
