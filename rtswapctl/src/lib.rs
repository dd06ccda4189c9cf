//! What may be typed at `rtswapctl`, for the program itself and for its manual.

pub mod cli;
mod duration;
pub mod rule;
