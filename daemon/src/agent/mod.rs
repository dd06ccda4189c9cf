//! The agents' side: `listener` takes connections until they say Hello; `connection` is what is kept
//! for one after its Welcome, or after the daemon before had it; `reader` reads its control page,
//! `writer` alone writes it; `bells` remembers what was rung and not heard.

pub mod bells;
pub mod connection;
pub mod listener;
pub mod reader;
pub mod writer;
