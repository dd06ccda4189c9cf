//! Few bars for many steps.

use alloc::vec::Vec;

use super::Span;

/// Steps in a row that are drawn as one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bar {
    /// The first step.
    pub first: usize,
    /// The number of steps.
    pub count: usize,
    pub span: Span,
    /// How much of the span a step ran, in nanoseconds.
    pub busy: f64,
}

/// The bars of a lane with pixels of `pixel` nanoseconds: a step that is wider than a pixel has one of its own, those
/// that are thinner share one as long as it is no wider than a pixel. Two such in a row are wider, which is the bound.
pub(super) fn bars(steps: &[Span], pixel: f64) -> Vec<Bar> {
    let mut bars: Vec<Bar> = Vec::new();
    for (at, span) in steps.iter().copied().enumerate() {
        let busy = span.until - span.from;
        match bars.last_mut() {
            Some(last) if span.until - last.span.from <= pixel => {
                last.count += 1;
                last.span.until = span.until;
                last.busy += busy;
            }
            _ => bars.push(Bar {
                first: at,
                count: 1,
                span,
                busy,
            }),
        }
    }
    bars
}

/// Where no step runs for longer than a pixel, up to `end`.
pub(super) fn gaps(bars: &[Bar], end: f64, pixel: f64) -> Vec<Span> {
    let mut gaps = Vec::new();
    let mut from = 0.0;
    let begins = bars.iter().map(|bar| bar.span);
    for next in begins.chain([Span {
        from: end,
        until: end,
    }]) {
        if next.from - from > pixel {
            gaps.push(Span {
                from,
                until: next.from,
            });
        }
        from = next.until;
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from: f64, until: f64) -> Span {
        Span { from, until }
    }

    #[test]
    fn thin_steps_share_a_bar() {
        let steps = [
            span(0.0, 0.2),
            span(0.3, 0.9),
            span(0.9, 3.0),
            span(3.0, 3.5),
            span(7.0, 7.1),
        ];
        let bars = bars(&steps, 1.0);
        let shape: Vec<_> = bars.iter().map(|bar| (bar.first, bar.count)).collect();
        assert_eq!(shape, [(0, 2), (2, 1), (3, 1), (4, 1)]);
        assert!((bars[0].busy - 0.8).abs() < 1e-9);
        assert_eq!(gaps(&bars, 9.0, 1.0), [span(3.5, 7.0), span(7.1, 9.0)]);
    }

    #[test]
    fn a_lane_has_few_bars_however_many_steps_it_has() {
        let steps: Vec<Span> = (0..100_000)
            .map(|at| span(f64::from(at), f64::from(at) + 0.5))
            .collect();
        let bars = bars(&steps, 100.0);
        assert!(bars.len() <= 2 * 1_000, "{}", bars.len());
        assert_eq!(bars.iter().map(|bar| bar.count).sum::<usize>(), steps.len());
    }
}
