//! The agents' side: `listener` has connections until their Hello; `connection` is one after its
//! Welcome, or a process that the previous daemon had a session with; `reader` reads its control page,
//! `writer` alone writes it; `bells` repeats doorbells that the agent has not followed, `awaited`
//! knows which orders have no answer. `allowance` bounds the processor time of what strangers ask for, `requests`
//! what each owner's sessions may ask for.

pub mod allowance;
pub mod awaited;
pub mod bells;
pub mod connection;
pub mod listener;
pub mod reader;
pub mod requests;
pub mod writer;
