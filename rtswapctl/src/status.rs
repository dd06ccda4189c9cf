//! `rtswapctl status`: what happens on the GPUs now.

use std::fmt::Write as _;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rtswap_dbus::objects::Objects;
use rtswap_dbus::{GpuProperties, TaskProperties};
use serde::Serialize;

use crate::cli::StatusOptions;
use crate::daemon;
use crate::failure::Failure;
use crate::table::{bytes, ms, table};

/// The JSON of `status`, version 1.
#[derive(Debug, Serialize)]
struct Status {
    version: u32,
    gpus: Vec<Gpu>,
    tasks: Vec<Task>,
}

#[derive(Debug, Serialize)]
struct Gpu {
    index: u32,
    uuid: String,
    capacity_bytes: u64,
    used_bytes: u64,
    chunk_bytes: u64,
    running: Option<String>,
    utilization: f64,
    blocking_us: u64,
}

#[derive(Debug, Serialize)]
struct Task {
    path: String,
    name: String,
    class: String,
    phase: String,
    gpu: Option<u32>,
    uid: u32,
    pid: u32,
    footprint_bytes: u64,
    swap_volume_bytes: u64,
    resident_bytes: u64,
    swapped_bytes: u64,
    budget_bytes: u64,
    backing_bytes: u64,
    jobs: u64,
    deadline_misses: u64,
    max_lateness_us: u64,
    response_us: Response,
    swap_out_bytes_total: u64,
    swap_in_bytes_total: u64,
    swap_out_us_total: u64,
    swap_in_us_total: u64,
    violations: u64,
}

#[derive(Debug, Serialize)]
struct Response {
    p50: u64,
    p99: u64,
    max: u64,
}

/// Prints it once, or every second.
pub(crate) fn status(runtime_dir: &Path, options: &StatusOptions) -> Result<(), Failure> {
    loop {
        let status = Status::new(&daemon::objects(runtime_dir)?);
        if options.json {
            println!("{}", serde_json::to_string(&status).expect("plain data"));
        } else if options.watch {
            // Home and clear, as watch(1) does.
            print!("\x1b[H\x1b[2J{}", status.text());
        } else {
            print!("{}", status.text());
        }
        if !options.watch {
            return Ok(());
        }
        thread::sleep(Duration::from_secs(1));
    }
}

impl Status {
    fn new(objects: &Objects) -> Self {
        let index_of = |uuid: &str| {
            objects
                .gpus
                .iter()
                .find(|(_, gpu)| gpu.uuid == uuid)
                .map(|(_, gpu)| gpu.index)
        };
        let name_of = |path: &str| {
            let task = objects.tasks.iter().find(|(task, _)| task.as_str() == path);
            task.map(|(_, task)| task.name.clone())
        };
        Self {
            version: 1,
            gpus: objects
                .gpus
                .iter()
                .map(|(_, gpu)| Gpu::new(gpu, name_of))
                .collect(),
            tasks: objects
                .tasks
                .iter()
                .map(|(path, task)| Task::new(path.as_str(), task, index_of(&task.gpu)))
                .collect(),
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for gpu in &self.gpus {
            let running = gpu.running.as_deref().unwrap_or("nobody");
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "GPU {}  {}  {} of {} held, chunks of {}, planned utilization {:.0} %, running: {running}",
                gpu.index,
                gpu.uuid,
                bytes(gpu.used_bytes),
                bytes(gpu.capacity_bytes),
                bytes(gpu.chunk_bytes),
                gpu.utilization * 100.0,
            );
        }
        if self.gpus.is_empty() {
            text.push_str(
                "no GPU is known yet: configure one, or start a program under the agent\n",
            );
        }
        if self.tasks.is_empty() {
            text.push_str("no tasks\n");
            return text;
        }
        let heads = [
            "TASK", "CLASS", "PHASE", "GPU", "PID", "RESIDENT", "SWAPPED", "VOLUME", "JOBS",
            "MISSES", "P50", "P99", "MAX",
        ];
        let rows: Vec<_> = self.tasks.iter().map(Task::row).collect();
        text.push('\n');
        text.push_str(&table(&heads, &[0, 1, 2], &rows));
        text
    }
}

