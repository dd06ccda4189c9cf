//! Which GPU, or which MIG instance of one.
