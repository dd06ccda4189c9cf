//! Eq. (1): how the models of an application divide its memory.

use anyhow::Result;
use rtswap_eval::swapnet::applications::{APPLICATIONS, divided, prepare};
use rtswap_eval::swapnet::models::{Device, VGG};

use crate::chart::Bars;
use crate::report::{Cell, Report, Table, row};

pub(crate) fn report() -> Result<Report> {
    let mut report = Report::new("swapnet-budgets", "budgets of models that share memory");
    let prepared = prepare(&Device::NX)?;
    let mut groups = Vec::new();
    let mut series = vec![
        ("published".to_owned(), Vec::new()),
        ("Eq. (1)".to_owned(), Vec::new()),
    ];
    for application in &APPLICATIONS {
        let columns = "model | count | size | published | by size alone | Eq. (1) | equal";
        let mut table = Table::new(format!("{}: MB of 2^20 bytes", application.name), columns);
        let shares = divided(&prepared, application)?;
        let tasks = application.tasks;
        let models: u32 = tasks.iter().map(|task| task.count).sum();
        let mut at = 0;
        // What VGG-19 does not take, the others divide.
        let is_fixed = |model| model == VGG;
        let others = || tasks.iter().filter(|task| !is_fixed(task.model));
        let taken: u64 = tasks
            .iter()
            .filter(|task| is_fixed(task.model))
            .map(|task| task.budget)
            .sum();
        let size = others()
            .map(|task| u64::from(task.count) * task.model.megabytes)
            .sum::<u64>() as f64;
        for task in tasks {
            let by_size = (!is_fixed(task.model)).then(|| {
                let share = task.model.megabytes as f64 / size;
                share * (application.memory - taken) as f64
            });
            let share = shares.as_ref().map(|shares| shares[at]);
            at += task.count as usize;
            let mut cells = row![
                task.model.name,
                task.count,
                task.model.megabytes,
                task.budget
            ];
            let equal = application.memory as f64 / f64::from(models);
            let numbers = [by_size, share, Some(equal)];
            let number = |one: Option<f64>| one.map_or(Cell::Nothing, |one| Cell::Number(one, 1));
            cells.extend(numbers.map(number));
            table.rows.push(cells);
            groups.push(task.model.name.to_owned());
            series[0].1.push(task.budget as f64);
            series[1].1.push(share.unwrap_or_default());
        }
        report.tables.push(table);
    }
    report.note(
        "the published budgets are in proportion to the models' sizes, to within 1 MB, once VGG-19 has what its largest layer \
         needs: the second term of Eq. (1) does not show in them",
    );
    report.note(
        "Eq. (1) with urgency 1 and the latencies of the other figures; no model gets less than its least budget or more than \
         its size",
    );
    report.svg = Bars {
        title: "Budgets of models that share memory",
        y: "MB",
        groups,
        series,
    }
    .svg()?;
    Ok(report)
}
