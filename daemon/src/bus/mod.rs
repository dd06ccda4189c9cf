//! The D-Bus objects. `control` serves the socket and `join` a bus; `transport` and `bounds` limit what
//! comes in by the socket, `demand` what goes out by it; `attend` serves one connection of either,
//! `publish` keeps its objects equal to the snapshot. `manager`, `properties` and `objects` have the
//! interfaces, `read_only` refuses to set their properties, `options` reads what `Register` is given, `plan` writes the plan, `policy` reads and writes rules; `auth` finds the caller,
//! `polkit` its rights, `viewer` what it may see, `limits` bounds each user's share. The dispatch thread
//! has all state: no method takes `&mut self`, so that none blocks another.

mod attend;
mod auth;
mod bounds;
pub mod control;
mod demand;
mod join;
mod limits;
mod manager;
mod objects;
mod options;
mod plan;
mod policy;
mod polkit;
mod properties;
mod publish;
mod read_only;
mod transport;
mod viewer;

pub use join::{Bus, JoinError, Joined, join, stay};

use std::sync::Arc;

use crate::config;
use crate::dispatch::Handle;
use crate::files::Files;
use crate::state::Calibrations;
use crate::sys::clock;
use limits::Limits;

/// What all connections have in common.
#[derive(Clone, Debug)]
pub struct Shared {
    handle: Handle,
    files: Arc<Files>,
    calibrations: Calibrations,
    calibrating: Arc<tokio::sync::Mutex<()>>,
    limits: Limits,
    /// When the daemon started, in µs since 1970.
    started_usec: u64,
}

impl Shared {
    /// To serve what `handle` leads to, to read `files` again when asked, and to keep `calibrations`.
    pub fn new(handle: Handle, files: Arc<Files>, calibrations: Calibrations) -> Self {
        Self {
            handle,
            files,
            calibrations,
            calibrating: Arc::default(),
            limits: Limits::new(config::subordinates()),
            started_usec: clock::unix_usec(),
        }
    }
}
