//! Where the tasks of registrations live: GPUs are looked up by what users and files say, and tasks
//! registered with their schedulers.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use rtswap_policy::task::Class;

use super::{Engine, Gpu};
use crate::Uuid;
use crate::error::CallError;
use crate::ids::RegistrationId;
use crate::output::Level;
use crate::registry::Origin;

impl Engine {
    /// Registers the task of a registration with a GPU's scheduler, or says why it cannot be.
    pub(super) fn place(&mut self, id: RegistrationId, gpu: usize) -> Result<(), String> {
        let entry = self.registry.get(id);
        let class = entry.map_or(Class::BestEffort, |entry| self.scheduled_class(entry));
        self.add_task(id, gpu, class).map(|_| ())
    }

    /// The index of the GPU of that index or UUID; of the only one where none is named.
    pub(super) fn find_gpu(&self, wanted: Option<&str>) -> Result<usize, CallError> {
        let list = || {
            let gpus = self.gpus.iter().enumerate();
            let gpus: Vec<_> = gpus
                .map(|(at, gpu)| format!("{at} = {}", gpu.uuid))
                .collect();
            gpus.join(", ")
        };
        if self.gpus.is_empty() {
            return Err(CallError::NoSuchGpu(
                "no GPU is known yet: neither NVML nor the CUDA driver shows one; install the driver, or \
                 describe the GPU as [[gpu]] in rtswapd.toml"
                    .into(),
            ));
        }
        let Some(wanted) = wanted else {
            return match self.gpus.len() {
                1 => Ok(0),
                count => Err(CallError::InvalidArgument(format!(
                    "there are {count} GPUs; say on which one the task lives, by index or UUID: {}",
                    list()
                ))),
            };
        };
        let by_index = wanted.parse().ok().filter(|at| *at < self.gpus.len());
        let named = |gpu: &Gpu| wanted.parse::<Uuid>() == Ok(gpu.uuid);
        by_index
            .or_else(|| self.gpus.iter().position(named))
            .ok_or_else(|| {
                CallError::NoSuchGpu(format!("no GPU {wanted:?}; there are: {}", list()))
            })
    }

    /// Registers tasks with the schedulers of the GPUs that are known now.
    pub(super) fn place_registered(&mut self) {
        let files = self.registry.of_origin(Origin::File);
        let unplaced = files.filter(|entry| entry.gpu.is_none());
        let unplaced = unplaced.map(|entry| (entry.id, entry.task.gpu.clone()));
        for (id, wanted) in unplaced.collect::<Vec<_>>() {
            match self.find_gpu(wanted.as_deref()) {
                Ok(gpu) => {
                    self.set_home(id, gpu);
                    self.unrecorded.note_registration(id);
                }
                Err(error) => {
                    self.log(self.line(Level::Warn, id, format!("waits for its GPU: {error}")));
                }
            }
        }
        for (id, gpu) in self.unscheduled() {
            if let Err(reason) = self.place(id, gpu) {
                self.log(self.line(Level::Error, id, format!("refused: {reason}")));
                // A process may run under it: it goes on as best-effort.
                if let Some(entry) = self.registry.get_mut(id) {
                    entry.task.class = Class::BestEffort;
                }
                self.unrecorded.note_registration(id);
            }
        }
    }

    pub(super) fn set_home(&mut self, id: RegistrationId, gpu: usize) {
        if let Some(entry) = self.registry.get_mut(id) {
            entry.gpu = Some(self.gpus[gpu].uuid);
        }
    }

    /// The realtime registrations that the scheduler of their GPU does not know yet.
    fn unscheduled(&self) -> Vec<(RegistrationId, usize)> {
        let realtime = self.registry.iter().filter(|entry| entry.is_realtime());
        let waiting = realtime.filter_map(|entry| {
            let mut gpus = self.gpus.iter();
            let home = gpus.position(|gpu| Some(gpu.uuid) == entry.gpu)?;
            let is_known = self.tasks.on(entry.id, home).is_some();
            (!is_known).then_some((entry.id, home))
        });
        waiting.collect()
    }
}
