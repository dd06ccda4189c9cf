//! libnvidia-ml.so.1 over a simulated GPU: the C functions and nothing else.
//!
//! What they tell is in `simgpu-core`; here arguments are taken out of C and
//! results put back ([`abi`]), one file for each area ([`api`]), from what can
//! be seen of the machine ([`view`]). Nothing here makes or changes a machine.

#![allow(non_snake_case, reason = "the names are the library's")]
#![allow(
    clippy::cast_possible_wrap,
    reason = "ordinals are small, text is bytes"
)]

mod abi;
mod status;
mod view;
#[macro_use]
mod export;
mod api;
