//! The tables and figures of the RT-Swap paper's evaluation, each as a function from a seed and
//! its parameters to plain data.
//!
//! `workload` is Table III, `generate` draws its task sets, `approach` asks whether one of the
//! five approaches admits a set, `published` has every number that the paper's text states. The
//! other files are one figure each. All times are those of the model in `baselines::link`.

pub mod admitted;
pub mod approach;
pub mod best_effort;
pub mod capacity;
pub mod case_study;
pub mod fragmentation;
pub mod generate;
pub mod published;
pub mod resolution;
pub mod schedules;
pub mod sensitivity;
pub mod swap_time;
pub mod tasks;
pub mod workload;
