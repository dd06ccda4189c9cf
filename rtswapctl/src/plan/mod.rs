//! `rtswapctl plan`: whether a task set meets every deadline, and with which swap volumes.
//!
//! `answer` is the plan as JSON has it, `text` the same for people, `profiled` a task set of profiles, `next` what is typed
//! after a plan for one.

mod answer;
mod next;
mod profiled;
mod text;

use std::path::Path;

use rtswap_policy::assign::{Assignment, Infeasible};
use rtswap_taskset::{Advice, TaskSet};

use crate::cli::{self, PlanOptions, TaskSetOptions};
use crate::failure::Failure;
use crate::{output, taskset};

use answer::Answer;

/// Prints the plan; [`Failure::No`] if there is none that holds.
pub(crate) fn plan(runtime_dir: Option<&Path>, options: &PlanOptions) -> Result<(), Failure> {
    let typed = typed(options)?;
    if typed.is_some() && options.set.on.is_some() {
        return Err(Failure::ProfiledElsewhere);
    }
    let profiled = typed
        .map(|tasks| profiled::gather(runtime_dir, tasks))
        .transpose()?;
    let (set, told) = match profiled {
        Some(profiled) => (profiled.set, Some((profiled.place, profiled.commands))),
        None => (taskset::read(&options.set)?.set, None),
    };
    let planned = Planned::new(set, &options.set);
    let json = options.set.json;
    match told {
        Some((place, commands)) => planned.print_profiled(&place, &commands, json, output::note)?,
        None => planned.print(json)?,
    }
    match planned.result {
        Ok(_) => Ok(()),
        Err(_) => Err(Failure::No),
    }
}

/// The tasks that are typed instead of a file.
fn typed(options: &PlanOptions) -> Result<Option<Vec<profiled::Typed>>, Failure> {
    let first = options.set.file.to_string_lossy();
    let Some(first) = profiled::typed(&first) else {
        return match options.more.first() {
            Some(more) => Err(Failure::Typed {
                text: more.clone(),
                why: "one file is planned, or tasks by their profiles: NAME:PERIOD".into(),
            }),
            None => Ok(None),
        };
    };
    let more = options.more.iter().map(|text| {
        profiled::typed(text).unwrap_or_else(|| {
            Err(Failure::Typed {
                text: text.clone(),
                why: "write a task as NAME:PERIOD, such as yolo:33ms".into(),
            })
        })
    });
    let tasks = std::iter::once(first).chain(more);
    tasks.collect::<Result<_, _>>().map(Some)
}

/// A task set with its plan.
pub(crate) struct Planned {
    pub(crate) set: TaskSet,
    pub(crate) test: rtswap_policy::admission::Test,
    pub(crate) objective: rtswap_policy::assign::Objective,
    pub(crate) result: Result<Assignment, Infeasible>,
    /// What would make one, where there is none.
    advice: Option<Advice>,
}

impl Planned {
    pub(crate) fn new(set: TaskSet, options: &TaskSetOptions) -> Self {
        use rtswap_policy::admission::Test;
        use rtswap_policy::assign::Objective;
        let test = match options.test {
            cli::Test::Theorem1 => Test::Theorem1,
            cli::Test::Demand => Test::Demand,
            cli::Test::Pipelined => Test::Pipelined,
        };
        let objective = match options.objective {
            cli::Objective::Time => Objective::Time,
            cli::Objective::Volume => Objective::Volume,
        };
        let result = set.plan(test, objective);
        let advice = result.is_err().then(|| set.advice(test, objective));
        Self {
            set,
            test,
            objective,
            result,
            advice,
        }
    }

    pub(crate) fn print(&self, json: bool) -> Result<(), Failure> {
        if json {
            output::json(&Answer::new(self))
        } else {
            output::text(&self.text(output::width()))
        }
    }

    /// The same of tasks by their profiles. JSON has no room for the `place`, which a file tells itself: it goes to `note`.
    fn print_profiled(
        &self,
        place: &str,
        commands: &[String],
        json: bool,
        note: impl FnOnce(&str),
    ) -> Result<(), Failure> {
        if json {
            note(place);
            return self.print(true);
        }
        output::text(&self.profiled_text(place, commands, output::width()))
    }

    /// The plan, or the last that was tried and fails the test; none if the memory cannot be had.
    pub(crate) fn assignment(&self) -> Option<&Assignment> {
        match &self.result {
            Ok(plan) => Some(plan),
            Err(Infeasible::NotSchedulable(tried)) => Some(tried),
            Err(_) => None,
        }
    }

    /// Why there is no plan, and what would make one.
    pub(crate) fn reason(&self) -> Option<String> {
        let infeasible = self.result.as_ref().err()?;
        let name = |place| self.name(place);
        let demands = self.set.demands();
        let why = infeasible.describe(&demands, name);
        let advice = self.advice.as_ref()?.describe(&demands, name);
        Some(format!("{why}; {advice}"))
    }

    pub(crate) fn name(&self, place: usize) -> &str {
        &self.set.tasks[place].name
    }
}

#[cfg(test)]
mod tests {
    use rtswap_taskset::{Format, parse};

    use super::*;

    #[test]
    fn what_profiles_are_planned_for_is_told_beside_json() {
        let options = TaskSetOptions {
            file: "yolo:33ms".into(),
            on: None,
            test: cli::Test::Demand,
            objective: cli::Objective::Time,
            json: true,
        };
        let example = include_str!("../../../examples/taskset.toml");
        let planned = Planned::new(parse(example, Format::Toml).unwrap(), &options);
        let noted = |json| {
            let mut noted = None;
            let note = |text: &str| noted = Some(text.to_owned());
            let printed = planned.print_profiled("Planned for GPU 0.", &[], json, note);
            printed.unwrap();
            noted
        };
        assert_eq!(noted(true).as_deref(), Some("Planned for GPU 0."));
        assert_eq!(noted(false), None);
    }
}
