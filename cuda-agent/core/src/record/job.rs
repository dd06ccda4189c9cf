//! What jobs took, and what the process held at the end of each.

use rtswap_wire::page::JobKind;

use super::now_ns;
use crate::device::Device;

/// What is recorded of the job under way; as it was of the last one in a process that is not recorded.
#[derive(Debug, Default)]
pub(crate) struct JobTimes {
    requested_ns: u64,
    granted_ns: u64,
    /// The name of this job, where the program gave it one.
    name: Option<Box<str>>,
    /// The name for the jobs that are requested from now on: a thread may declare the next job while this one ends.
    next_name: Option<Box<str>>,
}

impl Device {
    /// The name of the jobs that are declared from now on.
    pub(crate) fn record_name(&self, times: &mut JobTimes, name: Option<&str>) {
        if let Some(recorder) = &self.recorder {
            times.next_name = name.and_then(|name| recorder.usable(name));
        }
    }

    /// A job is requested.
    pub(crate) fn record_request(&self, times: &mut JobTimes) {
        if self.recorder.is_some() {
            times.requested_ns = now_ns();
            times.name.clone_from(&times.next_name);
        }
    }

    /// The job begins, its memory in place.
    pub(crate) fn record_grant(&self, times: &mut JobTimes) {
        if self.recorder.is_some() {
            times.granted_ns = now_ns();
        }
    }

    /// The job is complete.
    pub(crate) fn record_completion(&self, times: &JobTimes, kind: JobKind) {
        let Some(recorder) = &self.recorder else {
            return;
        };
        let completed = now_ns();
        let usage = self.memory().usage();
        let unswappable =
            (usage.resident_bytes + usage.swapped_bytes).saturating_sub(usage.arena_bytes);
        let (kind, name) = match (kind, &times.name) {
            (JobKind::Declared, Some(name)) => ("declared", format!(r#","name":"{name}""#)),
            (JobKind::Declared, None) => ("declared", String::new()),
            (JobKind::Implicit, _) => ("implicit", String::new()),
        };
        recorder.line(format_args!(
            concat!(
                r#"{{"event":"job","gpu":{},"kind":"{}"{},"requested_ns":{},"granted_ns":{},"completed_ns":{},"#,
                r#""resident_bytes":{},"swapped_bytes":{},"arena_bytes":{},"unswappable_bytes":{},"peak_bytes":{}}}"#
            ),
            self.ordinal,
            kind,
            name,
            times.requested_ns,
            times.granted_ns,
            completed,
            usage.resident_bytes,
            usage.swapped_bytes,
            usage.arena_bytes,
            unswappable,
            usage.peak_bytes,
        ));
    }
}
