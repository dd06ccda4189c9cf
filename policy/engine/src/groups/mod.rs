//! The processes of one task on one GPU as one.
