//! What the demonstration shows at its end.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::stalls::Stalls;
use crate::witness::Crossed;

/// A time over all jobs, in ms.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Times {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

/// What `dnn` reports of itself.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct DnnReport {
    /// Jobs that count.
    pub jobs: u64,
    /// Those that completed after their deadline.
    pub deadline_misses: u64,
    /// Wrong results.
    pub checksum_errors: u64,
    /// From release to completion.
    pub response_ms: Times,
    /// The program's own copies.
    pub d2h_bytes: u64,
    /// The program's own copies.
    pub h2d_bytes: u64,
}

/// One task under rtswap.
#[derive(Debug, Serialize)]
pub(crate) struct TaskReport {
    pub name: &'static str,
    pub jobs: u64,
    pub deadline_misses: u64,
    pub checksum_errors: u64,
    pub response_ms: Times,
    /// Both ways, by the daemon's account.
    pub swapped_bytes: u64,
    /// The program's own copies, both ways.
    #[serde(skip)]
    pub own_bytes: u64,
    #[serde(skip)]
    pub period_ms: u128,
    /// Swap rate while swapping, as a share of the modelled link; none on a real GPU.
    #[serde(skip)]
    pub link_share: Option<f64>,
}

/// One best-effort program under rtswap.
#[derive(Debug, Serialize)]
pub(crate) struct GuestReport {
    pub name: String,
    pub jobs: u64,
    pub checksum_errors: u64,
    pub response_ms: Times,
    /// Both ways, by the daemon's account.
    pub swapped_bytes: u64,
    /// The program's own copies, both ways.
    #[serde(skip)]
    pub own_bytes: u64,
    /// As of a task.
    #[serde(skip)]
    pub link_share: Option<f64>,
}

/// All of it.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub version: u32,
    pub oversubscription: f64,
    pub tasks: Vec<TaskReport>,
    pub best_effort: Vec<GuestReport>,
    pub deadline_misses: u64,
    pub checksum_errors: u64,
    pub bare_out_of_memory: bool,
    pub host_stalls_ms: Stalls,
    /// All bytes that crossed the link in the second phase; none on a real GPU.
    pub witness: Option<Crossed>,
    /// Of the plan, swaps included.
    #[serde(skip)]
    pub utilization: f64,
}

const MIB: f64 = 1_048_576.0;

impl Report {
    /// Bytes that the witness counted and neither rtswap nor the programs account for, or the other
    /// way round: must be 0. None without a witness.
    pub(crate) fn unexplained_bytes(&self) -> Option<u64> {
        let tasks = self.tasks.iter();
        let tasks = tasks.map(|task| task.swapped_bytes + task.own_bytes);
        let guests = self.best_effort.iter();
        let guests = guests.map(|guest| guest.swapped_bytes + guest.own_bytes);
        let accounted: u64 = tasks.chain(guests).sum();
        self.witness
            .map(|crossed| crossed.total().abs_diff(accounted))
    }
}

/// One line of the table.
struct Row<'report> {
    name: &'report str,
    period: String,
    jobs: u64,
    misses: String,
    response_ms: Times,
    swapped_bytes: u64,
    link_share: Option<f64>,
    wrong: u64,
}

