//! The library as programs load it: its names, the forms that today's headers hide, what clients rely on beyond the
//! calls that `tests/conformance` tries.

mod first;
mod foreign;
mod names;
mod primary;
mod processes;
mod stage;
mod version;
