//! Table IV and what Section VII-C observed with it.

use anyhow::Result;
use rtswap_eval::figures::case_study::{CHUNK, CaseStudy, Observed, Row, Variant, play};
use rtswap_eval::figures::published;
use rtswap_eval::figures::workload::Reading;
use rtswap_policy::admission::Test;
use rtswap_policy::assign::{Assignment, Objective};
use rtswap_policy::units::Bytes;

use super::{gibibytes, mebibytes, millis};
use crate::chart::Bars;
use crate::report::{Cell, Report, Table, row};

pub(crate) fn report(test: Test) -> Result<Report> {
    let mut report = Report::new("table4", "the case study: six tasks, 25.6 GB on 24 GB");
    report.test = Some(test.name());
    let reading = Reading::default();
    let variants = Variant::all(&reading);
    let study = play(test, &reading, &variants[0])?;
    compare(&mut report, &study);
    report.tables.push(played(&study, &variants[0]));
    // The same with swapping as slow as Table IV suggests.
    let slower = Variant {
        percent: 115,
        ..variants[0]
    };
    let slow = play(test, &reading, &slower)?;
    report.tables.push(played(&slow, &slower));
    report.tables.push(plans(test, &reading, &variants));
    report.note(
        "the published latencies and responses were observed on a GPU; ours are the longest of \
         60 s of the model, with every job taking its WCET, all tasks released at once",
    );
    report.note(
        "Base pages at the speed of pinned memory in chunks of 2 MiB, which is kind to it: what a \
         page fault costs is not published",
    );
    let series = |name: &str, observed: fn(&Row) -> Observed| {
        let latencies = study.rows.iter().map(|row| millis(observed(row).latency));
        (name.to_string(), latencies.collect())
    };
    report.svg = Bars {
        title: "Longest latency of each task (modelled)",
        y: "ms",
        groups: (1..=study.rows.len())
            .map(|place| format!("tau{place}"))
            .collect(),
        series: vec![
            series("RT-Swap", |row| row.rtswap),
            series("Base", |row| row.base),
        ],
    }
    .svg()?;
    Ok(report)
}

fn compare(report: &mut Report, study: &CaseStudy) {
    let footprint: Bytes = study.rows.iter().map(|row| row.footprint).sum();
    let what = "footprint of the six tasks";
    let number = published::CASE_FOOTPRINT_GB;
    report.compare(what, "GB", number, gibibytes(footprint));
    for (place, (row, number)) in study.rows.iter().zip(published::VOLUMES_MB).enumerate() {
        let what = format!("swap volume of tau{} ({})", place + 1, row.name);
        report.compare(what, "MB", number, mebibytes(row.volume));
    }
    for (place, number) in published::LATENCY_MS {
        let what = format!("longest latency of tau{}, RT-Swap", place + 1);
        report.compare(what, "ms", number, millis(study.rows[place].rtswap.latency));
    }
    for (place, number) in published::BASE_LATENCY_MS {
        let what = format!("longest latency of tau{}, Base", place + 1);
        report.compare(what, "ms", number, millis(study.rows[place].base.latency));
    }
    let rows = study.rows.iter();
    let longest = rows.clone().map(|row| row.base.response).max();
    let (what, number) = ("longest response, Base", published::BASE_RESPONSE_MS);
    report.compare(what, "ms", number, millis(longest.unwrap_or_default()));
    let shorter = rows.map(|row| millis(row.base.response) / millis(row.rtswap.response));
    let mean = shorter.sum::<f64>() / study.rows.len() as f64;
    let what = "longest response, Base over RT-Swap, mean of the tasks";
    report.compare(what, "", published::RESPONSE_REDUCTION, mean);
}

fn played(study: &CaseStudy, variant: &Variant) -> Table {
    let mut table = Table::new(
        format!(
            "played with chunks of 32 MiB, swapping at {} % of Fig. 4's times; left side of the test {:.4}",
            variant.percent, study.analysis.demand
        ),
        "task | deadline ms | footprint GB | volume MB | latency ms | response ms | jobs | missed | \
         Base: latency | response | jobs | missed",
    );
    for row in &study.rows {
        let mut cells = row![
            row.name.as_str(),
            row.deadline.0 / 1_000_000,
            gibibytes(row.footprint),
            Cell::Number(mebibytes(row.volume), 0)
        ];
        for seen in [&row.rtswap, &row.base] {
            cells.extend(row![
                millis(seen.latency),
                millis(seen.response),
                seen.jobs,
                seen.misses
            ]);
        }
        table.rows.push(cells);
    }
    table
}

fn plans(test: Test, reading: &Reading, variants: &[Variant]) -> Table {
    let mut table = Table::new(
        "swap volumes in MiB, tau1 to tau6, by what is not published",
        "large tasks GB | times % | objective | volumes at 32 MiB | left side | best chunk | volumes | \
         chunks that pass",
    );
    for variant in variants {
        let fixed = variant.plan(test, reading, Some(CHUNK));
        let free = variant.plan(test, reading, None);
        let objective = match variant.objective {
            Objective::Time => "time",
            Objective::Volume => "volume",
        };
        let passing = (1..=8).map(|power| 1_u64 << power).filter(|mib| {
            let chunk = Bytes(mib << 20);
            variant.plan(test, reading, Some(chunk)).is_some()
        });
        table.rows.push(row![
            gibibytes(variant.large),
            variant.percent,
            objective,
            volumes(fixed.as_ref()),
            fixed.map(|plan| Cell::Number(plan.analysis.demand, 4)),
            free.as_ref().map(|plan| plan.chunk.0 >> 20),
            volumes(free.as_ref()),
            joined(passing),
        ]);
    }
    table
}

fn volumes(plan: Option<&Assignment>) -> String {
    let volumes = plan.map(|plan| joined(plan.volumes.iter().map(|x| x.0 >> 20)));
    volumes.unwrap_or_else(|| "not admitted".into())
}

fn joined(numbers: impl Iterator<Item = u64>) -> String {
    let words: Vec<String> = numbers.map(|number| number.to_string()).collect();
    words.join(" ")
}
