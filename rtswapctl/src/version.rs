//! `rtswapctl version`: of this program, and of the daemon if there is one.

use std::path::Path;

use rtswap_dbus::Manager1Proxy;
use serde::Serialize;

use crate::cli::VersionOptions;
use crate::daemon::converse;
use crate::failure::Failure;
use crate::output;

/// The JSON of `version`, version 1.
#[derive(Debug, Serialize)]
struct Versions {
    version: u32,
    rtswapctl: &'static str,
    /// None where no daemon answers.
    rtswapd: Option<String>,
    /// In µs since 1970.
    rtswapd_started_us: Option<u64>,
}

/// Prints both. Without a daemon it fails after that.
pub(crate) fn version(runtime_dir: Option<&Path>, options: &VersionOptions) -> Result<(), Failure> {
    let daemon = converse(async {
        let connection = rtswap_dbus::find(runtime_dir).await?;
        let asked = async {
            let manager = Manager1Proxy::new(&connection).await?;
            zbus::Result::Ok((manager.version().await?, manager.started_usec().await?))
        };
        Ok(asked.await.map_err(rtswap_dbus::Error::from)?)
    });
    let (rtswapd, rtswapd_started_us) = daemon.as_ref().ok().cloned().unzip();
    let versions = Versions {
        version: 1,
        rtswapctl: env!("CARGO_PKG_VERSION"),
        rtswapd,
        rtswapd_started_us,
    };
    if options.json {
        output::json(&versions)?;
    } else {
        output::text(&versions.text())?;
    }
    daemon.map(drop)
}

impl Versions {
    fn text(&self) -> String {
        let daemon = self.rtswapd.as_deref().unwrap_or("does not answer");
        format!("rtswapctl {}\nrtswapd {daemon}\n", self.rtswapctl)
    }
}
