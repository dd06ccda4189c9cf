//! The D-Bus contract of rtswap: what the daemon serves and its clients call.
//!
//! - [`proxy`]: one client proxy per interface;
//! - [`objects`]: all tasks and GPUs in one call, as plain structs;
//! - [`options`]: what `Register` takes;
//! - [`error`]: the named errors, the same type on both sides;
//! - [`text`]: texts that may hold others' bytes, fit to be shown;
//! - [`driver`]: what the GPU driver says of itself;
//! - [`mod@connect`]: the ways to the daemon, by the system bus or by the control socket.
//!
//! `xml/` has one file per interface; the daemon's tests hold what it serves against them. Times
//! are microseconds (`…USec`), sizes are bytes (`…Bytes`), counters start at `CountingSinceUSec`.

pub mod connect;
pub mod driver;
pub mod error;
pub mod objects;
pub mod options;
pub mod proxy;
pub mod text;

pub use connect::{connect, find};
pub use error::Error;
pub use objects::{GpuProperties, TaskProperties};
pub use options::{Options, Size};
pub use proxy::{Gpu1Proxy, Manager1Proxy, Task1Proxy};

/// The well-known bus name.
pub const BUS_NAME: &str = "org.rtswap";

/// The object that carries `org.rtswap.Manager1` and the ObjectManager.
pub const ROOT_PATH: &str = "/org/rtswap";

/// `org.rtswap.Manager1` (on [`ROOT_PATH`]).
pub const MANAGER: &str = "org.rtswap.Manager1";

/// `org.rtswap.Task1` (on [`task_path`]).
pub const TASK: &str = "org.rtswap.Task1";

/// `org.rtswap.Gpu1` (on [`gpu_path`]).
pub const GPU: &str = "org.rtswap.Gpu1";

/// In the place of a task that the caller may not see.
pub const OTHER_TASK_PATH: &str = "/org/rtswap/task";

const TASK_PREFIX: &str = "/org/rtswap/task/";
const GPU_PREFIX: &str = "/org/rtswap/gpu/";

/// The object of the task with this registration number.
pub fn task_path(id: u64) -> zbus::OwnedObjectPath {
    path(TASK_PREFIX, id)
}

/// The object of the GPU with this index.
pub fn gpu_path(index: u32) -> zbus::OwnedObjectPath {
    path(GPU_PREFIX, u64::from(index))
}

/// The registration number in a task's object path.
pub fn task_id(path: &str) -> Option<u64> {
    let digits = path.strip_prefix(TASK_PREFIX)?;
    let id = digits.parse().ok()?;
    (digits == format!("{id}")).then_some(id)
}

fn path(prefix: &str, number: u64) -> zbus::OwnedObjectPath {
    zbus::ObjectPath::from_string_unchecked(format!("{prefix}{number}")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_come_back() {
        assert_eq!(task_path(17).as_str(), "/org/rtswap/task/17");
        assert_eq!(task_id("/org/rtswap/task/17"), Some(17));
        assert_eq!(task_id("/org/rtswap/task/017"), None);
        assert_eq!(task_id("/org/rtswap/task/+1"), None);
        assert_eq!(task_id("/org/rtswap/gpu/1"), None);
        assert_eq!(gpu_path(0).as_str(), "/org/rtswap/gpu/0");
    }
}
