//! A run as pictures: `timeline` gathers it, `chrome` writes it for ui.perfetto.dev, `svg` draws
//! it. Both are pure functions of the timeline: the same run gives the same bytes.

pub mod chrome;
pub mod svg;
mod timeline;

pub use timeline::Timeline;
