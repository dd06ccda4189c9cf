//! One task.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use rtswap_dbus::TaskProperties;
use rtswap_dbus::objects::{OtherTask, limit};
use serde::Serialize;

use crate::color::Style;
use crate::table::{bytes, ms, percent, seconds};

#[derive(Debug, Serialize)]
pub(super) struct Task {
    pub(super) path: String,
    pub(super) name: String,
    pub(super) class: String,
    pub(super) phase: String,
    pub(super) gpu: Option<u32>,
    pub(super) uid: u32,
    pub(super) pid: u32,
    pub(super) pids: Vec<u32>,
    /// 0 for best-effort, like the two that follow.
    pub(super) period_us: u64,
    pub(super) deadline_us: u64,
    pub(super) wcet_us: u64,
    pub(super) weight: u32,
    /// 0 if others have to need its memory first.
    pub(super) idle_after_us: u64,
    /// None where no rule caps it, like the one that follows.
    pub(super) gpu_memory_limit_bytes: Option<u64>,
    pub(super) pinned_memory_limit_bytes: Option<u64>,
    pub(super) on_violation: String,
    pub(super) leased: bool,
    pub(super) footprint_bytes: u64,
    pub(super) swappable_bytes: u64,
    pub(super) swap_volume_bytes: u64,
    pub(super) resident_bytes: u64,
    pub(super) swapped_bytes: u64,
    pub(super) budget_bytes: u64,
    pub(super) backing_bytes: u64,
    pub(super) jobs: u64,
    pub(super) deadline_misses: u64,
    pub(super) max_lateness_us: u64,
    pub(super) response_us: Response,
    pub(super) swap_out_bytes_total: u64,
    pub(super) swap_in_bytes_total: u64,
    pub(super) swap_out_us_total: u64,
    pub(super) swap_in_us_total: u64,
    /// The part of the last one to two minutes in which it had the GPU as best-effort, 0 to 1.
    pub(super) gpu_share: f64,
    /// The part of that time in which the GPU stood still until its memory was there, 0 to 1.
    pub(super) swap_share: f64,
    pub(super) longest_wait_us: u64,
    pub(super) violations: u64,
    /// Since when jobs, misses, swaps and violations are counted, in µs since 1970.
    pub(super) counting_since_us: u64,
    pub(super) waits: Option<String>,
    pub(super) last_deadline_miss: Option<String>,
    pub(super) last_violation: Option<String>,
}

/// A task that its user alone, root and those that may manage others' tasks see more of.
#[derive(Debug, Serialize)]
pub(super) struct Other {
    path: String,
    class: String,
    pub(super) gpu: Option<u32>,
    uid: u32,
}

impl Other {
    pub(super) fn new(path: &str, task: &OtherTask, gpu: Option<u32>) -> Self {
        Self {
            path: path.to_owned(),
            class: task.class.clone(),
            gpu,
            uid: task.user_id,
        }
    }

