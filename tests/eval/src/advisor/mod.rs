//! SwapAdvisor's evaluation (Huang, Jin and Li, ASPLOS 2020), computed again from graphs of PyTorch.
//!
//! `models` has what is evaluated, `search` runs the searches, and each other file has one table or figure. What a search
//! finds depends on its seed and on the number of its generations, so that each of these functions always returns the same.

pub mod inference;
pub mod models;
pub mod progress;
pub mod published;
pub mod search;
pub mod serving;
pub mod settings;
pub mod shares;

/// Bytes of an arena's chunk: the granularity of CUDA's virtual memory management.
pub const CHUNK: u64 = 2 << 20;

/// The memory of the paper's V100, in bytes: what its 16 GiB leave beside a CUDA context is more.
pub const BUDGET: u64 = 16_000_000_000;
