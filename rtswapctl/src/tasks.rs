//! `rtswapctl tasks`: what is registered, as it was declared.

use std::path::Path;

use rtswap_dbus::objects::{Objects, limit};
use serde::Serialize;

use crate::cli::TasksOptions;
use crate::daemon::{self, gpu_at};
use crate::failure::Failure;
use crate::output;
use crate::table::{bytes, ms, table};

/// The JSON of `tasks`, version 1.
#[derive(Debug, Serialize)]
struct Tasks {
    version: u32,
    tasks: Vec<Task>,
}

#[derive(Debug, Serialize)]
struct Task {
    path: String,
    name: String,
    class: String,
    /// The index of its GPU; none while it has none.
    gpu: Option<u32>,
    uid: u32,
    period_us: u64,
    deadline_us: u64,
    wcet_us: u64,
    footprint_bytes: u64,
    swappable_bytes: u64,
    weight: u32,
    idle_after_us: u64,
    /// None where no rule caps it, like the one that follows.
    gpu_memory_limit_bytes: Option<u64>,
    pinned_memory_limit_bytes: Option<u64>,
    on_violation: String,
    leased: bool,
    swap_volume_bytes: u64,
}

/// Prints it.
pub(crate) fn tasks(runtime_dir: Option<&Path>, options: &TasksOptions) -> Result<(), Failure> {
    let tasks = Tasks::new(&daemon::objects(runtime_dir)?);
    if options.json {
        output::json(&tasks)
    } else {
        output::text(&tasks.text())
    }
}

impl Tasks {
    fn new(objects: &Objects) -> Self {
        let tasks = objects.tasks.iter().map(|(path, task)| Task {
            path: path.to_string(),
            name: task.name.clone(),
            class: task.class.clone(),
            gpu: gpu_at(objects, &task.gpu).map(|gpu| gpu.index),
            uid: task.user_id,
            period_us: task.period_usec,
            deadline_us: task.deadline_usec,
            wcet_us: task.wcet_usec,
            footprint_bytes: task.footprint_bytes,
            swappable_bytes: task.swappable_bytes,
            weight: task.weight,
            idle_after_us: task.idle_after_usec,
            gpu_memory_limit_bytes: limit(task.gpu_memory_limit_bytes),
            pinned_memory_limit_bytes: limit(task.pinned_memory_limit_bytes),
            on_violation: task.on_violation.clone(),
            leased: task.leased,
            swap_volume_bytes: task.swap_volume_bytes,
        });
        Self {
            version: 1,
            tasks: tasks.collect(),
        }
    }

    fn text(&self) -> String {
        if self.tasks.is_empty() {
            return "no tasks\n".to_owned();
        }
        let heads = [
            "TASK",
            "CLASS",
            "UID",
            "PERIOD",
            "DEADLINE",
            "WCET",
            "FOOTPRINT",
            "SWAPPABLE",
            "VOLUME",
            "WEIGHT",
            "GPU",
        ];
        let rows = self.tasks.iter().map(|task| {
            vec![
                task.name.clone(),
                task.class.clone(),
                task.uid.to_string(),
                ms(task.period_us),
                ms(task.deadline_us),
                ms(task.wcet_us),
                bytes(task.footprint_bytes),
                bytes(task.swappable_bytes),
                bytes(task.swap_volume_bytes),
                task.weight.to_string(),
                task.gpu
                    .map_or_else(|| "-".to_owned(), |gpu| gpu.to_string()),
            ]
        });
        table(&heads, &[0, 1], &rows.collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use rtswap_dbus::TaskProperties;

    use super::*;

    #[test]
    fn declarations_are_listed() {
        let task = TaskProperties {
            name: "yolo".into(),
            class: "realtime".into(),
            period_usec: 33_000,
            footprint_bytes: 6 << 30,
            weight: 100,
            ..TaskProperties::default()
        };
        let objects = Objects {
            gpus: vec![],
            tasks: vec![(rtswap_dbus::task_path(1), task)],
            others: vec![],
        };
        let tasks = Tasks::new(&objects);
        assert!(
            tasks
                .text()
                .lines()
                .nth(1)
                .unwrap()
                .starts_with("yolo  realtime    0   33 ms")
        );
        assert_eq!(
            serde_json::to_value(&tasks).unwrap()["tasks"][0]["period_us"],
            33_000
        );
        assert_eq!(
            serde_json::to_value(&tasks).unwrap()["tasks"][0]["weight"],
            100
        );
        let nothing = Tasks {
            version: 1,
            tasks: vec![],
        };
        assert_eq!(nothing.text(), "no tasks\n");
    }
}