impl Gpu {
    fn new(gpu: &GpuProperties, name_of: impl Fn(&str) -> Option<String>) -> Self {
        Self {
            index: gpu.index,
            uuid: gpu.uuid.clone(),
            capacity_bytes: gpu.capacity_bytes,
            used_bytes: gpu.used_bytes,
            chunk_bytes: gpu.chunk_bytes,
            running: name_of(gpu.running_task.as_str()),
            utilization: gpu.utilization,
            blocking_us: gpu.blocking_usec,
        }
    }
}

impl Task {
    fn new(path: &str, task: &TaskProperties, gpu: Option<u32>) -> Self {
        Self {
            path: path.to_owned(),
            name: task.name.clone(),
            class: task.class.clone(),
            phase: task.phase.clone(),
            gpu,
            uid: task.user_id,
            pid: task.process_id,
            footprint_bytes: task.footprint_bytes,
            swap_volume_bytes: task.swap_volume_bytes,
            resident_bytes: task.resident_bytes,
            swapped_bytes: task.swapped_bytes,
            budget_bytes: task.budget_bytes,
            backing_bytes: task.backing_bytes,
            jobs: task.jobs,
            deadline_misses: task.deadline_misses,
            max_lateness_us: task.max_lateness_usec,
            response_us: Response {
                p50: task.response_p50_usec,
                p99: task.response_p99_usec,
                max: task.response_max_usec,
            },
            swap_out_bytes_total: task.swap_out_bytes_total,
            swap_in_bytes_total: task.swap_in_bytes_total,
            swap_out_us_total: task.swap_out_usec_total,
            swap_in_us_total: task.swap_in_usec_total,
            violations: task.violations,
        }
    }

    fn row(&self) -> Vec<String> {
        vec![
            self.name.clone(),
            self.class.clone(),
            self.phase.clone(),
            self.gpu
                .map_or_else(|| "-".to_owned(), |gpu| gpu.to_string()),
            if self.pid == 0 {
                "-".to_owned()
            } else {
                self.pid.to_string()
            },
            bytes(self.resident_bytes),
            bytes(self.swapped_bytes),
            bytes(self.swap_volume_bytes),
            self.jobs.to_string(),
            self.deadline_misses.to_string(),
            ms(self.response_us.p50),
            ms(self.response_us.p99),
            ms(self.response_us.max),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects() -> Objects {
        let gpu = GpuProperties {
            uuid: "GPU-1".into(),
            index: 3,
            capacity_bytes: 96 << 20,
            used_bytes: 64 << 20,
            chunk_bytes: 2 << 20,
            running_task: rtswap_dbus::task_path(7),
            utilization: 0.456,
            blocking_usec: 1_000,
            ..GpuProperties::default()
        };
        let task = TaskProperties {
            name: "yolo".into(),
            class: "realtime".into(),
            phase: "running".into(),
            gpu: "GPU-1".into(),
            process_id: 4711,
            resident_bytes: 40 << 20,
            jobs: 12,
            response_p99_usec: 33_000,
            ..TaskProperties::default()
        };
        Objects {
            gpus: vec![(rtswap_dbus::gpu_path(3), gpu)],
            tasks: vec![(rtswap_dbus::task_path(7), task)],
        }
    }

    #[test]
    fn a_person_sees_who_runs_and_where_memory_is() {
        let text = Status::new(&objects()).text();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[0],
            "GPU 3  GPU-1  64 MiB of 96 MiB held, chunks of 2 MiB, planned utilization 46 %, running: yolo"
        );
        assert!(lines[2].starts_with("TASK  CLASS     PHASE    GPU   PID  RESIDENT"));
        assert!(lines[3].starts_with("yolo  realtime  running    3  4711    40 MiB        0"));
    }

    #[test]
    fn a_program_gets_names_and_indices() {
        let json = serde_json::to_value(Status::new(&objects())).unwrap();
        assert_eq!(json["version"], 1);
        assert_eq!(json["gpus"][0]["running"], "yolo");
        assert_eq!(json["tasks"][0]["gpu"], 3);
        assert_eq!(json["tasks"][0]["response_us"]["p99"], 33_000);
    }
}
