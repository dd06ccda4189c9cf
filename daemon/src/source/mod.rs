//! Where events come from: `agents` reads control pages, `gpu` reads the driver's own account.
//! (Calls, deaths and time come straight to `dispatch`.)

pub mod agents;
pub mod gpu;
