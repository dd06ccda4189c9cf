//! What the administrator says: the daemon's file, and the registrations in `tasks.d`.
//!
//! `value` reads sizes and times, `file` is the shape of rtswapd.toml, `tasks` that of tasks.d,
//! `gpu` has its tables for schedulers and GPUs, `users` knows users by name, `error` tells where a file is wrong. What is left
//! out takes the value that [`Config::default`] has.

mod error;
mod file;
mod gpu;
mod tasks;
mod users;
mod value;

pub use error::ConfigError;
pub use file::{Config, DaemonConfig, load};
pub use tasks::load_tasks;
pub use users::subordinates;

/// Where the daemon's file is unless named otherwise.
pub const DEFAULT_FILE: &str = "/etc/rtswap/rtswapd.toml";
