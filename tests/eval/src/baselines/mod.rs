//! What RT-Swap is compared with, as its paper describes it in Section VII-A.
//!
//! `paging` is Base: unified memory with on-demand paging and LRU under non-preemptive EDF.
//! `objects` is MO-VMM: one physical allocation per memory object. `link` has the published
//! speed of the paper's machine with pinned memory (RT-Swap, and MIN with δ = 2 MiB) and with
//! pageable memory (Pageable).

pub mod link;
mod lru;
pub mod objects;
pub mod paging;
