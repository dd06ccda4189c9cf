//! What the administrator says: the daemon's file, the policy, and the registrations in `tasks.d`.
//!
//! `value` reads sizes and times, `file` is the shape of rtswapd.toml, `policy` that of policy.toml, `tasks` that of tasks.d,
//! `gpu` has the tables for schedulers and GPUs, `users` knows users by name, `trust` who may have written a file, `error`
//! tells where a file is wrong. What is left out takes the value that [`Config::default`] has.

mod error;
mod file;
mod gpu;
mod policy;
mod tasks;
mod trust;
mod users;
mod value;

pub use error::ConfigError;
pub use file::{Config, DaemonConfig, load};
pub use policy::load_policy;
pub(crate) use policy::write_policy;
pub use tasks::load_tasks;
pub use users::subordinates;

/// Where the daemon's file is unless named otherwise.
pub const DEFAULT_FILE: &str = "/etc/rtswap/rtswapd.toml";
