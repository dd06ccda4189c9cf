//! The account of GPU memory per process.
