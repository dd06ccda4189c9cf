//! The rtswap daemon: the shell around `rtswap-engine`, sources in, effects out.
//!
//! - [`cli`]: what may be typed; [`serve`]: the whole daemon, from its command line to its end;
//! - [`config`], [`files`]: what the administrator says; [`state`]: what the daemon before left;
//! - [`dispatch`]: the thread that owns the engine and the control pages;
//! - [`agent`]: connections and pages of agents; [`source`]: NVML and the probes; [`bus`]: the D-Bus objects;
//! - [`origin`]: the container or unit of a process;
//! - `runtime`: the folder of sockets;
//! - [`privileges`]: the capabilities that it drops; [`log`]: how log lines get to stderr;
//! - `names`: names of tasks in the engine's texts;
//! - `systemd`: what the service manager is told; [`sys`]: the system calls that need `unsafe`.

pub mod agent;
pub mod bus;
pub mod cli;
pub mod config;
pub mod dispatch;
pub mod files;
pub mod log;
mod names;
pub mod origin;
pub mod privileges;
mod runtime;
pub mod serve;
pub mod source;
pub mod state;
pub mod sys;
mod systemd;
