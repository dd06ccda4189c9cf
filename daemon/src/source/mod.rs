//! The witnesses of GPU memory: `gpu` reads the driver's own account, `probes` counts what processes
//! ask the driver for. (Control pages, calls, deaths and time come straight to `dispatch`.)

pub mod gpu;
pub mod probes;
