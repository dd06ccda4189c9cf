//! One process on one GPU, with what each witness says of it.

use rtswap_dbus::objects::Properties;
use serde::Serialize;
use zbus::OwnedObjectPath;

use crate::daemon::{Probes, take};
use crate::table::bytes;

#[derive(Debug, Serialize)]
pub(super) struct Process {
    pid: u32,
    comm: String,
    uid: Option<u32>,
    pub(super) gpu: Option<u32>,
    managed: bool,
    attached: bool,
    pub(super) task: Option<String>,
    /// Its container or its unit.
    origin: Option<String>,
    nvml_bytes: Option<u64>,
    probed: Option<Probed>,
    pub(super) agent_bytes: Option<u64>,
    kept_for_processes_bytes: u64,
    kept_for_devices_bytes: u64,
    disagreement: Option<String>,
}

/// What the probes count for it.
#[derive(Debug, Serialize)]
struct Probed {
    bytes: u64,
    managed_bytes: u64,
    first_seen_us: u64,
    baseline: String,
    confidence: String,
}

impl Probed {
    fn new(fields: &mut Properties) -> Option<Self> {
        Some(Self {
            bytes: take(fields, "probed_bytes")?,
            managed_bytes: take(fields, "probed_managed_bytes")?,
            first_seen_us: take(fields, "first_seen_usec")?,
            baseline: take(fields, "baseline")?,
            confidence: take(fields, "confidence")?,
        })
    }

    /// With a mark where it may be more, and in parentheses where it may be made up.
    fn text(&self) -> String {
        match &*self.confidence {
            "exact" => bytes(self.bytes),
            "claimed" => format!("({})", bytes(self.bytes)),
            _ => format!("≥ {}", bytes(self.bytes)),
        }
    }
}

impl Probes {
    /// What is to be said of the probes: nothing while they do as they were told.
    pub(super) fn text(&self) -> String {
        if self.state != "on" && self.state != "off" {
            return format!("\nprobes: {}\n", self.state);
        }
        let records = (self.lost_records > 0).then(|| {
            let lost = self.lost_records;
            format!("\nprobes: {lost} records found no room; totals are read from the counters and exact\n")
        });
        let calls = (self.lost_calls > 0).then(|| {
            let lost = self.lost_calls;
            format!(
                "\nprobes: no room for {lost} calls of processes that are therefore known from NVML alone\n"
            )
        });
        [records, calls].into_iter().flatten().collect()
    }
}

impl Process {
    pub(super) const HEADS: [&'static str; 10] = [
        "PID", "PROCESS", "FROM", "UID", "GPU", "NVML", "PROBED", "AGENT", "TASK", "NOTE",
    ];
    /// The columns of words.
    pub(super) const WORDS: [usize; 4] = [1, 2, 8, 9];
    /// The columns that a narrow terminal has no room for, in this order: FROM, UID, GPU, PROBED, AGENT.
    pub(super) const FIRST_TO_GO: [usize; 5] = [2, 3, 4, 6, 7];

    /// `name_of` knows the task of a path. What the daemon does not say is not known.
    pub(super) fn new(mut fields: Properties, name_of: impl Fn(&str) -> Option<String>) -> Self {
        let fields = &mut fields;
        let path: Option<OwnedObjectPath> = take(fields, "task");
        let comm: Option<String> = take(fields, "comm");
        Self {
            pid: take(fields, "pid").unwrap_or_default(),
            comm: comm
                .filter(|comm| !comm.is_empty())
                .unwrap_or_else(|| "?".to_owned()),
            uid: take(fields, "uid"),
            gpu: take(fields, "gpu"),
            managed: take(fields, "managed").unwrap_or_default(),
            attached: take(fields, "attached").unwrap_or_default(),
            task: path.map(|path| name_of(path.as_str()).unwrap_or_else(|| path.to_string())),
            origin: take(fields, "origin"),
            nvml_bytes: take(fields, "nvml_bytes"),
            probed: Probed::new(fields),
            agent_bytes: take(fields, "agent_bytes"),
            kept_for_processes_bytes: take(fields, "kept_for_processes_bytes").unwrap_or_default(),
            kept_for_devices_bytes: take(fields, "kept_for_devices_bytes").unwrap_or_default(),
            disagreement: take(fields, "disagreement"),
        }
    }

    pub(super) fn row(&self) -> Vec<String> {
        let number = |number: Option<u32>| number.map_or_else(dash, |number| number.to_string());
        let witness = |said: Option<u64>| said.map_or_else(dash, bytes);
        vec![
            self.pid.to_string(),
            self.comm.clone(),
            self.origin.clone().unwrap_or_else(dash),
            number(self.uid),
            number(self.gpu),
            witness(self.nvml_bytes),
            self.probed.as_ref().map_or_else(dash, Probed::text),
            witness(self.agent_bytes),
            self.task.clone().unwrap_or_else(dash),
            self.note(),
        ]
    }

    /// What stays on the GPU, and why.
    fn kept(&self) -> String {
        let kept = [
            (self.kept_for_processes_bytes, "other processes"),
            (self.kept_for_devices_bytes, "other devices"),
        ];
        let kept = kept.into_iter().filter(|(held, _)| *held > 0);
        let kept = kept.map(|(held, why)| format!("{} stay for {why}", bytes(held)));
        kept.collect::<Vec<_>>().join(", ")
    }

    fn note(&self) -> String {
        match &self.disagreement {
            Some(name) => name.clone(),
            None if !self.managed => "unmanaged".to_owned(),
            None if self.attached => self.kept(),
            // The account of a dead one has no agent any more.
            None if self.agent_bytes.is_none() && self.gpu.is_some() => "dying".to_owned(),
            None => "lost".to_owned(),
        }
    }
}

fn dash() -> String {
    "-".to_owned()
}
