//! Where events come from: `agents` reads control pages, `gpu` reads the driver's own account,
//! `probes` counts what processes ask the driver for.
//! (Calls, deaths and time come straight to `dispatch`.)

pub mod agents;
pub mod gpu;
pub mod probes;
