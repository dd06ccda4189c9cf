//! One process on one GPU, with what each witness says of it.

use rtswap_dbus::objects::Properties;
use serde::Serialize;
use zbus::{OwnedObjectPath, OwnedVariant};

use crate::table::bytes;

#[derive(Debug, Serialize)]
pub(super) struct Process {
    pid: u32,
    comm: String,
    uid: Option<u32>,
    gpu: Option<u32>,
    managed: bool,
    attached: bool,
    task: Option<String>,
    nvml_bytes: Option<u64>,
    agent_bytes: Option<u64>,
    disagreement: Option<String>,
}

impl Process {
    pub(super) const HEADS: [&'static str; 8] = [
        "PID", "PROCESS", "UID", "GPU", "NVML", "AGENT", "TASK", "NOTE",
    ];
    /// The columns of words.
    pub(super) const WORDS: [usize; 3] = [1, 6, 7];

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
            nvml_bytes: take(fields, "nvml_bytes"),
            agent_bytes: take(fields, "agent_bytes"),
            disagreement: take(fields, "disagreement"),
        }
    }

    pub(super) fn row(&self) -> Vec<String> {
        let number = |number: Option<u32>| number.map_or_else(dash, |number| number.to_string());
        let witness = |said: Option<u64>| said.map_or_else(dash, bytes);
        vec![
            self.pid.to_string(),
            self.comm.clone(),
            number(self.uid),
            number(self.gpu),
            witness(self.nvml_bytes),
            witness(self.agent_bytes),
            self.task.clone().unwrap_or_else(dash),
            self.note(),
        ]
    }

    fn note(&self) -> String {
        match &self.disagreement {
            Some(name) => name.clone(),
            None if !self.managed => "unmanaged".to_owned(),
            None if self.attached => String::new(),
            // The account of a dead one has no agent any more.
            None if self.agent_bytes.is_none() && self.gpu.is_some() => "dying".to_owned(),
            None => "lost".to_owned(),
        }
    }
}

fn dash() -> String {
    "-".to_owned()
}

fn take<T: TryFrom<OwnedVariant>>(fields: &mut Properties, name: &str) -> Option<T> {
    T::try_from(fields.remove(name)?).ok()
}
