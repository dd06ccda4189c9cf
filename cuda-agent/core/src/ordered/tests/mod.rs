//! `order`: who may have a freed byte and when, against a plain model. `pressure`: the agent's
//! calls where memory lacks, streams capture and contexts end.

mod order;
mod pressure;
