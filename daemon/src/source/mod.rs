//! Where events come from: `agents` reads control pages. (Calls, deaths and time come straight to
//! `dispatch`.)

pub mod agents;
