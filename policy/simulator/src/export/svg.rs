//! A timeline as a picture: one lane for each engine and each task. A task's lane shows its jobs
//! from eligible to end (pale), their execution (full) and its swap-ins (hatched); ↑ is a release,
//! ↓ a deadline, red what was missed. Where a viewer shows titles, every mark has its numbers.

use alloc::string::String;
use core::fmt::{self, Write};

use rtswap_policy::scheduler::Direction;
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Nanos, Time};

use super::Timeline;
use crate::record::{Record, SwapRecord};

/// What part of a run to draw, and how wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// From this after the start ...
    pub from: Nanos,
    /// ... to this.
    pub until: Nanos,
    /// The width of the lanes in pixels, at least one.
    pub width: u32,
}

impl View {
    /// All of `timeline`, 1,600 pixels wide.
    pub fn whole(timeline: &Timeline) -> Self {
        Self {
            from: Nanos::ZERO,
            until: timeline.end - timeline.start,
            width: 1_600,
        }
    }
}

/// Pixels: the labels left of the lanes, the height of a lane with its gap and without, the axis.
const LABELS: u32 = 180;
const LANE: u32 = 34;
const BAR: u32 = 22;
const AXIS: u32 = 34;
const MARGIN: u32 = 12;

/// The lanes of the engines.
const ENGINES: [&str; 3] = ["compute", "copy out", "copy in"];

/// Fills that differ in lightness too, so that they stay apart in grey.
const COLOURS: [&str; 10] = [
    "#4269d0", "#efb118", "#3ca951", "#ff8ab7", "#6cc5b0", "#a463f2", "#97bbf5", "#9c6b4e",
    "#ff725c", "#9498a0",
];

/// Draws `view` of `timeline` as an SVG document.
pub fn timeline(timeline: &Timeline, view: &View) -> String {
    let mut picture = Picture {
        timeline,
        from: timeline.start + view.from,
        span: Nanos(view.until.saturating_sub(view.from).0.max(1)),
        width: view.width.max(1),
        text: String::new(),
    };
    // Writing to a string does not fail.
    let _ = picture.draw();
    picture.text
}

struct Picture<'a> {
    timeline: &'a Timeline,
    from: Time,
    span: Nanos,
    width: u32,
    text: String,
}