impl Row<'_> {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Times { p50, p99, max } = self.response_ms;
        let swapped = self.swapped_bytes as f64 / MIB;
        let share = self
            .link_share
            .map_or("-".into(), |share| format!("{:.0} %", share * 1e2));
        writeln!(
            f,
            "{:<10}{:>9}{:>7}{:>8}{p50:>7.0} ms{p99:>7.0} ms{max:>7.0} ms{swapped:>8.0} MiB{share:>8}{:>8}",
            self.name, self.period, self.jobs, self.misses, self.wrong
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<10}{:>9}{:>7}{:>8}{:>10}{:>10}{:>10}{:>12}{:>8}{:>8}",
            "task", "period", "jobs", "misses", "p50", "p99", "max", "swapped", "link", "wrong"
        )?;
        for task in &self.tasks {
            Row {
                name: task.name,
                period: format!("{} ms", task.period_ms),
                jobs: task.jobs,
                misses: task.deadline_misses.to_string(),
                response_ms: task.response_ms,
                swapped_bytes: task.swapped_bytes,
                link_share: task.link_share,
                wrong: task.checksum_errors,
            }
            .write(f)?;
        }
        for guest in &self.best_effort {
            Row {
                name: &guest.name,
                period: "-".into(),
                jobs: guest.jobs,
                misses: "-".into(),
                response_ms: guest.response_ms,
                swapped_bytes: guest.swapped_bytes,
                link_share: guest.link_share,
                wrong: guest.checksum_errors,
            }
            .write(f)?;
        }
        writeln!(
            f,
            "\n{:.2} times the GPU's memory, planned utilization {:.0} %",
            self.oversubscription,
            self.utilization * 1e2
        )?;
        writeln!(
            f,
            "{} deadline misses (the host itself stalled for {:.0} ms in all, {:.0} ms at most), {} wrong results",
            self.deadline_misses,
            self.host_stalls_ms.total,
            self.host_stalls_ms.max,
            self.checksum_errors
        )?;
        match self.witness {
            Some(Crossed {
                d2h_bytes,
                h2d_bytes,
            }) => write!(
                f,
                "witness: the simulated GPU counted {:.0} MiB out and {:.0} MiB in, {} bytes apart from \
                 rtswap's account",
                d2h_bytes as f64 / MIB,
                h2d_bytes as f64 / MIB,
                self.unexplained_bytes().unwrap_or_default()
            ),
            None => write!(
                f,
                "no witness on a real GPU: swapped bytes are the daemon's own count"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report() -> Report {
        Report {
            version: 1,
            oversubscription: 1.9,
            tasks: vec![TaskReport {
                name: "detect",
                jobs: 42,
                deadline_misses: 0,
                checksum_errors: 0,
                response_ms: Times {
                    p50: 100.0,
                    p99: 300.0,
                    max: 400.4,
                },
                swapped_bytes: 64 << 20,
                own_bytes: 0,
                period_ms: 1400,
                link_share: Some(0.876),
            }],
            best_effort: vec![GuestReport {
                name: "endless-1".into(),
                jobs: 7,
                checksum_errors: 0,
                response_ms: Times::default(),
                swapped_bytes: 32 << 20,
                own_bytes: 0,
                link_share: None,
            }],
            deadline_misses: 0,
            checksum_errors: 0,
            bare_out_of_memory: true,
            host_stalls_ms: Stalls {
                total: 12.0,
                max: 7.0,
                most_in_a_second: 9.0,
            },
            witness: Some(Crossed {
                d2h_bytes: 1 << 20,
                h2d_bytes: 2 << 20,
            }),
            utilization: 0.53,
        }
    }

    #[test]
    fn json_has_the_contracts_keys() {
        let value = serde_json::to_value(report()).unwrap();
        assert_eq!(
            value["tasks"][0]["response_ms"],
            json!({"p50": 100.0, "p99": 300.0, "max": 400.4})
        );
        assert_eq!(
            value["witness"],
            json!({"d2h_bytes": 1 << 20, "h2d_bytes": 2 << 20})
        );
        assert_eq!(
            value["host_stalls_ms"],
            json!({"total": 12.0, "max": 7.0, "most_in_a_second": 9.0})
        );
        let mut keys: Vec<_> = value
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        keys.sort_unstable();
        assert_eq!(
            keys,
            [
                "bare_out_of_memory",
                "best_effort",
                "checksum_errors",
                "deadline_misses",
                "host_stalls_ms",
                "oversubscription",
                "tasks",
                "version",
                "witness"
            ]
        );
    }

    #[test]
    fn the_table_lines_up() {
        let text = report().to_string();
        let mut lines = text.lines();
        let (head, row) = (lines.next().unwrap(), lines.next().unwrap());
        let guest = lines.next().unwrap();
        assert_eq!(head.chars().count(), row.chars().count(), "{text}");
        assert_eq!(head.chars().count(), guest.chars().count(), "{text}");
        assert!(
            row.contains("1400 ms") && row.contains("64 MiB") && row.contains("88 %"),
            "{row}"
        );
        assert!(text.contains("1 MiB out and 2 MiB in"));
    }
}
