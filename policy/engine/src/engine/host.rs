//! The machine's memory: how much is left for backing stores, and which tasks give some back when it is short.

use alloc::format;
use alloc::string::String;

use rtswap_policy::scheduler::Event;
use rtswap_policy::units::{Bytes, Ppm};

use super::Engine;
use super::seen::Seen;
use crate::config::Settings;
use crate::groups::served_by;
use crate::output::{Level, LogLine};
use crate::sample::HostSample;

/// Memory is short below twice the reserve too, where processes wait for it for this part of the time: what the
/// kernel calls available can then only be had by taking it from others. That they wait is not enough: those in a
/// group with a limit of its own wait whatever the machine has.
const STALLED: Ppm = Ppm(200_000);

/// What is known of the machine's memory.
#[derive(Debug, Default)]
pub(crate) struct Host {
    sample: Option<HostSample>,
    seen: Seen,
    /// It is short, and the log says so.
    is_short: bool,
    /// What all backing stores had pinned when it came to be short.
    pinned_before: Bytes,
}

impl Host {
    /// Whether others need the memory that backing stores have or might take.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short
    }

    /// Its state in words.
    pub(super) fn describe(&self, settings: &Settings) -> String {
        let Some(HostSample {
            total,
            available,
            stalled,
            ..
        }) = self.sample
        else {
            return String::from("the kernel does not tell of it");
        };
        let reserve = settings.host_reserve(total);
        let stalled = stalled.0 / 10_000;
        format!(
            "{available} of {total} are available, {reserve} are kept for others, processes wait for {stalled} % of the time"
        )
    }
}

impl Engine {
    /// Takes in a look at the machine's memory.
    pub(super) fn take_host(&mut self, mut sample: HostSample) {
        let HostSample {
            looked, available, ..
        } = sample;
        self.cgroups
            .look(looked, core::mem::take(&mut sample.cgroups));
        let stores = self.needs.stores();
        let reserve = self.config.settings.host_reserve(sample.total);
        let least = if sample.stalled < STALLED {
            reserve
        } else {
            reserve + reserve
        };
        // Until all that was given back could be pinned again: else it would soon be short anew.
        let returns = if self.host.is_short {
            self.host.pinned_before.saturating_sub(stores.bytes)
        } else {
            self.host.pinned_before = stores.bytes;
            Bytes::ZERO
        };
        let is_short = sample.available < least + returns;
        if self.host.sample.replace(sample).is_some() {
            self.host.seen.look(looked, available, stores);
        } else {
            self.host.seen = Seen::first(available, stores.bytes);
        }
        if core::mem::replace(&mut self.host.is_short, is_short) != is_short {
            let state = self.host.describe(&self.config.settings);
            let (level, text) = if is_short {
                let text = "host memory is short, so idle best-effort tasks give back backing store that holds \
                            nothing, and no task gets more";
                (Level::Warn, text)
            } else {
                (Level::Info, "host memory is no longer short")
            };
            self.log(LogLine::new(level, format!("{text}: {state}")));
            self.note_change();
            self.tell_host(is_short);
        } else if is_short {
            self.tell_host(true);
        }
        if !is_short {
            self.retry_stores();
        }
    }

    fn tell_host(&mut self, short: bool) {
        for gpu in 0..self.gpus.len() {
            self.tell(gpu, Event::HostMemory { short });
        }
    }

    /// The most bytes that may be swapped of a process of which `backed` bytes are reckoned with and `arena` bytes
    /// may be swapped already; none where the host's memory is not known.
    pub(super) fn host_left(&self, backed: Bytes, arena: Bytes) -> Option<Bytes> {
        let sample = self.host.sample.as_ref()?;
        if self.host.is_short {
            return Some(arena);
        }
        let reserve = self.config.settings.host_reserve(sample.total);
        let all = (self.host.seen).most_pinned(reserve, self.needs.stores().ordered);
        let others = self.needs.backed().saturating_sub(backed);
        Some(served_by(all.saturating_sub(others)).max(arena))
    }
}
