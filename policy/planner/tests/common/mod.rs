//! What several tests share: graphs from a seed, plans of them, repeated operators in those, a
//! machine that runs plans on real values, and the optimum.

pub(crate) mod executor;
pub(crate) mod graphs;
pub(crate) mod optimum;
pub(crate) mod plans;
pub(crate) mod repeats;
