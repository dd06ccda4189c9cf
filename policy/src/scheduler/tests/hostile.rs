//! Sequences of events.
