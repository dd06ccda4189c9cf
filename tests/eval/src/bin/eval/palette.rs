//! Colours that people with any kind of colour vision can tell apart (Okabe and Ito).

use plotters::style::RGBColor;

const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(213, 94, 0),
    RGBColor(86, 180, 233),
];

/// The colour of the n-th of several things.
pub(crate) const fn colour(place: usize) -> RGBColor {
    COLOURS[place % COLOURS.len()]
}
