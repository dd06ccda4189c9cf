//! Stream-ordered allocation (cuMemAllocAsync, pools): memory given and taken back in the order of
//! a stream. `blocks` is pure: who may have which freed bytes when. `room` adds the driver's
//! events and the pools of one GPU, `ops` what the hooks ask. What a pool holds are ordinary
//! objects of the arena, so that it swaps; they belong to the GPU, not to a context. Pools that can be
//! exported stay the driver's, and are counted.

mod blocks;
mod ops;
mod room;

pub use blocks::{Level, Line, Live};
pub use room::{PoolUse, Room};

#[cfg(test)]
mod tests;
