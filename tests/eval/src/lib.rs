//! The tables and figures of the RT-Swap paper's evaluation, and what it is compared with, as
//! functions of a seed and parameters. The program `eval` prints and draws them.

pub mod baselines;
pub mod figures;
