//! The rtswap daemon: the shell around `rtswap-policy`, sources in, effects out.
//!
//! - [`cli`]: what may be typed; [`serve`]: the whole daemon, from its options to its end;
//! - [`config`], [`registry`], [`files`]: what the administrator and the users say;
//! - [`dispatch`]: the thread that owns the schedulers and the control pages;
//! - [`agent`], [`source`]: the agents' side of it; [`bus`]: the D-Bus objects;
//! - [`origin`]: whose container or unit a process is in;
//! - `runtime`: the folder of sockets; `quota`: how much strangers may make it log;
//! - [`privileges`]: what it gives back of its power; [`log`]: how what it logs gets to stderr;
//! - `systemd`: what the service manager is told; [`sys`]: the system calls that need `unsafe`.

pub mod agent;
pub mod bus;
pub mod cli;
pub mod config;
pub mod dispatch;
pub mod files;
pub mod ledger;
pub mod log;
pub mod members;
pub mod origin;
pub mod privileges;
mod quota;
pub mod registry;
mod runtime;
pub mod serve;
pub mod source;
pub mod sys;
mod systemd;
