//! The tables and figures of the evaluations of RT-Swap, SwapAdvisor, SwapNet and TENSILE, and what they are compared with,
//! as functions of a seed and parameters. The program `eval` prints and draws them.

pub mod advisor;
pub mod baselines;
pub mod figures;
pub mod swapnet;
pub mod tensile;
