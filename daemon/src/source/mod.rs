//! The witnesses of memory: `gpu` reads the driver's own account, `probes` counts what processes
//! ask the driver for, `host` looks at the machine's own, `cgroups` at what the limits of cgroups
//! leave. (Control pages, calls, deaths and time come straight to `dispatch`.)

pub mod cgroups;
pub mod gpu;
pub mod host;
pub mod probes;
