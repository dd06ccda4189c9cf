//! Schedules as bars over time, one panel below the other.

use anyhow::Result;
use plotters::element::{PathElement, Rectangle, Text};
use plotters::prelude::*;
use rtswap_eval::figures::schedules::{Kind, Panel};

use crate::chart::{drawn, failed};
use crate::figures::millis;
use crate::palette::colour;

const WIDTH: u32 = 860;
/// Of a panel without its lanes, and of a lane.
const FRAME: u32 = 84;
const LANE: u32 = 34;
const FONT: &str = "sans-serif";

/// All panels over the same time.
pub(crate) fn svg(panels: &[Panel]) -> Result<String> {
    let heights: Vec<u32> = panels
        .iter()
        .map(|panel| FRAME + LANE * panel.tasks.len() as u32)
        .collect();
    let end = panels
        .iter()
        .flat_map(|panel| panel.bars.iter().map(|bar| millis(bar.to)))
        .fold(1.0, f64::max);
    drawn((WIDTH, heights.iter().sum()), |area| {
        let mut rest = area.clone();
        for (panel, &height) in panels.iter().zip(&heights) {
            let (here, below) = rest.split_vertically(height);
            draw(&here, panel, end)?;
            rest = below;
        }
        Ok(())
    })
}

fn draw<DB: DrawingBackend>(
    area: &DrawingArea<DB, plotters::coord::Shift>,
    panel: &Panel,
    end: f64,
) -> Result<()>
where
    DB::ErrorType: 'static,
{
    let lanes = panel.tasks.len();
    let how = if panel.played {
        "played by the scheduler"
    } else {
        "written down, not played"
    };
    // Lanes have their middles at whole numbers, the first task's on top.
    let lane_of = |task: usize| (lanes - 1 - task) as f64;
    let name = |y: f64| {
        let whole = (y - y.round()).abs() < 1e-6;
        let place = (lanes as f64 - 1.0 - y.round()).max(0.0) as usize;
        let found = panel.tasks.get(place).filter(|_| whole && y >= -0.1);
        found.cloned().unwrap_or_default()
    };
    let mut chart = ChartBuilder::on(area)
        .caption(format!("{} ({how})", panel.name), (FONT, 15))
        .margin(8)
        .x_label_area_size(28)
        .y_label_area_size(60)
        .build_cartesian_2d(-end * 0.02..end * 1.02, -0.5..lanes as f64 - 0.5)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(WHITE)
        .y_labels(2 * lanes + 1)
        .y_label_formatter(&|y| name(*y))
        .x_label_formatter(&|x| format!("{x:.0}"))
        .x_desc("ms")
        .draw()
        .map_err(failed)?;
    let bars = panel.bars.iter().map(|bar| {
        let bottom = lane_of(bar.task) - 0.35;
        let (from, to) = (millis(bar.from), millis(bar.to));
        // Executions are high and in the task's colour; copies are low, out above in.
        let (low, high, paint) = match bar.kind {
            Kind::Run => (bottom, bottom + 0.7, colour(bar.task).filled()),
            Kind::Out => (
                bottom + 0.36,
                bottom + 0.7,
                RGBColor(190, 190, 190).filled(),
            ),
            Kind::In => (bottom, bottom + 0.34, RGBColor(110, 110, 110).filled()),
        };
        Rectangle::new([(from, low), (to, high)], paint)
    });
    chart.draw_series(bars).map_err(failed)?;
    let labels = panel
        .bars
        .iter()
        .filter(|bar| bar.kind != Kind::Run)
        .map(|bar| {
            let (word, raise) = match bar.kind {
                Kind::Out => ("out", 0.31),
                _ => ("in", -0.03),
            };
            let at = (millis(bar.from) + end * 0.004, lane_of(bar.task) + raise);
            Text::new(word, at, (FONT, 11))
        });
    chart.draw_series(labels).map_err(failed)?;
    let arrows = panel.releases.iter().map(|(task, at)| {
        let (x, y) = (millis(*at), lane_of(*task));
        let line = vec![(x, y - 0.42), (x, y + 0.42)];
        let head = vec![
            (x - end * 0.006, y + 0.24),
            (x, y + 0.45),
            (x + end * 0.006, y + 0.24),
        ];
        [line, head].map(|path| PathElement::new(path, BLACK.stroke_width(2)))
    });
    chart.draw_series(arrows.flatten()).map_err(failed)?;
    Ok(())
}
