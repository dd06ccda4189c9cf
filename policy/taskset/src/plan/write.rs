//! The text of a swap plan: what [`super::read()`] reads from it is the same again.

use std::fmt::{self, Write};

use rtswap_planner::plan::{Place, Plan, Waits};
use serde_json::Value;

use super::PlanFile;
use crate::calibration::fraction;

/// The plan as JSON, one step on each line. The text depends on nothing but the plan: places that share extents in
/// [`Plan::extents`] have extents of their own in the text.
pub fn write(file: &PlanFile) -> String {
    let mut text = String::new();
    // Writing to a text does not fail.
    let _ = add(&mut text, file);
    text
}

fn add(text: &mut String, file: &PlanFile) -> fmt::Result {
    let (graph, predicted, plan) = (&file.graph, &file.predicted, &file.plan);
    writeln!(
        text,
        "{{\n\"version\": 1,\n\"graph\": {{\"name\":{},\"operators\":{},\"tensors\":{},\"digest\":\"{:016x}\"}},\n\
         \"planner\": {},\n\"seed\": {},\n\"budget_bytes\": {},\n\"chunk_bytes\": {},\n\
         \"predicted\": {{\"time_ns\":{},\"ideal_ns\":{},\"share\":{},\"peak_bytes\":{},\"unhidden_ns\":{}}},",
        quoted(&graph.name),
        graph.operators,
        graph.tensors,
        graph.digest,
        quoted(&file.planner),
        file.seed,
        plan.budget,
        plan.chunk,
        predicted.time_ns,
        predicted.ideal_ns,
        fraction(u64::from(predicted.share().0), 1_000_000),
        predicted.peak_bytes,
        predicted.unhidden_ns,
    )?;
    list(text, "residents", &plan.residents, |text, resident| {
        write!(text, "{{{}}}", Put(plan, *resident))
    })?;
    let mut at = 0;
    list(text, "compute", &plan.compute, |text, step| {
        write!(
            text,
            "{{\"operator\":{},{},\"outputs\":[",
            step.op,
            After(step.waits)
        )?;
        for (number, output) in plan.outputs_of(at).iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            write!(text, "{comma}{{{}}}", Put(plan, *output))?;
        }
        at += 1;
        text.write_str("]}")
    })?;
    list(text, "swap_in", &plan.swap_in, |text, step| {
        write!(text, "{{{},{}}}", Put(plan, step.place), After(step.waits))
    })?;
    list(text, "swap_out", &plan.swap_out, |text, step| {
        write!(text, "{{\"tensor\":{},{}}}", step.tensor, After(step.waits))
    })?;
    // The comma behind the last list.
    text.truncate(text.len() - 2);
    text.write_str("\n}\n")
}

/// A list with a row on each line.
fn list<T>(
    text: &mut String,
    name: &str,
    rows: &[T],
    mut row: impl FnMut(&mut String, &T) -> fmt::Result,
) -> fmt::Result {
    write!(text, "\"{name}\": [")?;
    for (number, it) in rows.iter().enumerate() {
        text.write_str(if number > 0 { ",\n" } else { "\n" })?;
        row(text, it)?;
    }
    text.write_str(if rows.is_empty() { "],\n" } else { "\n],\n" })
}

/// A place, as two keys of an object.
struct Put<'a>(&'a Plan, Place);

impl fmt::Display for Put<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(plan, place) = self;
        write!(f, "\"tensor\":{},\"extents\":[", place.tensor)?;
        for (number, extent) in plan.extents_of(*place).iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            write!(f, "{comma}[{},{}]", extent.offset, extent.bytes)?;
        }
        f.write_str("]")
    }
}

/// What a step waits for, as a key of an object.
struct After(Waits);

impl fmt::Display for After {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Waits([compute, swap_in, swap_out]) = self.0;
        write!(f, "\"waits\":[{compute},{swap_in},{swap_out}]")
    }
}

/// A text of JSON.
fn quoted(text: &str) -> Value {
    Value::from(text)
}
