//! libcuda.so.1 over a simulated GPU: the C functions and nothing else.
//!
//! What they do is in `simgpu-core`; here arguments are taken out of C and
//! results put back ([`abi`]), one file for each area ([`api`]).

#![allow(non_snake_case, reason = "the names are the driver's")]
#![allow(clippy::cast_possible_wrap, reason = "ordinals and the like are small")]

mod abi;
#[macro_use]
mod export;
mod api;
