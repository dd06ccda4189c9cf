//! What `cargo xtask demo` shows: four tasks that do not fit, on the bare GPU and under rtswap.

mod bare;
mod bench;
mod child;
mod cli;
mod interrupt;
mod managed;
mod report;
mod stalls;
mod status;
mod tasks;
mod witness;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use crate::bare::Bare;
use crate::bench::Bench;
use crate::cli::Options;
use crate::interrupt::Interrupt;
use crate::managed::Outcome;
use crate::report::{GuestReport, Report, TaskReport};
use crate::tasks::{Guest, Task};

fn main() -> ExitCode {
    let options = Options::parse();
    match show(&options) {
        Ok(report) => {
            if options.json {
                println!(
                    "{}",
                    serde_json::to_string(&report).expect("a report is plain JSON")
                );
            } else {
                println!("{report}");
            }
            let sound = report.checksum_errors == 0 && report.unexplained_bytes().unwrap_or(0) == 0;
            ExitCode::from(u8::from(!sound))
        }
        Err(error) => {
            eprintln!("rtswap-demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn show(options: &Options) -> Result<Report> {
    let interrupt = Interrupt::watch()?;
    let bench = Bench::new(options)?;
    bench::check_host(&bench)?;
    let info = bench.gpu_info("rtswap")?;
    let model = bench.model(&info, options.best_effort);
    let (tasks, guests) = (model.tasks(), model.guests(options.best_effort));
    let oversubscription = model.oversubscription(&tasks);
    let longest = tasks
        .iter()
        .map(|task| task.period)
        .max()
        .unwrap_or_default();
    // Text goes to standard error, so that standard output holds the report and nothing else.
    eprintln!(
        "{}: {} MiB; {} tasks that need {oversubscription:.2} times that\n\n1. On the bare GPU",
        info.name,
        info.memory_bytes >> 20,
        tasks.len()
    );
    let bare = bare::run(&bench, &tasks, &interrupt)?;
    for Bare {
        name,
        completed,
        complaint,
    } in &bare
    {
        let complaint = complaint
            .strip_prefix(&format!("{name}: "))
            .unwrap_or(complaint);
        let fared = if *completed { "ran" } else { complaint };
        eprintln!("   {name:<10} {fared}");
    }
    eprintln!(
        "\n2. Under rtswap, about {} s",
        (longest * options.jobs).as_secs()
    );
    let span = longest * options.jobs;
    let programs = (&tasks[..], &guests[..]);
    let managed = managed::run(&bench, (&model, &info), programs, span, &interrupt)?;
    let link = bench.link_gib_per_s();
    let reports = tasks.iter().zip(&managed.tasks);
    let reports: Vec<_> = reports
        .map(|(task, outcome)| task_report(task, outcome, link))
        .collect();
    let guests = guests.into_iter().zip(&managed.guests);
    let guests: Vec<_> = guests
        .map(|(guest, outcome)| guest_report(guest, outcome, link))
        .collect();
    let wrong = reports.iter().map(|task| task.checksum_errors);
    let wrong = wrong.chain(guests.iter().map(|guest| guest.checksum_errors));
    Ok(Report {
        version: 1,
        oversubscription,
        deadline_misses: reports.iter().map(|task| task.deadline_misses).sum(),
        checksum_errors: wrong.sum(),
        tasks: reports,
        best_effort: guests,
        bare_out_of_memory: bare.iter().any(Bare::out_of_memory),
        host_stalls_ms: managed.stalls,
        witness: managed.crossed,
        utilization: managed.utilization,
    })
}

fn guest_report(guest: Guest, outcome: &Outcome, link: Option<(f64, f64)>) -> GuestReport {
    let Outcome { report, account } = outcome;
    GuestReport {
        name: guest.name,
        jobs: report.jobs,
        checksum_errors: report.checksum_errors,
        response_ms: report.response_ms,
        swapped_bytes: account.swapped(),
        own_bytes: report.d2h_bytes + report.h2d_bytes,
        link_share: link.and_then(|link| account.link_share(link)),
    }
}

fn task_report(task: &Task, outcome: &Outcome, link: Option<(f64, f64)>) -> TaskReport {
    let Outcome { report, account } = outcome;
    TaskReport {
        name: task.name,
        jobs: report.jobs,
        deadline_misses: report.deadline_misses,
        checksum_errors: report.checksum_errors,
        response_ms: report.response_ms,
        swapped_bytes: account.swapped(),
        own_bytes: report.d2h_bytes + report.h2d_bytes,
        period_ms: task.period.as_millis(),
        link_share: link.and_then(|link| account.link_share(link)),
    }
}
