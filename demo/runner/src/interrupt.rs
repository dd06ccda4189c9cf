//! Ctrl-C and SIGTERM: the run ends by an error, so that programs and folders are cleaned up.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Whether somebody wants this to end.
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Watches from here on.
    pub(crate) fn watch() -> io::Result<Self> {
        let told = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&told))?;
        }
        Ok(Self(told))
    }

    /// An error once it was asked for.
    pub(crate) fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        Ok(())
    }
}
