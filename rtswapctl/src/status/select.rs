//! What of the status is asked for, and in which order.

use std::cmp::Reverse;

use rtswapctl::cli::{Sort, StatusOptions};

use super::Status;
use super::gpu::Gpu;
use crate::failure::Failure;

impl Status {
    /// Leaves what `options` ask for. A name or GPU that is not there is said.
    pub(super) fn select(&mut self, options: &StatusOptions) -> Result<(), Failure> {
        if let Some(wanted) = &options.gpu {
            self.select_gpu(wanted)?;
        }
        if !options.names.is_empty() {
            self.select_tasks(&options.names)?;
        }
        if let Some(column) = options.sort {
            self.sort(column);
        }
        Ok(())
    }

    fn select_gpu(&mut self, wanted: &str) -> Result<(), Failure> {
        let is_wanted = |gpu: &Gpu| gpu.uuid == wanted || gpu.index.to_string() == wanted;
        let Some(gpu) = self.gpus.iter().find(|gpu| is_wanted(gpu)) else {
            return Err(Failure::NoSuchGpu(wanted.to_owned()));
        };
        let index = Some(gpu.index);
        self.gpus.retain(is_wanted);
        self.tasks.retain(|task| task.gpu == index);
        self.other_tasks.retain(|task| task.gpu == index);
        self.processes.retain(|process| process.gpu == index);
        self.left_alone.clear();
        Ok(())
    }

    fn select_tasks(&mut self, names: &[String]) -> Result<(), Failure> {
        let there = |name: &&String| self.tasks.iter().any(|task| task.name == **name);
        if let Some(missing) = names.iter().find(|name| !there(name)) {
            return Err(Failure::NoSuchTask(missing.clone()));
        }
        self.tasks.retain(|task| names.contains(&task.name));
        let gpus: Vec<_> = self.tasks.iter().filter_map(|task| task.gpu).collect();
        self.gpus.retain(|gpu| gpus.contains(&gpu.index));
        let of_them =
            |task: &Option<String>| task.as_ref().is_some_and(|name| names.contains(name));
        self.processes.retain(|process| of_them(&process.task));
        self.other_tasks.clear();
        self.left_alone.clear();
        Ok(())
    }

    fn sort(&mut self, column: Sort) {
        let (tasks, processes) = (&mut self.tasks, &mut self.processes);
        match column {
            Sort::Task => {
                tasks.sort_by(|a, b| a.name.cmp(&b.name));
                processes.sort_by(|a, b| a.task.cmp(&b.task));
            }
            Sort::Gpu => {
                tasks.sort_by_key(|task| task.gpu);
                processes.sort_by_key(|process| process.gpu);
            }
            Sort::Resident => {
                tasks.sort_by_key(|task| Reverse(task.resident_bytes));
                processes.sort_by_key(|process| Reverse(process.agent_bytes));
            }
            Sort::Swapped => tasks.sort_by_key(|task| Reverse(task.swapped_bytes)),
            Sort::Jobs => tasks.sort_by_key(|task| Reverse(task.jobs)),
            Sort::Misses => tasks.sort_by_key(|task| Reverse(task.deadline_misses)),
            Sort::P99 => tasks.sort_by_key(|task| Reverse(task.response_us.p99)),
        }
    }
}
