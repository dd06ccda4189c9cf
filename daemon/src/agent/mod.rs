//! The agents' side: `listener` has connections until their Hello, and `allowance` bounds what these may cost; `connection` is one after its
//! Welcome, or a process that the previous daemon had a session with; `reader` reads its control page,
//! `writer` alone writes it; `bells` repeats doorbells that the agent has not followed.

pub mod allowance;
pub mod bells;
pub mod connection;
pub mod listener;
pub mod reader;
pub mod writer;
