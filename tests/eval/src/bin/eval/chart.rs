//! Line and bar charts as SVG. Text is left to the viewer's fonts; none is needed here.

use std::fmt::{Debug, Display};

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::palette::colour;

const SIZE: (u32, u32) = (760, 440);
const FONT: &str = "sans-serif";

/// Values over a common axis.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) values: Vec<(f64, f64)>,
}

/// Lines with a mark at each value.
pub(crate) struct Lines {
    pub(crate) title: &'static str,
    pub(crate) x: &'static str,
    pub(crate) y: &'static str,
    pub(crate) series: Vec<Series>,
    /// Marks of what was published, without lines.
    pub(crate) published: Vec<(f64, f64)>,
    /// What to write at a value of the horizontal axis.
    pub(crate) label: fn(f64) -> String,
    /// Where the names stand, so that they hide nothing.
    pub(crate) legend: SeriesLabelPosition,
}

/// Groups of bars.
pub(crate) struct Bars {
    pub(crate) title: &'static str,
    pub(crate) y: &'static str,
    pub(crate) groups: Vec<String>,
    /// A name, and a value for each group.
    pub(crate) series: Vec<(String, Vec<f64>)>,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

impl Lines {
    pub(crate) fn svg(&self) -> Result<String> {
        let all = || {
            let lines = self.series.iter().flat_map(|s| s.values.iter());
            lines.chain(&self.published)
        };
        let bound = |pick: fn(&(f64, f64)) -> f64, start: f64, best: fn(f64, f64) -> f64| {
            all().map(pick).fold(start, best)
        };
        let from = bound(|v| v.0, f64::INFINITY, f64::min);
        let to = bound(|v| v.0, f64::NEG_INFINITY, f64::max);
        let top = bound(|v| v.1, 0.0, f64::max) * 1.05;
        drawn(SIZE, |area| {
            let mut chart = ChartBuilder::on(area)
                .caption(self.title, (FONT, 18))
                .margin(12)
                .x_label_area_size(42)
                .y_label_area_size(56)
                .build_cartesian_2d(from..to, 0.0..top)
                .map_err(failed)?;
            chart
                .configure_mesh()
                .x_desc(self.x)
                .y_desc(self.y)
                .x_label_formatter(&|x| (self.label)(*x))
                .y_label_formatter(&|y| format!("{y:.0}"))
                .light_line_style(WHITE)
                .draw()
                .map_err(failed)?;
            for (place, series) in self.series.iter().enumerate() {
                let paint = colour(place);
                chart
                    .draw_series(LineSeries::new(
                        series.values.clone(),
                        paint.stroke_width(2),
                    ))
                    .map_err(failed)?
                    .label(series.name.as_str())
                    .legend(move |(x, y)| {
                        Rectangle::new([(x, y - 4), (x + 16, y + 4)], paint.filled())
                    });
                let marks = series.values.iter();
                chart
                    .draw_series(marks.map(|&at| Circle::new(at, 3, paint.filled())))
                    .map_err(failed)?;
            }
            if !self.published.is_empty() {
                let marks = self.published.iter();
                chart
                    .draw_series(marks.map(|&at| Cross::new(at, 6, BLACK.stroke_width(2))))
                    .map_err(failed)?
                    .label("published")
                    .legend(|(x, y)| Cross::new((x + 8, y), 5, BLACK.stroke_width(2)));
            }
            chart
                .configure_series_labels()
                .position(self.legend.clone())
                .background_style(WHITE.mix(0.8))
                .border_style(BLACK.mix(0.3))
                .draw()
                .map_err(failed)
        })
    }
}

impl Bars {
    pub(crate) fn svg(&self) -> Result<String> {
        drawn(SIZE, |area| self.draw(area))
    }

    /// This chart with another below it.
    pub(crate) fn svg_above(&self, below: &Self) -> Result<String> {
        let (width, height) = SIZE;
        drawn((width, 2 * height), |area| {
            let (upper, lower) = area.split_vertically(height);
            self.draw(&upper)?;
            below.draw(&lower)
        })
    }

    fn draw(&self, area: &Area<'_>) -> Result<()> {
        let values = || self.series.iter().flat_map(|(_, values)| values.iter());
        // The names stand above the bars.
        let top = values().copied().fold(0.0, f64::max) * (1.05 + 0.06 * self.series.len() as f64);
        let groups = self.groups.len();
        // The bars of a group share the middle 80 % of its place.
        let width = 0.8 / self.series.len().max(1) as f64;
        let name = |x: f64| {
            let whole = (x - x.round()).abs() < 1e-6;
            let found = self.groups.get(x.round().max(0.0) as usize);
            found.filter(|_| whole).cloned().unwrap_or_default()
        };
        let mut chart = ChartBuilder::on(area)
            .caption(self.title, (FONT, 18))
            .margin(12)
            .x_label_area_size(36)
            .y_label_area_size(56)
            .build_cartesian_2d(-0.5..groups as f64 - 0.5, 0.0..top)
            .map_err(failed)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(2 * groups + 1)
            .x_label_formatter(&|x| name(*x))
            .y_desc(self.y)
            .light_line_style(WHITE)
            .draw()
            .map_err(failed)?;
        for (place, (name, values)) in self.series.iter().enumerate() {
            let paint = colour(place);
            let bars = values.iter().enumerate().map(|(group, &value)| {
                let left = group as f64 - 0.4 + place as f64 * width;
                Rectangle::new([(left, 0.0), (left + width * 0.94, value)], paint.filled())
            });
            chart
                .draw_series(bars)
                .map_err(failed)?
                .label(name.as_str())
                .legend(move |(x, y)| {
                    Rectangle::new([(x, y - 4), (x + 16, y + 4)], paint.filled())
                });
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()
            .map_err(failed)
    }
}

/// An SVG of `size` that `draw` fills.
pub(crate) fn drawn(
    size: (u32, u32),
    draw: impl FnOnce(&Area<'_>) -> Result<()>,
) -> Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        draw(&area)?;
        area.present().map_err(failed)?;
    }
    Ok(svg)
}

pub(crate) fn failed(error: impl Display + Debug) -> anyhow::Error {
    anyhow!("cannot draw: {error}")
}
