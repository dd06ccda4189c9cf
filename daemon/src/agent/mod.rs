//! The agents: `listener` takes their connections and first words, `session` is one of them with
//! its control page.

pub mod listener;
pub mod session;
