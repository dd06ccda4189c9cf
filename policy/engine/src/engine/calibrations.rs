//! What was measured on GPUs, and from when on it counts.
//!
//! δ stands in the page of each session and in the plan of each task, so a new calibration waits until no process has
//! a session and its GPU has no task. The daemon keeps it beside the one in effect meanwhile, also over its restart:
//! an agent outlives that with its chunks.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::Engine;
use crate::Uuid;
use crate::config::{Calibration, GpuConfig};
use crate::error::CallError;
use crate::input::{Caller, StoredCalibration};
use crate::output::{Level, LogLine, Output};

/// The calibrations that do not count yet.
#[derive(Debug, Default)]
pub(crate) struct Calibrations {
    /// Of GPUs that are not known yet: those in effect when they are.
    in_effect: BTreeMap<Uuid, Calibration>,
    /// Those that wait.
    next: BTreeMap<Uuid, Calibration>,
}

impl Engine {
    /// Takes over what the daemon before kept.
    pub(super) fn restore_calibrations(&mut self, stored: Vec<StoredCalibration>) {
        for StoredCalibration {
            gpu,
            in_effect,
            next,
        } in stored
        {
            self.calibrations
                .in_effect
                .extend(in_effect.map(|it| (gpu, it)));
            self.calibrations.next.extend(next.map(|it| (gpu, it)));
        }
    }

    /// The calibration in effect of a GPU that becomes known; none where the GPU cannot be scheduled with it. One that
    /// waits takes its place first where no process has a session: all tasks are admitted anew there.
    pub(super) fn calibration_of(&mut self, gpu: &GpuConfig) -> Option<Calibration> {
        let uuid = gpu.uuid;
        let before = self.calibrations.in_effect.remove(&uuid);
        let refuses = |engine: &Self, it: &Calibration| gpu.refuses(it, &engine.config.scheduler);
        let has_pages = self.has_pages();
        if !has_pages && let Some(next) = self.calibrations.next.remove(&uuid) {
            let Some(complaint) = refuses(self, &next) else {
                self.emit(Output::CalibrationUsed(uuid));
                return Some(next);
            };
            self.log_unused(uuid, &complaint);
        }
        let calibration = before?;
        let Some(complaint) = refuses(self, &calibration) else {
            return Some(calibration);
        };
        self.log_unused(uuid, &complaint);
        // An agent outlives the daemon with its chunks.
        has_pages.then_some(calibration)
    }

    /// Whether a process has a page, in which δ stands, or may come back with one.
    fn has_pages(&self) -> bool {
        self.sessions.iter().next().is_some() || self.recovery.awaited().next().is_some()
    }

    /// Whether a calibration of this GPU waits.
    pub(crate) fn awaits_calibration(&self, gpu: Uuid) -> bool {
        self.calibrations.next.contains_key(&gpu)
    }

    /// Takes a measurement of a GPU; true if it counts at once. Unless it `is_kept`, it is only checked.
    pub(super) fn calibrate(
        &mut self,
        caller: Caller,
        uuid: Uuid,
        calibration: Calibration,
        is_kept: bool,
    ) -> Result<bool, CallError> {
        let gpu = self.gpus.iter().find(|gpu| gpu.uuid == uuid);
        let gpu = gpu.ok_or_else(|| CallError::NoSuchGpu(self.no_such_gpu(uuid)))?;
        if let Some(complaint) = gpu.refuses(&calibration, &self.config.scheduler) {
            return Err(CallError::InvalidArgument(complaint));
        }
        // Last: a caller that may yet be given the right types no password for what is refused anyway.
        if !caller.privileged {
            return Err(CallError::AccessDenied(format!(
                "user {} may not calibrate GPUs; root may",
                caller.uid
            )));
        }
        if !is_kept {
            return Ok(false);
        }
        self.calibrations.next.insert(uuid, calibration);
        self.use_calibrations();
        let used = !self.calibrations.next.contains_key(&uuid);
        if !used {
            let text = format!(
                "the calibration of {uuid} is kept, and counts once no program has a session and no task lives \
                 there"
            );
            self.log(LogLine::new(Level::Info, text));
        }
        Ok(used)
    }

    fn no_such_gpu(&self, uuid: Uuid) -> String {
        let known: Vec<_> = self.gpus.iter().map(|gpu| gpu.uuid.to_string()).collect();
        let known = match known.join(", ") {
            none if none.is_empty() => "none".into(),
            known => known,
        };
        format!("{uuid} is none of the GPUs of this rtswapd, which are: {known}")
    }

    /// Begins anew on each GPU with a calibration that waits, as far as nothing rests on the one before. True if
    /// there is something to tell.
    pub(super) fn use_calibrations(&mut self) -> bool {
        if self.calibrations.next.is_empty() || self.has_pages() {
            return false;
        }
        let mut is_told = false;
        for index in 0..self.gpus.len() {
            let uuid = self.gpus[index].uuid;
            let Some(&calibration) = self.calibrations.next.get(&uuid) else {
                continue;
            };
            let gpu = &mut self.gpus[index];
            // The files may have changed since it was taken.
            if let Some(complaint) = gpu.refuses(&calibration, &self.config.scheduler) {
                self.calibrations.next.remove(&uuid);
                self.log_unused(uuid, &complaint);
                self.note_change();
                is_told = true;
            } else if gpu.calibrate(calibration, &self.config.scheduler) {
                let text = format!("GPU {index} is calibrated: chunks of {}", gpu.config.chunk);
                self.calibrations.next.remove(&uuid);
                self.log(LogLine::new(Level::Info, text).gpu(index));
                self.emit(Output::CalibrationUsed(uuid));
                self.note_change();
                is_told = true;
            }
        }
        is_told
    }

    fn log_unused(&mut self, uuid: Uuid, complaint: &str) {
        let text = format!(
            "the calibration of {uuid} is not used: {complaint}; `rtswapctl calibrate` measures anew"
        );
        self.log(LogLine::new(Level::Error, text));
    }
}
