//! All that is known of one task.

use super::task::{Task, age};
use crate::table::{bytes, ms, percent, seconds, wrapped};

impl Task {
    /// A paragraph, its lines labelled.
    pub(super) fn write_details(&self, text: &mut String, width: Option<usize>) {
        let mut line = |label: &str, value: &str| {
            text.push_str(&wrapped(&format!("  {label:<12}{value}"), 14, width));
        };
        let place = match self.gpu {
            Some(gpu) => format!("on GPU {gpu}"),
            None => "on no GPU yet".to_owned(),
        };
        let heads = format!(
            "{}, {} {place}, of user {}",
            self.class, self.phase, self.uid
        );
        line("task", &format!("{}: {heads}", self.name));
        let pids: Vec<_> = self.pids.iter().map(u32::to_string).collect();
        if !pids.is_empty() {
            line("processes", &pids.join(", "));
        }
        let mut declared = Vec::new();
        for (what, usec) in [
            ("period", self.period_us),
            ("deadline", self.deadline_us),
            ("WCET", self.wcet_us),
        ] {
            if usec > 0 {
                declared.push(format!("{what} {}", ms(usec)));
            }
        }
        for (what, size) in [
            ("footprint", self.footprint_bytes),
            ("swappable", self.swappable_bytes),
        ] {
            if size > 0 {
                declared.push(format!("{what} {}", bytes(size)));
            }
        }
        declared.push(format!("weight {}", self.weight));
        if self.idle_after_us > 0 {
            declared.push(format!("idle after {}", seconds(self.idle_after_us)));
        }
        if self.leased {
            declared.push("until its lease ends".to_owned());
        }
        line("declared", &declared.join(", "));
        let policy = self.policy_parts();
        if !policy.is_empty() {
            line("policy", &policy.join(", "));
        }
        let volume = match self.swap_volume_bytes {
            0 => String::new(),
            volume => format!(" of at most {}", bytes(volume)),
        };
        line(
            "memory",
            &format!(
                "{} on the GPU of {} allowed, {} swapped out{volume}; {} of host memory pinned",
                bytes(self.resident_bytes),
                bytes(self.budget_bytes),
                bytes(self.swapped_bytes),
                bytes(self.backing_bytes),
            ),
        );
        line(
            "jobs",
            &format!(
                "{} in {}, {}; responses p50 {}, p99 {}, longest {}",
                self.jobs,
                age(self.counting_since_us),
                self.lateness(),
                ms(self.response_us.p50),
                ms(self.response_us.p99),
                ms(self.response_us.max),
            ),
        );
        line(
            "swaps",
            &format!(
                "{} out ({}), {} in ({})",
                bytes(self.swap_out_bytes_total),
                seconds(self.swap_out_us_total),
                bytes(self.swap_in_bytes_total),
                seconds(self.swap_in_us_total),
            ),
        );
        if self.takes_turns() {
            line(
                "turns",
                &format!(
                    "{} of the GPU and {} spent swapping in the last minutes, longest wait {}",
                    percent(self.gpu_share),
                    percent(self.swap_share),
                    seconds(self.longest_wait_us),
                ),
            );
        }
        if let Some(why) = &self.waits {
            line("waits", why);
        }
        if let Some(last) = &self.last_deadline_miss {
            line("last miss", last);
        }
        if let Some(last) = &self.last_violation {
            line(
                "violations",
                &format!("{}, the last: {last}", self.violations),
            );
        }
    }

    /// What the policy says of it beside its class, its times and its weight.
    fn policy_parts(&self) -> Vec<String> {
        let mut parts = Vec::new();
        for (what, most) in [
            ("of GPU memory", self.gpu_memory_limit_bytes),
            ("of pinned memory", self.pinned_memory_limit_bytes),
        ] {
            parts.extend(most.map(|most| format!("at most {} {what}", bytes(most))));
        }
        match self.on_violation.as_str() {
            "demote" => parts.push("best-effort after a violation".to_owned()),
            "kill" => parts.push("killed after a violation".to_owned()),
            _ => {}
        }
        parts
    }

    fn lateness(&self) -> String {
        match self.deadline_misses {
            0 => "none late".to_owned(),
            late => format!("{late} late by at most {}", ms(self.max_lateness_us)),
        }
    }
}
