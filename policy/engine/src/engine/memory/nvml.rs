//! The samples of NVML, and what holds while none comes.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

use rtswap_policy::units::{Nanos, Time};

use crate::engine::{Engine, Gpu};
use crate::ledger::Graces;
use crate::output::{Level, LogLine, Output};
use crate::sample::{LeftAlone, Sample};
use crate::timers::Timer;

/// How long the driver may take for one sample.
const SAMPLE_BOUND: Nanos = Nanos(10_000_000_000);

/// What is known of NVML itself.
#[derive(Debug, Default)]
pub(crate) struct Nvml {
    /// When the last sample came, whatever it showed.
    sampled: Time,
    /// When the last sample that counted was compared with what agents and schedulers say.
    compared: Time,
    hangs: bool,
    /// NVML has shown at least one GPU.
    pub(in crate::engine) speaks: bool,
    /// The GPUs that are no place for tasks, by the last sample.
    pub(in crate::engine) left_alone: Vec<LeftAlone>,
    is_hurried: bool,
    /// When the memory of dead processes is taken for free where NVML does not tell.
    pub(super) graces: Graces,
}

impl Engine {
    pub(in crate::engine) fn take_sample(&mut self, sample: Sample) {
        let now = self.now;
        if core::mem::take(&mut self.nvml.hangs) {
            self.log(LogLine::new(Level::Warn, "the driver answers again"));
        }
        self.expect_sample();
        // Where there is no NVML, nothing changes.
        if !sample.gpus.is_empty() || self.gpus.iter().any(|gpu| gpu.account.last().is_some()) {
            self.note_change();
        }
        // One that was read before the last one was compared would be held against values since then.
        if sample.began < self.nvml.compared {
            return;
        }
        self.nvml.compared = now;
        self.leave_alone(sample.left_alone);
        let shown = sample.gpus.into_iter();
        let mut shown: BTreeMap<_, _> = shown.map(|gpu| (gpu.uuid, gpu)).collect();
        for gpu in 0..self.gpus.len() {
            if let Some(shown) = shown.remove(&self.gpus[gpu].uuid) {
                self.release_dead(gpu, sample.began, Some(&shown));
                self.reconcile(gpu, shown);
            } else if self.gpus[gpu].account.note_missing(now) {
                self.release_dead(gpu, sample.began, None);
            }
            self.report_starved(gpu);
            self.inspect(gpu);
            self.notify_waiting(gpu);
        }
        for shown in shown.into_values() {
            self.add_late(shown);
        }
        for named in sample.named {
            self.add_named(named);
        }
        self.bar_stubborn();
        let waits = |gpu: &Gpu| gpu.account.wants_sample(now) || !gpu.dead.is_empty();
        self.hurry_nvml(self.gpus.iter().any(waits));
    }

    /// A sample has come, so another one is expected.
    pub(in crate::engine) fn expect_sample(&mut self) {
        self.nvml.sampled = self.now;
        self.set_nvml_timer();
    }

    /// Sets when the next sample counts as late, by the period as it is now.
    pub(in crate::engine) fn set_nvml_timer(&mut self) {
        let late = self.nvml.sampled + self.config.settings.nvml_period + SAMPLE_BOUND;
        let late = (!self.nvml.hangs).then_some(late);
        self.timers.set(Timer::NvmlLate, late);
    }

    /// The sample is late: goes on without NVML.
    pub(in crate::engine) fn nvml_hangs(&mut self) {
        self.nvml.hangs = true;
        let text = "the driver does not answer NVML: memory is known from agents only until it does; \
                    dmesg says more";
        self.log(LogLine::new(Level::Error, text));
        for gpu in 0..self.gpus.len() {
            self.gpus[gpu].account.fall_silent();
            self.begin_graces(gpu);
        }
        self.note_change();
    }

    /// Has NVML read often, or as ever.
    pub(in crate::engine) fn hurry_nvml(&mut self, hurry: bool) {
        if core::mem::replace(&mut self.nvml.is_hurried, hurry) != hurry {
            self.emit(Output::HurryNvml(hurry));
        }
    }

    /// Writes into the log which tasks the plan leaves too little, once each time that begins.
    fn report_starved(&mut self, index: usize) {
        let gpu = &mut self.gpus[index];
        let planned = gpu.planned();
        let waiting = gpu.scheduler.state().waiting();
        let starving = waiting.filter_map(|task| Some((task, planned.starved(task)?)));
        let starving: Vec<_> = starving.collect();
        let named = starving.iter().map(|(task, _)| *task).collect();
        let before = core::mem::replace(&mut gpu.starving, named);
        for (task, why) in starving {
            if before.contains(&task) {
                continue;
            }
            let Some(task) = self.tasks.get(task) else {
                continue;
            };
            let text = format!("waits: {why}");
            let line = self.line(Level::Warn, task.registration, text);
            self.log(line.gpu(index));
        }
    }
}
