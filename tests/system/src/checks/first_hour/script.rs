//! What is typed in the first hour, and what must come of it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// What each step before printed, by its name.
pub(super) type Heard = BTreeMap<&'static str, String>;

/// One command, and what it is answered.
pub(super) struct Step {
    /// Of the step and of its picture in docs/screens.
    pub(super) name: &'static str,
    pub(super) window: &'static str,
    /// What is typed: where a step before named the next command, that one.
    pub(super) types: fn(&Heard) -> Result<String>,
    pub(super) ends: Ends,
    /// Words that must be on the screen.
    pub(super) says: &'static [&'static str],
    /// What else must hold of what is printed.
    pub(super) judge: Option<fn(&str) -> Result<()>>,
}

/// When a step is over.
pub(super) enum Ends {
    /// At the prompt, with one of these exit codes, and within the bound.
    Prompt(&'static [i32], Duration),
    /// Once it has said its words; it goes on until it is interrupted.
    Interrupted,
}

/// Where the person works, and where the programs run.
pub(super) const DESK: &str = "desk";
pub(super) const TASKS: [&str; 2] = ["camera", "lidar"];

const SHORT: Duration = Duration::from_secs(30);
/// A calibration takes about one minute, a profile of 20 jobs in two runs as long.
const LONG: Duration = Duration::from_mins(4);

pub(super) const STEPS: [Step; 10] = [
    Step {
        name: "doctor",
        window: DESK,
        types: |_| Ok("rtswapctl doctor".into()),
        // Warnings stay in a system without a kernel of its own.
        ends: Ends::Prompt(&[0, 6], SHORT),
        says: &["of an RTX 3090", " 0 faults"],
        judge: None,
    },
    Step {
        name: "calibrate",
        window: DESK,
        types: |heard| mends(&heard["doctor"], "swap-costs"),
        ends: Ends::Prompt(&[0], LONG),
        says: &["rtswapd uses this from now on"],
        judge: None,
    },
    Step {
        name: "permit",
        window: DESK,
        types: |_| {
            Ok(
                "sudo cp /usr/share/doc/rtswap/examples/50-rtswap.rules /etc/polkit-1/rules.d/"
                    .into(),
            )
        },
        ends: Ends::Prompt(&[0], SHORT),
        says: &[],
        judge: None,
    },
    Step {
        name: "profile-camera",
        window: DESK,
        types: |heard| profile(heard, TASKS[0], "384MiB"),
        ends: Ends::Prompt(&[0], LONG),
        says: &["camera: C ", "not proven", "kept in "],
        judge: None,
    },
    Step {
        name: "profile-lidar",
        window: DESK,
        types: |heard| profile(heard, TASKS[1], "352MiB"),
        ends: Ends::Prompt(&[0], LONG),
        says: &["lidar: C ", "not proven", "kept in "],
        judge: None,
    },
    Step {
        name: "plan-refused",
        window: DESK,
        // The commands that both profiles named, in one, and each period a quarter.
        types: |heard| {
            for task in TASKS {
                let heard = &heard[format!("profile-{task}").as_str()];
                let plan = next(heard)?;
                let period = plan.strip_prefix(&format!("rtswapctl plan {task}:"));
                let period = period.and_then(|period| period.strip_suffix("ms")?.parse().ok());
                // A busy host wakes programs late.
                let is_own = period.is_some_and(|period: f64| (1000.0..1020.0).contains(&period));
                ensure!(is_own, "{plan}");
            }
            Ok("rtswapctl plan camera:250ms lidar:250ms".into())
        },
        ends: Ends::Prompt(&[1], SHORT),
        says: &["Not schedulable", "it would fit with "],
        judge: None,
    },
    Step {
        name: "plan-accepted",
        window: DESK,
        types: |heard| {
            let plan = next(&heard["plan-refused"])?;
            ensure!(plan.starts_with("rtswapctl plan camera:"), "{plan}");
            Ok(plan)
        },
        ends: Ends::Prompt(&[0], SHORT),
        says: &["Schedulable by the test demand: 2 tasks need 1."],
        judge: None,
    },
    Step {
        name: "run-camera",
        window: TASKS[0],
        types: |heard| run(heard, TASKS[0]),
        ends: Ends::Interrupted,
        says: &["rtswapctl: camera: C ", "not proven"],
        judge: None,
    },
    Step {
        name: "run-lidar",
        window: TASKS[1],
        types: |heard| run(heard, TASKS[1]),
        ends: Ends::Interrupted,
        says: &["rtswapctl: lidar: C ", "not proven"],
        judge: None,
    },
    Step {
        name: "status",
        window: DESK,
        types: |_| Ok("rtswapctl status".into()),
        ends: Ends::Prompt(&[0], SHORT),
        says: &["calibrated "],
        judge: Some(|text| TASKS.iter().try_for_each(|task| in_time(text, task))),
    },
];

impl Step {
    /// Whether there is anything to see afterwards.
    pub(super) fn has_picture(&self) -> bool {
        !self.says.is_empty()
    }
}

/// The command that mends what the doctor's check found, without the line breaks of the terminal.
fn mends(text: &str, check: &str) -> Result<String> {
    let found = text.lines().skip_while(|line| !line.contains(check));
    let found: Vec<_> = found.map(str::trim).collect();
    let found = found.join(" ");
    let (_, mend) = found
        .split_once("to mend it: ")
        .context("nothing mends it")?;
    let end = ["ok   ", "warning  ", "fault  "]
        .iter()
        .filter_map(|level| mend.find(level))
        .min();
    Ok(mend[..end.unwrap_or(mend.len())].trim().into())
}

/// The command that a step named as the next one.
fn next(text: &str) -> Result<String> {
    let at = text.find("\nnext: ").context("no next command is named")?;
    Ok(commands(&text[at + "\nnext: ".len()..]).remove(0))
}

/// The command that calibrate named, for this program.
fn profile(heard: &Heard, task: &str, memory: &str) -> Result<String> {
    let template = next(&heard["calibrate"])?;
    let command = template.replace("NAME --", &format!("{task} --jobs 20 --"));
    let command = command.replace(
        "COMMAND",
        &format!("rtswap-dnn --memory {memory} --period 1s"),
    );
    ensure!(
        command != template && !command.contains("COMMAND"),
        "{template}"
    );
    Ok(command)
}

/// The command by which the accepted plan runs the task.
fn run(heard: &Heard, task: &str) -> Result<String> {
    let (_, next) = heard["plan-accepted"]
        .split_once(" next:\n")
        .context("no next commands")?;
    let begin = format!("rtswapctl run --name {task} --period ");
    let mut commands = commands(next).into_iter();
    commands
        .find(|command| command.starts_with(&begin))
        .context(begin)
}

/// Commands one after the other, each with the lines that a backslash continues.
fn commands(text: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    for line in text.lines() {
        match commands.last_mut() {
            Some(command) if command.ends_with('\\') => command.extend(["\n", line]),
            _ => commands.push(line.to_owned()),
        }
    }
    commands
}

/// Whether the task has completed jobs, all of them in time.
fn in_time(text: &str, task: &str) -> Result<()> {
    let cells = |line: &str| -> Vec<String> {
        let cells = line.split("  ").map(str::trim);
        cells
            .filter(|cell| !cell.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let line = |begin: &str| text.lines().find(|line| line.starts_with(begin)).map(cells);
    let heads = line("TASK ").context("no tasks")?;
    let row = line(&format!("{task} ")).with_context(|| format!("no {task}"))?;
    let cell = |head: &str| -> Result<u64> {
        let place = heads
            .iter()
            .position(|known| known == head)
            .context(head.to_owned())?;
        Ok(row.get(place).context("a short row")?.parse()?)
    };
    let (jobs, misses) = (cell("JOBS")?, cell("MISSES")?);
    ensure!(
        jobs > 0 && misses == 0,
        "{task}: {misses} of {jobs} jobs were late"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_command_is_read_with_the_lines_that_continue_it() {
        let text = "a\n\nnext: rtswapctl a \\\n    b\n\n$";
        assert_eq!(next(text).unwrap(), "rtswapctl a \\\n    b");
        assert!(next("a next: b\n").is_err());
    }

    #[test]
    fn what_mends_a_finding_is_read_over_line_breaks() {
        let text = "ok       a  b\nwarning  swap-costs  c\n         d\n         to mend it: sudo\n         rtswapctl\nok       e  f";
        assert_eq!(mends(text, "swap-costs").unwrap(), "sudo rtswapctl");
    }

    #[test]
    fn late_jobs_are_read_under_their_heads() {
        let text = |misses| {
            format!("TASK    RESIDENT  JOBS  MISSES\ncamera   392 MiB     7       {misses}\n")
        };
        assert!(in_time(&text(0), "camera").is_ok());
        assert!(in_time(&text(1), "camera").is_err());
        assert!(in_time(&text(0), "lidar").is_err());
    }
}
