//! Fig. 5 and 6.

use anyhow::Result;
use rtswap_eval::figures::schedules::{Kind, Panel, figure_5, figure_6};
use rtswap_policy::admission::Test;

use super::millis;
use crate::report::{Report, Table, row};
use crate::timeline;

pub(crate) fn unnecessary_swaps(_: Test) -> Result<Report> {
    let mut report = Report::new("fig5", "swap-in and execution without preemption");
    let panels = figure_5()?;
    show(&mut report, &panels)?;
    report.note(
        "the paper's figure has m = 100 each, x = 0, 50, 50 and a GPU of 250, and so has ours; it \
         gives no times. Here swapping out takes 4 ms, in 6 ms; tau3 is scheduled as soon as it \
         is released",
    );
    report.note(
        "5(a) is what a scheduler without the rule does. Ours has no such mode: its bars are \
         written down by the paper's text with the spans of 5(b), not played",
    );
    Ok(report)
}

pub(crate) fn blocking(_: Test) -> Result<Report> {
    let mut report = Report::new("fig6", "who may be swapped in early, and blocking");
    let panels = figure_6()?;
    show(&mut report, &panels)?;
    let mut table = Table::new(
        "how long the job of `high` waits, in ms, and the bound of Eq. (2)",
        "panel | waits | bound | within",
    );
    for panel in &panels {
        if let Some((waited, bound)) = panel.blocking {
            let within = if waited <= bound { "yes" } else { "no" };
            let cells = row![panel.name, millis(waited), millis(bound), within];
            table.rows.push(cells);
        }
    }
    report.tables.push(table);
    report.note("the paper's figure gives no times; all spans are ours");
    report.note(
        "6(a) is what a scheduler without the rule does. Ours has no such mode: its bars are \
         written down by the paper's text with the spans of 6(b), not played",
    );
    Ok(report)
}

fn show(report: &mut Report, panels: &[Panel]) -> Result<()> {
    for panel in panels {
        let how = if panel.played {
            "played"
        } else {
            "written down"
        };
        let mut table = Table::new(
            format!("{} ({how}): {}", panel.name, panel.shows),
            "task | what | from ms | to ms",
        );
        for (task, at) in &panel.releases {
            let name = panel.tasks[*task].as_str();
            let cells = row![name, "released", millis(*at), None::<f64>];
            table.rows.push(cells);
        }
        for bar in &panel.bars {
            let what = match bar.kind {
                Kind::Run => "runs",
                Kind::Out => "swapped out",
                Kind::In => "swapped in",
            };
            let name = panel.tasks[bar.task].as_str();
            let cells = row![name, what, millis(bar.from), millis(bar.to)];
            table.rows.push(cells);
        }
        report.tables.push(table);
    }
    report.svg = timeline::svg(panels)?;
    Ok(())
}
