//! The picture: lanes of bars over time, as the simulator draws them, and the memory in use below.

use alloc::string::String;
use alloc::vec;
use core::fmt::{self, Write};

use super::bars::{Bar, bars, gaps};
use super::{Span, Timeline};
use crate::plan::Queue;
use crate::validator::Step;

/// Pixels: the labels left of the lanes, the lanes, the height of one with its gap and without, the title, the axis, the graph
/// of the memory.
const LABELS: u32 = 90;
const WIDTH: u32 = 1_600;
const LANE: u32 = 34;
const BAR: u32 = 22;
const TITLE: u32 = 24;
const AXIS: u32 = 34;
const MEMORY: u32 = 100;
const MARGIN: u32 = 12;

const LANES: [(Queue, &str, &str); 3] = [
    (Queue::Compute, "compute", "#4269d0"),
    (Queue::SwapIn, "copy in", "#3ca951"),
    (Queue::SwapOut, "copy out", "#efb118"),
];

pub(super) fn draw(timeline: &Timeline<'_>, title: &str) -> String {
    let mut picture = Picture {
        timeline,
        end: timeline.run.total_ns.max(1) as f64,
        text: String::new(),
    };
    // Writing to a string does not fail.
    let _ = picture.draw(title);
    picture.text
}

struct Picture<'a> {
    timeline: &'a Timeline<'a>,
    /// The end of the run in nanoseconds.
    end: f64,
    text: String,
}

