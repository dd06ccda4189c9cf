//! Best-effort programs that do not fit together: our policy beside others.

use anyhow::Result;
use rtswap_eval::figures::best_effort::{
    Comparison, DURATION, Outcome, Policy, WAITS, compare, seconds,
};
use rtswap_policy::admission::Test;
use rtswap_simulator::workload::Mix;

use super::{SEEDS, gibibytes};
use crate::chart::Bars;
use crate::report::{Cell, Report, Table, row};

const HEADS: &str = "throughput % | p50 | p99 | longest wait s | GiB a minute | fairness";

pub(crate) fn report(_: Test) -> Result<Report> {
    let mut report = Report::new("besteffort", "best-effort programs that share one GPU");
    report.seeds = SEEDS.to_vec();
    let all = compare(DURATION, &SEEDS)?;
    for both in all.chunk_by(|one, next| one.card.name == next.card.name) {
        report.tables.push(policies(both));
    }
    report.tables.push(by_wait(&all));
    report.tables.push(beaten(&all));
    notes(&mut report);
    let small: Vec<_> = all
        .iter()
        .filter(|it| it.card.name == all[0].card.name)
        .collect();
    let throughput = bars(
        &small,
        "Computing over the ideal (modelled)",
        "%",
        |outcome| Some(100.0 * outcome.throughput),
    );
    let slowdown = bars(
        &small,
        "99th percentile of responses over the response alone (modelled)",
        "times",
        |outcome| Some(outcome.slowdown?[1]),
    );
    report.svg = throughput.svg_above(&slowdown)?;
    Ok(report)
}

/// All mixes on one card.
fn policies(comparisons: &[Comparison]) -> Table {
    let card = comparisons[0].card;
    let title = format!(
        "{}: programs of {:.0} GiB each",
        card.name,
        gibibytes(card.footprint)
    );
    let mut table = Table::new(title, &format!("programs | policy | {HEADS}"));
    for one in comparisons {
        for (policy, outcome) in Policy::ALL.iter().zip(&one.outcomes) {
            let mut cells = row![one.mix.name, policy.name()];
            cells.extend(numbers(outcome));
            table.rows.push(cells);
        }
    }
    table
}

/// Ours, when programs may wait longer.
fn by_wait(comparisons: &[Comparison]) -> Table {
    let heads = format!("GPU | programs | longest_wait_s | {HEADS}");
    let mut table = Table::new("ours by the longest wait that is configured", &heads);
    for one in comparisons {
        for (wait, outcome) in WAITS.iter().zip(&one.by_wait) {
            let mut cells = row![one.card.name, one.mix.name, Cell::Number(seconds(*wait), 0)];
            cells.extend(numbers(outcome));
            table.rows.push(cells);
        }
    }
    table
}

/// Where another policy computes as much as ours and lets nobody wait longer.
fn beaten(comparisons: &[Comparison]) -> Table {
    let heads = "GPU | programs | policy | its throughput % | ours | its wait | ours";
    let title = "where another policy is better in one and not worse in the other; the wait is p99, or the \
                 longest in s where no user waits";
    let mut table = Table::new(title, heads);
    for one in comparisons {
        let [ours, others @ ..] = &one.outcomes;
        for (policy, other) in Policy::ALL[1..].iter().zip(others) {
            if ours.is_beaten_by(other) {
                let mut cells = row![one.card.name, one.mix.name, policy.name()];
                for share in [other.throughput, ours.throughput] {
                    cells.push(Cell::Number(100.0 * share, 1));
                }
                cells.extend(row![other.waiting(), ours.waiting()]);
                table.rows.push(cells);
            }
        }
    }
    table
}

fn numbers(outcome: &Outcome) -> Vec<Cell> {
    let [median, tail] = outcome.slowdown.map_or([None; 2], |both| both.map(Some));
    vec![
        Cell::Number(100.0 * outcome.throughput, 1),
        Cell::from(median),
        Cell::from(tail),
        Cell::Number(seconds(outcome.longest_wait), 1),
        Cell::Number(gibibytes(outcome.moved), 1),
        Cell::Number(outcome.fairness, 3),
    ]
}

fn notes(report: &mut Report) {
    let minutes = seconds(DURATION) / 60.0;
    report.note(format!(
        "{minutes:.0} simulated minutes for each seed; the same scheduler drives all policies, with the \
         default swap_share and, unless the table says otherwise, longest_wait_s",
    ));
    report.note(
        "throughput: GPU time of all programs over that of an ideal GPU that holds them all, which is what \
         they do alone, at most all of the time",
    );
    report.note(
        "p50 and p99: response times of what a user waits for (a chat's answer, a series of images), from \
         the request to the end, over what it takes alone",
    );
    report.note("longest wait: of any job, from its request or its revocation to its grant");
    report.note("GiB a minute: moved in both directions");
    report.note("fairness: Jain's index of each program's GPU time over its max-min fair share of the ideal");
}

/// A group for each mix, with a bar for each policy.
fn bars(
    comparisons: &[&Comparison],
    title: &'static str,
    y: &'static str,
    value: impl Fn(&Outcome) -> Option<f64>,
) -> Bars {
    let shown = comparisons
        .iter()
        .filter(|one| value(&one.outcomes[0]).is_some());
    let shown: Vec<_> = shown.collect();
    let series = Policy::ALL.iter().enumerate().map(|(place, policy)| {
        let values = shown.iter().filter_map(|one| value(&one.outcomes[place]));
        (policy.name().into(), values.collect())
    });
    Bars {
        title,
        y,
        groups: shown.iter().map(|one| initials(&one.mix)).collect(),
        series: series.collect(),
    }
}

/// Its programs by their first letters.
fn initials(mix: &Mix) -> String {
    let letters = mix.programs.iter().map(|program| {
        let name = format!("{program:?}");
        name.chars().take(1).collect::<String>()
    });
    letters.collect::<Vec<_>>().join("+")
}