    /// How many there are, by user; nothing where there are none.
    pub(super) fn text(others: &[Self]) -> String {
        let mut users = BTreeMap::new();
        for other in others {
            *users.entry(other.uid).or_insert(0_usize) += 1;
        }
        let users: Vec<_> = users
            .into_iter()
            .map(|(uid, tasks)| format!("{tasks} of user {uid}"))
            .collect();
        if users.is_empty() {
            return String::new();
        }
        format!("\nother tasks: {}\n", users.join(", "))
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Response {
    pub(super) p50: u64,
    pub(super) p99: u64,
    pub(super) max: u64,
}

impl Task {
    pub(super) const HEADS: [&'static str; 15] = [
        "TASK", "CLASS", "PHASE", "GPU", "PID", "RESIDENT", "SWAPPED", "VOLUME", "HOST", "COUNTED",
        "JOBS", "MISSES", "P50", "P99", "MAX",
    ];
    /// The columns of words.
    pub(super) const WORDS: [usize; 3] = [0, 1, 2];
    /// The columns that a narrow terminal has no room for, in this order: MAX, HOST, VOLUME, COUNTED, P50, PID,
    /// CLASS, GPU, P99, SWAPPED.
    pub(super) const FIRST_TO_GO: [usize; 10] = [14, 8, 7, 9, 12, 4, 1, 3, 13, 6];

    /// The heads of the rows of [`Self::turns_row`], of which the first column alone is words.
    pub(super) const TURNS_HEADS: [&'static str; 6] = [
        "BEST-EFFORT",
        "GPU",
        "WEIGHT",
        "SHARE",
        "SWAPPING",
        "LONGEST WAIT",
    ];

    pub(super) fn new(path: &str, task: &TaskProperties, gpu: Option<u32>) -> Self {
        Self {
            path: path.to_owned(),
            name: task.name.clone(),
            class: task.class.clone(),
            phase: task.phase.clone(),
            gpu,
            uid: task.user_id,
            pid: task.process_id,
            pids: task.process_ids.clone(),
            period_us: task.period_usec,
            deadline_us: task.deadline_usec,
            wcet_us: task.wcet_usec,
            weight: task.weight,
            idle_after_us: task.idle_after_usec,
            gpu_memory_limit_bytes: limit(task.gpu_memory_limit_bytes),
            pinned_memory_limit_bytes: limit(task.pinned_memory_limit_bytes),
            on_violation: task.on_violation.clone(),
            leased: task.leased,
            footprint_bytes: task.footprint_bytes,
            swappable_bytes: task.swappable_bytes,
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
            gpu_share: f64::from(task.gpu_share_ppm) / 1e6,
            swap_share: f64::from(task.swap_share_ppm) / 1e6,
            longest_wait_us: task.longest_wait_usec,
            violations: task.violations,
            counting_since_us: task.counting_since_usec,
            waits: said(&task.waits),
            last_deadline_miss: said(&task.last_deadline_miss),
            last_violation: said(&task.last_violation),
        }
    }

    pub(super) fn row(&self) -> Vec<String> {
        vec![
            self.name.clone(),
            self.class.clone(),
            self.phase.clone(),
            self.gpu_text(),
            match (self.pid, self.pids.len()) {
                (0, _) => "-".to_owned(),
                (pid, 0 | 1) => pid.to_string(),
                (pid, all) => format!("{pid}+{}", all - 1),
            },
            bytes(self.resident_bytes),
            bytes(self.swapped_bytes),
            bytes(self.swap_volume_bytes),
            bytes(self.backing_bytes),
            age(self.counting_since_us),
            self.jobs.to_string(),
            self.deadline_misses.to_string(),
            ms(self.response_us.p50),
            ms(self.response_us.p99),
            ms(self.response_us.max),
        ]
    }

    fn gpu_text(&self) -> String {
        self.gpu
            .map_or_else(|| "-".to_owned(), |gpu| gpu.to_string())
    }

    /// Whether it has turns: not a realtime task, except while it loads.
    pub(super) fn takes_turns(&self) -> bool {
        let had_turns = self.gpu_share > 0.0 || self.swap_share > 0.0 || self.longest_wait_us > 0;
        had_turns || self.class == "best-effort"
    }

    /// Its turns, if it has any.
    pub(super) fn turns_row(&self) -> Option<Vec<String>> {
        self.takes_turns().then(|| {
            vec![
                self.name.clone(),
                self.gpu_text(),
                self.weight.to_string(),
                percent(self.gpu_share),
                percent(self.swap_share),
                seconds(self.longest_wait_us),
            ]
        })
    }

    /// The lines under the row: why it waits, if for more than the jobs before it, and its last violation.
    pub(super) fn notes(&self) -> impl Iterator<Item = (Style, String)> {
        let waits = self.waits.as_ref().map(|why| format!("  waits: {why}\n"));
        let violation = self.last_violation.as_ref();
        let violated = violation.map(|last| match self.violations {
            0 | 1 => format!("  violation: {last}\n"),
            all => format!("  {all} violations, the last: {last}\n"),
        });
        let waits = waits.map(|line| (Style::Warning, line));
        waits
            .into_iter()
            .chain(violated.map(|line| (Style::Bad, line)))
    }
}

fn said(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// For how long there have been counts that began at `since`, in µs since 1970; a dash if that is not known.
pub(super) fn age(since: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let Some(seconds) = now
        .ok()
        .and_then(|now| now.as_secs().checked_sub(since / 1_000_000))
    else {
        return "0 s".to_owned();
    };
    match seconds {
        _ if since == 0 => "-".to_owned(),
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_dated_by_their_age() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let ago = |seconds: u64| age((now.as_secs() - seconds) * 1_000_000);
        assert_eq!(age(0), "-");
        assert_eq!(age(u64::MAX), "0 s");
        assert_eq!(ago(130), "2 min");
        assert_eq!(ago(3 * 3_600 + 60), "3 h");
        assert_eq!(ago(3 * 86_400 + 60), "3 d");
    }
}
