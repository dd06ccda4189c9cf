//! Inside one job: a model that is larger than its memory budget swaps tensors while it runs.
//!
//! A [`graph::Graph`] is what a job computes. A [`plan::Plan`] is what an executor does: three queues (compute, swap in,
//! swap out) and what each of their steps waits for. [`machine`] predicts how long a plan takes, [`picture`] draws it,
//! [`advisor`] searches plans as SwapAdvisor does, [`tensile`] decides for several jobs as TENSILE does which tensors swap,
//! [`blocks`] divides a model into blocks as SwapNet does, and [`validator`], which uses none of these, proves that a plan
//! computes the graph. [`stays`] makes plans of decisions for single tensors, and [`budget`] has a job's time in each amount of
//! memory.
//! Times are nanoseconds, sizes bytes, and random numbers come from a seed.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod advisor;
pub mod blocks;
pub mod budget;
mod chunks;
pub mod graph;
pub mod machine;
pub mod picture;
pub mod plan;
pub mod stays;
pub mod tensile;
pub mod validator;
