//! `rtswapctl status`: what happens on the GPUs now.
//!
//! `gpu`, `task` and `process` are the rows, `detail` all that is known of one task, `users` the sums of each user;
//! `select` picks and sorts them, `watch` shows them again and again.

mod detail;
mod gpu;
mod process;
mod select;
mod task;
#[cfg(test)]
mod tests;
mod users;
mod watch;

use std::path::Path;

use rtswapctl::cli::StatusOptions;
use serde::Serialize;

use crate::color::{Style, mark};
use crate::daemon::{self, Everything, Probes};
use crate::failure::Failure;
use crate::output;
use crate::table::{Widths, lines, table, wrapped};
use gpu::Gpu;
use process::Process;
use task::{Other, Task};
use users::User;

/// The JSON of `status`, version 1.
#[derive(Debug, Serialize)]
struct Status {
    version: u32,
    gpus: Vec<Gpu>,
    tasks: Vec<Task>,
    other_tasks: Vec<Other>,
    users: Vec<User>,
    processes: Vec<Process>,
    probes: Probes,
    left_alone: Vec<String>,
}

/// Prints it once, or again and again.
pub(crate) fn status(runtime_dir: Option<&Path>, options: &StatusOptions) -> Result<(), Failure> {
    if options.watch {
        return watch::watch(runtime_dir, options);
    }
    let status = Status::of_daemon(runtime_dir, options)?;
    if options.json {
        output::json(&status)
    } else {
        output::text(&status.text(options, output::width()))
    }
}

impl Status {
    /// What the daemon says now, as far as it is asked for.
    fn of_daemon(runtime_dir: Option<&Path>, options: &StatusOptions) -> Result<Self, Failure> {
        let mut status = Self::new(daemon::everything(runtime_dir)?);
        status.select(options)?;
        Ok(status)
    }

    fn new(everything: Everything) -> Self {
        let Everything {
            objects,
            processes,
            probes,
            left_alone,
        } = everything;
        let index_of = |path| daemon::gpu_at(&objects, path).map(|gpu| gpu.index);
        let name_of = |path: &str| {
            if path == rtswap_dbus::OTHER_TASK_PATH {
                return Some("another user's task".to_owned());
            }
            let task = objects.tasks.iter().find(|(task, _)| task.as_str() == path);
            task.map(|(_, task)| task.name.clone())
        };
        let gpus = objects.gpus.iter();
        let (tasks, others) = (objects.tasks.iter(), objects.others.iter());
        let processes = processes.into_iter();
        Self {
            version: 1,
            gpus: gpus.map(|(_, gpu)| Gpu::new(gpu, name_of)).collect(),
            tasks: tasks
                .map(|(path, task)| Task::new(path.as_str(), task, index_of(&task.gpu)))
                .collect(),
            other_tasks: others
                .map(|(path, task)| Other::new(path.as_str(), task, index_of(&task.gpu)))
                .collect(),
            users: User::all(&objects),
            processes: processes
                .map(|process| Process::new(process, name_of))
                .collect(),
            probes,
            left_alone,
        }
    }

    /// For a terminal of so many columns; without, no line is broken.
    fn text(&self, options: &StatusOptions, width: Option<usize>) -> String {
        if options.names.is_empty() {
            self.overview(width)
        } else {
            self.details(width)
        }
    }

    fn overview(&self, width: Option<usize>) -> String {
        let mut text = String::new();
        for gpu in &self.gpus {
            gpu.write(&mut text, width);
        }
        for gpu in &self.left_alone {
            let line = wrapped(&format!("left alone: {gpu}"), 4, width);
            text.push_str(&mark(Style::Warning, &line));
        }
        if self.gpus.is_empty() && self.left_alone.is_empty() {
            text.push_str(
                "no GPU is known yet: configure one, or start a program under the agent\n",
            );
        }
        if self.tasks.is_empty() {
            text.push_str("no tasks\n");
        } else {
            text.push('\n');
            self.write_tasks(&mut text, width);
        }
        let turns: Vec<_> = self.tasks.iter().filter_map(Task::turns_row).collect();
        if !turns.is_empty() {
            text.push('\n');
            text.push_str(&table(&Task::TURNS_HEADS, &[0], &turns));
        }
        text.push_str(&wrapped(&Other::text(&self.other_tasks), 4, width));
        text.push_str(&wrapped(&User::text(&self.users), 4, width));
        self.write_processes(&mut text, width);
        text.push_str(&self.probes.text());
        text
    }

    fn write_tasks(&self, text: &mut String, width: Option<usize>) {
        let rows: Vec<_> = self.tasks.iter().map(Task::row).collect();
        let widths = Widths {
            most: width,
            first_to_go: &Task::FIRST_TO_GO,
        };
        let mut lines = lines(&Task::HEADS, &Task::WORDS, &rows, widths).into_iter();
        text.extend(lines.next());
        for (row, task) in lines.zip(&self.tasks) {
            text.push_str(&row);
            for (style, note) in task.notes() {
                text.push_str(&mark(style, &wrapped(&note, 4, width)));
            }
        }
    }

    fn write_processes(&self, text: &mut String, width: Option<usize>) {
        if self.processes.is_empty() {
            return;
        }
        let rows: Vec<_> = self.processes.iter().map(Process::row).collect();
        let widths = Widths {
            most: width,
            first_to_go: &Process::FIRST_TO_GO,
        };
        text.push('\n');
        text.push_str(&lines(&Process::HEADS, &Process::WORDS, &rows, widths).concat());
    }

    fn details(&self, width: Option<usize>) -> String {
        let mut text = String::new();
        for task in &self.tasks {
            if !text.is_empty() {
                text.push('\n');
            }
            task.write_details(&mut text, width);
        }
        self.write_processes(&mut text, width);
        text
    }
}
