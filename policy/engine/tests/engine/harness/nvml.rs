//! NVML as the shell reads it: a sample shows an instant that has passed when it is handed in.

use std::sync::Arc;

use rtswap_engine::sample::{GpuSample, Identity, ProcessSample, Sample};
use rtswap_engine::{Cookie, RegistrationId};
use rtswap_policy::units::{Bytes, Nanos, Time};

use super::process::Process;
use super::world::World;
use super::{CHUNK, GPUS, MEMORY, MS, UUIDS};

/// The pid of a process without an agent, which has no session.
const STRANGER: u32 = 90_000;

/// From the instant that a sample shows until it is handed in.
const LAG: Nanos = Nanos(3 * MS);

/// What NVML will show next.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nvml {
    /// When it is read next.
    pub(crate) next: Time,
    /// The sample that is being read.
    pub(crate) reading: Option<Sample>,
    pub(crate) is_hurried: bool,
    /// What processes without an agent hold, in chunks.
    pub(crate) strangers: [u64; GPUS],
    /// The same by the last sample that was handed in.
    pub(crate) told: [u64; GPUS],
    /// What dead processes have left.
    pub(crate) dead: Vec<Remains>,
}

/// The memory of a dead process until the driver lets go of it.
#[derive(Clone, Debug)]
pub(crate) struct Remains {
    pub(crate) pid: u32,
    pub(crate) bytes: [Bytes; GPUS],
    pub(crate) session: Option<(RegistrationId, Cookie)>,
    pub(crate) until: Time,
}

impl World {
    /// What NVML shows now.
    pub(crate) fn sample(&self) -> Sample {
        Sample {
            began: self.now,
            gpus: (0..GPUS).map(|gpu| self.gpu_sample(gpu)).collect(),
            left_alone: Vec::new(),
            named: Vec::new(),
        }
    }

    fn gpu_sample(&self, gpu: usize) -> GpuSample {
        let living = self.processes.iter().map(|process| ProcessSample {
            pid: process.pid,
            bytes: Some(process.devices[gpu].usage.resident),
            identity: Some(identity(process)),
        });
        let dead = self.nvml.dead.iter().map(|dead| ProcessSample {
            pid: dead.pid,
            bytes: Some(dead.bytes[gpu]),
            identity: None,
        });
        let stranger = ProcessSample {
            pid: STRANGER,
            bytes: Some(Bytes(self.nvml.strangers[gpu] * CHUNK)),
            identity: None,
        };
        let others = dead.chain([stranger]);
        let others = others.filter(|it| it.bytes != Some(Bytes::ZERO));
        // The living have contexts, which count nothing here.
        let mut processes: Vec<_> = living.chain(others).collect();
        processes.sort_by_key(|process| process.pid);
        GpuSample {
            uuid: UUIDS[gpu],
            name: Arc::from("model"),
            total: MEMORY,
            reserved: Bytes::ZERO,
            used: processes.iter().filter_map(|it| it.bytes).sum(),
            utilization: None,
            parent: None,
            caveat: None,
            processes,
        }
    }

    /// When NVML has something to do next.
    pub(crate) fn nvml_due(&self) -> Time {
        match &self.nvml.reading {
            Some(sample) => sample.began + LAG,
            None => self.nvml.next,
        }
    }

    /// Begins to read NVML, or ends: then the sample is to be handed in.
    pub(crate) fn read_nvml(&mut self) -> Option<Sample> {
        let now = self.now;
        self.nvml.dead.retain(|dead| dead.until > now);
        let Some(sample) = self.nvml.reading.take() else {
            self.nvml.reading = Some(self.sample());
            return None;
        };
        let period = if self.nvml.is_hurried { 20 } else { 500 };
        self.nvml.next = now + Nanos(period * MS);
        Some(sample)
    }

    /// Notes what a sample that is handed in tells of strangers.
    pub(crate) fn note_told(&mut self, sample: &Sample) {
        for (told, gpu) in self.nvml.told.iter_mut().zip(&sample.gpus) {
            let stranger = gpu.process(STRANGER).and_then(|it| it.bytes);
            *told = stranger.unwrap_or_default().0 / CHUNK;
        }
    }
}

fn identity(process: &Process) -> Identity {
    Identity {
        uid: process.uid,
        comm: "python".into(),
        origin: None,
        start_ticks: process.start_ticks(),
    }
}