impl Picture<'_> {
    fn draw(&mut self) -> fmt::Result {
        let timeline = self.timeline;
        let lanes = (ENGINES.len() + timeline.names.len()) as u32;
        let (width, height) = (LABELS + self.width + MARGIN, AXIS + lanes * LANE + MARGIN);
        write!(
            self.text,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <defs><pattern id=\"in\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
             patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"#fff\"/>\
             <rect width=\"3\" height=\"6\" fill=\"#777\"/></pattern>\
             <clipPath id=\"lanes\"><rect x=\"{LABELS}\" y=\"0\" width=\"{}\" \
             height=\"{height}\"/></clipPath></defs>\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n",
            self.width
        )?;
        self.axis(lanes)?;
        let names = timeline.names.iter().map(String::as_str);
        for (lane, name) in ENGINES.into_iter().chain(names).enumerate() {
            let lane = lane as u32;
            let (top, bottom) = (top_of(lane), AXIS + (lane + 1) * LANE);
            writeln!(
                self.text,
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\
                 <path d=\"M{LABELS} {bottom}h{}\" stroke=\"#ddd\"/>",
                LABELS - 8,
                top + BAR - 6,
                Escaped(shortened(name)),
                self.width
            )?;
        }
        self.text.push_str("<g clip-path=\"url(#lanes)\">\n");
        for job in &timeline.jobs {
            self.job(job)?;
        }
        for swap in &timeline.swaps {
            self.swap(swap)?;
        }
        for job in &timeline.jobs {
            self.marks(job)?;
        }
        self.text.push_str("</g>\n</svg>\n");
        Ok(())
    }

    /// Times above the lanes, at steps of 1, 2 or 5 tens.
    fn axis(&mut self, lanes: u32) -> fmt::Result {
        let most = u64::from(self.width / 90).max(1);
        let mut step = 1_u64;
        for factor in [2, 5, 10].into_iter().cycle() {
            if self.span.0 / step <= most {
                break;
            }
            let tens = step / leading(step);
            step = tens.saturating_mul(factor);
        }
        let begin = self.from - self.timeline.start;
        let end = begin + self.span;
        let first = begin.0.checked_next_multiple_of(step);
        let ticks = core::iter::successors(first, |at| at.checked_add(step));
        for at in ticks.take_while(|at| *at <= end.0) {
            let x = self.x(self.timeline.start + Nanos(at));
            writeln!(
                self.text,
                "<path d=\"M{x} {}V{}\" stroke=\"#eee\"/>\
                 <text x=\"{x}\" y=\"16\" text-anchor=\"middle\" fill=\"#555\">{}</text>",
                AXIS - 12,
                AXIS + lanes * LANE,
                Millis(Nanos(at))
            )?;
        }
        Ok(())
    }

    fn job(&mut self, job: &Record) -> fmt::Result {
        let account = &job.account;
        if !self.shows(account.eligible, account.ended) {
            return Ok(());
        }
        let (lane, colour) = (lane_of(account.task), colour_of(account.task));
        let fill = |opacity| alloc::format!("fill=\"{colour}\" fill-opacity=\"{opacity}\"");
        self.bar(lane, account.eligible, account.ended, &fill("0.25"))?;
        self.title(job)?;
        if let Some(granted) = account.granted {
            self.bar(lane, granted, account.ended, &fill("1"))?;
            self.title(job)?;
            if self.timeline.computes_alone(job) {
                self.bar(0, granted, account.ended, &fill("1"))?;
                self.title(job)?;
            }
        }
        Ok(())
    }

    fn title(&mut self, job: &Record) -> fmt::Result {
        let account = &job.account;
        writeln!(
            self.text,
            "<title>{} job {}: queue {}, swap out {}, swap in {}, execution {}</title></rect>",
            Escaped(self.timeline.name(account.task)),
            account.job.0,
            Millis(account.queue),
            Millis(account.swap_out),
            Millis(account.swap_in),
            Millis(account.execution),
        )
    }

    fn swap(&mut self, swap: &SwapRecord) -> fmt::Result {
        if !self.shows(swap.started, swap.ended) {
            return Ok(());
        }
        let fill = alloc::format!("fill=\"{}\"", colour_of(swap.task));
        let engine = match swap.direction {
            Direction::Out => 1,
            Direction::In => 2,
        };
        self.bar(engine, swap.started, swap.ended, &fill)?;
        self.swap_title(swap)?;
        if swap.direction == Direction::In {
            let lane = lane_of(swap.task);
            self.bar(lane, swap.started, swap.ended, "fill=\"url(#in)\"")?;
            self.swap_title(swap)?;
        }
        Ok(())
    }

    fn swap_title(&mut self, swap: &SwapRecord) -> fmt::Result {
        let name = Escaped(self.timeline.name(swap.task));
        let way = match swap.direction {
            Direction::Out => "out",
            Direction::In => "in",
        };
        let took = Millis(swap.ended - swap.started);
        write!(
            self.text,
            "<title>{name}: {} {way} in {took}",
            Escaped(&alloc::format!("{}", swap.bytes))
        )?;
        if let Some(other) = swap.beneficiary.filter(|other| *other != swap.task) {
            let other = Escaped(self.timeline.name(other));
            write!(self.text, " for {other}")?;
        }
        self.text.push_str("</title></rect>\n");
        Ok(())
    }

    /// The release and the deadline of a job, and how late it was.
    fn marks(&mut self, job: &Record) -> fmt::Result {
        let account = &job.account;
        let Some(due) = account.deadline else {
            return Ok(());
        };
        let top = top_of(lane_of(account.task));
        let (low, high) = (top + BAR + 3, top - 5);
        if self.shows(account.eligible, account.eligible) {
            let x = self.x(account.eligible);
            writeln!(
                self.text,
                "<path d=\"M{x} {low}V{high}m-3 5l3 -5l3 5\" fill=\"none\" stroke=\"#222\"/>"
            )?;
        }
        let late = account.lateness() > Nanos::ZERO;
        let stroke = if late { "#d00" } else { "#222" };
        if self.shows(due, due) {
            let x = self.x(due);
            writeln!(
                self.text,
                "<path d=\"M{x} {high}V{low}m-3 -5l3 5l3 -5\" fill=\"none\" \
                 stroke=\"{stroke}\"/>"
            )?;
        }
        if late && self.shows(due, account.ended) {
            self.bar(
                lane_of(account.task),
                due,
                account.ended,
                "fill=\"none\" stroke=\"#d00\" stroke-width=\"2\"",
            )?;
            let late = Millis(account.lateness());
            writeln!(self.text, "<title>late by {late}</title></rect>")?;
        }
        Ok(())
    }

    /// A bar, still open for its title; never so thin that it is not seen.
    fn bar(&mut self, lane: u32, from: Time, until: Time, look: &str) -> fmt::Result {
        let last = self.from + self.span;
        let (from, until) = (from.clamp(self.from, last), until.clamp(self.from, last));
        let width = Pixels(self.pixels(until - from).max(50));
        write!(
            self.text,
            "<rect x=\"{}\" y=\"{}\" width=\"{width}\" height=\"{BAR}\" {look}>",
            self.x(from),
            top_of(lane)
        )
    }

    fn shows(&self, from: Time, until: Time) -> bool {
        from <= self.from + self.span && self.from <= until
    }

    fn x(&self, at: Time) -> Pixels {
        Pixels(u64::from(LABELS) * 100 + self.pixels(at - self.from))
    }

    /// The width of `span` in hundredths of a pixel.
    fn pixels(&self, span: Nanos) -> u64 {
        let wide = u128::from(span.0) * u128::from(self.width) * 100 / u128::from(self.span.0);
        u64::try_from(wide).unwrap_or(u64::MAX)
    }
}

/// The upper edge of the bars of a lane.
fn top_of(lane: u32) -> u32 {
    AXIS + lane * LANE + (LANE - BAR) / 2
}

fn lane_of(task: TaskId) -> u32 {
    ENGINES.len() as u32 + task.0
}

fn colour_of(task: TaskId) -> &'static str {
    COLOURS[task.0 as usize % COLOURS.len()]
}

/// The first digit of `number`.
fn leading(mut number: u64) -> u64 {
    while number >= 10 {
        number /= 10;
    }
    number
}

/// What of a name fits beside its lane.
fn shortened(name: &str) -> &str {
    match name.char_indices().nth(24) {
        Some((end, _)) => &name[..end],
        None => name,
    }
}

/// Hundredths of pixels.
#[derive(Clone, Copy)]
struct Pixels(u64);

impl fmt::Display for Pixels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.0 / 100, self.0 % 100)
    }
}

/// A span in milliseconds, exact.
struct Millis(Nanos);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.0;
        let rest = alloc::format!("{:06}", nanos % 1_000_000);
        let rest = rest.trim_end_matches('0');
        let point = if rest.is_empty() { "" } else { "." };
        write!(f, "{}{point}{rest} ms", nanos / 1_000_000)
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
