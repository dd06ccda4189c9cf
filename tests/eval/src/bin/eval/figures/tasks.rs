//! Fig. 7(a), and how many of its sets each admission test admits.

use anyhow::Result;
use rtswap_eval::figures::admitted::{COLUMNS, count};
use rtswap_eval::figures::approach::{Approach, Assumptions, Judge};
use rtswap_eval::figures::generate::Growing;
use rtswap_eval::figures::published;
use rtswap_eval::figures::sensitivity::cases;
use rtswap_eval::figures::tasks::{Row, draw, row as admitted, totals};
use rtswap_eval::figures::workload::Reading;
use rtswap_policy::admission::Test;

use super::{SEEDS, SETS, approaches, lines};
use crate::report::{Cell, Report, Table, row};

pub(crate) fn report(test: Test) -> Result<Report> {
    let mut report = Report::new("fig7a", "task sets admitted, by the number of tasks");
    report.test = Some(test.name());
    report.seeds = SEEDS.to_vec();
    let rows = figure(test, Assumptions::default(), SEEDS[0]);
    let all = totals(&rows);
    for ((number, approach), ratio) in published::RATIOS
        .into_iter()
        .zip(&Approach::ALL[1..])
        .zip(ratios(all))
    {
        let what = format!("sets of RT-Swap over those of {}", approach.name());
        report.compare(what, "", number, ratio);
    }
    for (tasks, number) in published::OVERFLOW_GB {
        let row = rows.iter().find(|row| row.tasks == tasks);
        let (what, ours) = (
            format!("mean overflow, {tasks} tasks"),
            row.map(|row| row.overflow),
        );
        report.compare(what, "GB", number, ours);
    }
    let title = format!("sets admitted of {SETS}, seed {}", SEEDS[0]);
    let mut table = Table::new(title, &(approaches("tasks") + " | overflow GB"));
    for r in &rows {
        let mut cells = row![r.tasks];
        cells.extend(r.admitted.map(Cell::from));
        cells.extend(row![r.overflow]);
        table.rows.push(cells);
    }
    let mut cells = row!["all"];
    cells.extend(all.map(Cell::from));
    cells.extend(row![None::<f64>]);
    table.rows.push(cells);
    report.tables.push(table);
    report.tables.push(by_seed(test));
    report.tables.push(by_test());
    report.tables.push(sensitivity(test));
    report.note(
        "the ratios hang on the swap-in cost per chunk, which is not published, on how MO-VMM is \
         modelled and on what paging costs Base; see the last table",
    );
    report.note(
        "sets of 4 tasks with 23 to 24 GB can only be two YOLOv3 608 and two ResNext 608, or one \
         and three; any task more exceeds 24 GB, as the paper's footnote says",
    );
    let line = |place: usize| {
        let admitted = rows
            .iter()
            .map(|row| (row.tasks as f64, row.admitted[place]));
        admitted.collect()
    };
    report.svg = lines("Task sets admitted (modelled)", "tasks", line).svg()?;
    Ok(report)
}

fn figure(test: Test, assumptions: Assumptions, seed: u64) -> Vec<Row> {
    let judge = Judge::new(test, assumptions, seed);
    let sets = draw(seed, SETS);
    Growing::sizes()
        .map(|tasks| admitted(&judge, &sets, tasks))
        .collect()
}

/// RT-Swap over each of the others.
fn ratios(totals: [u32; 5]) -> [Option<f64>; 4] {
    let [best, others @ ..] = totals;
    others.map(|other| (other > 0).then(|| f64::from(best) / f64::from(other)))
}

fn by_seed(test: Test) -> Table {
    let runs = SEEDS.map(|seed| (seed.into(), figure(test, Assumptions::default(), seed)));
    in_all("by seed: sets admitted of 1000, and ratios", "seed", runs)
}

fn sensitivity(test: Test) -> Table {
    let title = format!("if one thing is assumed otherwise, seed {}", SEEDS[0]);
    let runs = cases().map(|case| {
        let rows = figure(test, case.assumptions, SEEDS[0]);
        (case.name.into(), rows)
    });
    in_all(&title, "assumption", runs)
}

fn in_all<const N: usize>(title: &str, first: &str, runs: [(Cell, Vec<Row>); N]) -> Table {
    let columns = "RT-Swap | over MIN | over MO-VMM | over Pageable | over Base";
    let mut table = Table::new(title, &format!("{first} | {columns}"));
    for (name, rows) in runs {
        let all = totals(&rows);
        let mut cells = row![name, all[0]];
        cells.extend(ratios(all).map(Cell::from));
        table.rows.push(cells);
    }
    table
}

/// All tests on the same sets, whatever test the rest is under.
fn by_test() -> Table {
    let columns = COLUMNS.map(|column| match column.test {
        Test::Pipelined => format!("pipelined {:.1}", f64::from(column.duplex.0) / 1e6),
        other => other.name().into(),
    });
    let [first, others @ ..] = columns;
    let mut table = Table::new(
        "RT-Swap by admission test: sets admitted of 1000 a seed, and over theorem1",
        &format!("seed | {first} | {} | ratio", others.join(" | ratio | ")),
    );
    let mut push = |name: String, counts: [u32; COLUMNS.len()]| {
        let mut cells = row![name, counts[0]];
        for &more in &counts[1..] {
            let ratio = f64::from(more) / f64::from(counts[0]);
            cells.extend(row![more, Cell::Number(ratio, 3)]);
        }
        table.rows.push(cells);
    };
    let mut all = [0; COLUMNS.len()];
    for seed in SEEDS {
        let sets = draw(seed, SETS);
        let counts = COLUMNS.map(|column| count(column, &Reading::default(), &sets));
        for (sum, count) in all.iter_mut().zip(counts) {
            *sum += count;
        }
        push(seed.to_string(), counts);
    }
    push("all".into(), all);
    table
}