impl Picture<'_> {
    fn draw(&mut self, title: &str) -> fmt::Result {
        let lanes = LANES.len() as u32;
        let (width, height) = (LABELS + WIDTH + MARGIN, top_of(lanes) + MEMORY + MARGIN);
        write!(
            self.text,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n\
             <text x=\"{LABELS}\" y=\"16\">{}</text>\n",
            Escaped(title)
        )?;
        self.axis(height - MARGIN)?;
        for (lane, (queue, name, colour)) in (0..).zip(LANES) {
            self.label(top_of(lane) + BAR - 6, name)?;
            self.lane(top_of(lane), queue, colour)?;
        }
        self.memory(top_of(lanes))?;
        self.text.push_str("</svg>\n");
        Ok(())
    }

    fn label(&mut self, y: u32, name: &str) -> fmt::Result {
        let x = LABELS - 8;
        writeln!(
            self.text,
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"end\">{name}</text>"
        )
    }

    /// Times above the lanes, at steps of 1, 2 or 5 tens.
    fn axis(&mut self, bottom: u32) -> fmt::Result {
        let end = self.timeline.run.total_ns.max(1);
        let most = u64::from(WIDTH / 90);
        let (mut step, mut tens) = (1_u64, 1_u64);
        for factor in [2, 5, 10].into_iter().cycle() {
            if end / step <= most {
                break;
            }
            step = tens.saturating_mul(factor);
            if factor == 10 {
                tens = step;
            }
        }
        let ticks = core::iter::successors(Some(0), |at: &u64| at.checked_add(step));
        for at in ticks.take_while(|at| *at <= end) {
            let x = self.x(at as f64);
            writeln!(
                self.text,
                "<path d=\"M{x:.2} {}V{bottom}\" stroke=\"#eee\"/><text x=\"{x:.2}\" y=\"{}\" \
                 text-anchor=\"middle\" fill=\"#555\">{}</text>",
                TITLE + AXIS - 12,
                TITLE + 16,
                Millis(at as f64)
            )?;
        }
        Ok(())
    }

    fn lane(&mut self, top: u32, queue: Queue, colour: &str) -> fmt::Result {
        let pixel = self.end / f64::from(WIDTH);
        let steps = &self.timeline.spans[queue as usize];
        let bars = bars(steps, pixel);
        if queue == Queue::Compute {
            // Bars of several steps let it show where none of them ran.
            writeln!(
                self.text,
                "<rect x=\"{LABELS}\" y=\"{top}\" width=\"{WIDTH}\" height=\"{BAR}\" fill=\"#d00\" fill-opacity=\"0.35\"/>"
            )?;
            for gap in gaps(&bars, self.end, pixel) {
                self.rect(top, gap, " fill-opacity=\"0\"")?;
                writeln!(
                    self.text,
                    "<title>waits {}</title></rect>",
                    Millis(gap.until - gap.from)
                )?;
            }
        }
        writeln!(self.text, "<g fill=\"{colour}\">")?;
        for bar in &bars {
            self.bar(top, queue, bar)?;
        }
        self.text.push_str("</g>\n");
        Ok(())
    }

    fn bar(&mut self, top: u32, queue: Queue, bar: &Bar) -> fmt::Result {
        let wide = bar.span.until - bar.span.from;
        let took = Millis(wide);
        let step = Step {
            queue,
            at: bar.first as u32,
        };
        if bar.count == 1 {
            self.rect(top, bar.span, "")?;
            let name = self.timeline.name(queue, bar.first);
            let name = Escaped(shortened(name));
            return writeln!(self.text, "<title>{step} {name}: {took}</title></rect>");
        }
        let share = bar.busy / wide.max(1.0);
        self.rect(
            top,
            bar.span,
            &alloc::format!(" fill-opacity=\"{share:.2}\""),
        )?;
        let more = bar.count - 1;
        writeln!(
            self.text,
            "<title>{step} and {more} more: {took}</title></rect>"
        )
    }

    /// A bar, still open for its title; never so thin that it is not seen.
    fn rect(&mut self, top: u32, span: Span, look: &str) -> fmt::Result {
        let width = (self.x(span.until) - self.x(span.from)).max(0.5);
        write!(
            self.text,
            "<rect x=\"{:.2}\" y=\"{top}\" width=\"{width:.2}\" height=\"{BAR}\"{look}>",
            self.x(span.from)
        )
    }

    /// The most memory in use in each pixel, under a line for the budget.
    fn memory(&mut self, top: u32) -> fmt::Result {
        let (plan, peak) = (self.timeline.plan, self.timeline.peak);
        // What no run comes near would leave nothing to be seen.
        let is_near = plan.budget / 4 <= peak;
        let most = if is_near { plan.budget.max(peak) } else { peak }.max(1);
        let y =
            |bytes: u64| f64::from(top + MEMORY) - f64::from(MEMORY) * (bytes as f64 / most as f64);
        self.label(top + 12, "memory")?;
        self.label(
            top + 28,
            &alloc::format!("{:.2} GiB", most as f64 / f64::from(1 << 30)),
        )?;
        let mut columns = vec![0_u64; WIDTH as usize];
        let usage = &self.timeline.usage;
        for (at, (from, bytes)) in usage.iter().enumerate() {
            let until = usage.get(at + 1).map_or(self.end, |(next, _)| *next);
            let [from, until] =
                [*from, until].map(|time| (time / self.end * f64::from(WIDTH)) as usize);
            let until = until.min(columns.len() - 1);
            for column in &mut columns[from.min(until)..=until] {
                *column = (*column).max(*bytes);
            }
        }
        write!(self.text, "<path d=\"M{LABELS} {}", top + MEMORY)?;
        let mut before = None;
        for (at, bytes) in (LABELS..).zip(&columns) {
            if before != Some(bytes) {
                write!(self.text, "H{at}V{:.1}", y(*bytes))?;
            }
            before = Some(bytes);
        }
        writeln!(
            self.text,
            "H{}V{}z\" fill=\"#9498a0\" fill-opacity=\"0.5\"><title>at most {} of {} bytes</title></path>",
            LABELS + WIDTH,
            top + MEMORY,
            peak,
            plan.budget
        )?;
        if is_near {
            let y = y(plan.budget);
            writeln!(
                self.text,
                "<path d=\"M{LABELS} {y:.1}h{WIDTH}\" stroke=\"#222\" stroke-dasharray=\"4 3\"/>"
            )?;
        }
        Ok(())
    }

    fn x(&self, at: f64) -> f64 {
        f64::from(LABELS) + at / self.end * f64::from(WIDTH)
    }
}

/// The upper edge of the bars of a lane.
fn top_of(lane: u32) -> u32 {
    TITLE + AXIS + lane * LANE + (LANE - BAR) / 2
}

/// What of a name is shown.
fn shortened(name: &str) -> &str {
    match name.char_indices().nth(40) {
        Some((end, _)) => &name[..end],
        None => name,
    }
}

/// Nanoseconds as milliseconds.
struct Millis(f64);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = alloc::format!("{:.6}", self.0 / 1e6);
        let text = text.trim_end_matches('0').trim_end_matches('.');
        write!(f, "{text} ms")
    }
}

/// Text of XML; characters that it cannot hold are replaced.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                control if control < ' ' => f.write_char('\u{fffd}')?,
                '\u{fffe}' | '\u{ffff}' => f.write_char('\u{fffd}')?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}
