//! `rtswapctl plan`: whether a task set meets every deadline, and with which swap volumes.
//!
//! `answer` is the plan as JSON has it, `text` the same for people, `profiled` a task set of profiles, `next` what is typed
//! after a plan for one. `budgets` plans the tasks that have graphs, `in_job` tells people of those.

mod answer;
mod budgets;
mod in_job;
mod next;
mod profiled;
mod text;

use std::path::{Path, PathBuf};

use rtswap_policy::admission::Test;
use rtswap_policy::assign::{Assignment, Infeasible, Objective};
use rtswap_taskset::{Advice, TaskSet};

use crate::cli::{self, PlanOptions, TaskSetOptions};
use crate::failure::Failure;
use crate::taskset::{self, Named};
use crate::{graph, output};

use answer::Answer;
use budgets::Budgeted;
pub(crate) use budgets::InJob;

/// Prints the plan; [`Failure::No`] if there is none that holds.
pub(crate) fn plan(runtime_dir: Option<&Path>, options: &PlanOptions) -> Result<(), Failure> {
    let typed = typed(options)?;
    if typed.is_some() && options.set.on.is_some() {
        return Err(Failure::ProfiledElsewhere);
    }
    let profiled = typed
        .map(|tasks| profiled::gather(runtime_dir, tasks))
        .transpose()?;
    let (planned, told) = match profiled {
        Some(profiled) => (
            Planned::new(profiled.set, &options.set),
            Some((profiled.place, profiled.commands)),
        ),
        None => (Planned::read(&options.set)?.1, None),
    };
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
    pub(crate) test: Test,
    pub(crate) objective: Objective,
    pub(crate) result: Result<Assignment, Infeasible>,
    /// What would make one, where there is none.
    advice: Option<Advice>,
    /// The tasks that are planned from graphs, in the order of the file.
    pub(crate) in_job: Vec<InJob>,
}

impl Planned {
    /// Reads a task set and its graphs, and plans it. The name of its file is for messages.
    pub(crate) fn read(options: &TaskSetOptions) -> Result<(String, Self), Failure> {
        let Named { file, set } = taskset::read(options)?;
        if set.graphs.is_empty() {
            return Ok((file, Self::new(set, options)));
        }
        let folder = options.file.parent().unwrap_or(Path::new(""));
        let graphs = set.graphs.iter();
        let read = |path: PathBuf| graph::read(&path).map(|graph| (path, graph));
        let graphs = graphs.map(|of| read(folder.join(&of.file)));
        let graphs = graphs.collect::<Result<_, _>>()?;
        let (test, objective) = (test(options), objective(options));
        let budgeted = budgets::choose(set, graphs, test, objective)?;
        let advice = budgets::advice(&budgeted, test, objective);
        let Budgeted {
            set,
            result,
            in_job,
        } = budgeted;
        let planned = Self {
            set,
            test,
            objective,
            result,
            advice,
            in_job,
        };
        Ok((file, planned))
    }

    /// Plans a set without graphs.
    pub(crate) fn new(set: TaskSet, options: &TaskSetOptions) -> Self {
        let (test, objective) = (test(options), objective(options));
        let result = set.plan(test, objective);
        let advice = result.is_err().then(|| set.advice(test, objective));
        Self {
            set,
            test,
            objective,
            result,
            advice,
            in_job: Vec::new(),
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
        let advice = self.advice.as_ref();
        let advice = advice.map(|advice| advice.describe(&demands, name));
        Some(advice.map_or(why.clone(), |advice| format!("{why}; {advice}")))
    }

    pub(crate) fn name(&self, place: usize) -> &str {
        &self.set.tasks[place].name
    }
}

fn test(options: &TaskSetOptions) -> Test {
    match options.test {
        cli::Test::Theorem1 => Test::Theorem1,
        cli::Test::Demand => Test::Demand,
        cli::Test::Pipelined => Test::Pipelined,
    }
}

fn objective(options: &TaskSetOptions) -> Objective {
    match options.objective {
        cli::Objective::Time => Objective::Time,
        cli::Objective::Volume => Objective::Volume,
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
