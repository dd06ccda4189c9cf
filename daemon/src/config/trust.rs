//! Files that only root or the daemon's own user could have written.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::ConfigError;

/// Checks that only root or the daemon's own user could have written the file or folder: such
/// a file can admit a realtime task, or take what others were promised.
pub(super) fn trusted(path: &Path) -> Result<(), ConfigError> {
    let metadata = fs::metadata(path).map_err(ConfigError::unreadable(path))?;
    let own = rustix::process::geteuid().as_raw();
    let reason = if metadata.uid() != 0 && metadata.uid() != own {
        format!(
            "it belongs to user {}; it must belong to root or to user {own}, who runs rtswapd",
            metadata.uid()
        )
    } else if metadata.mode() & 0o022 != 0 {
        format!(
            "others may write it (mode {:o}); chmod go-w it",
            metadata.mode() & 0o7777
        )
    } else {
        return Ok(());
    };
    let path = path.to_owned();
    Err(ConfigError::Untrusted { path, reason })
}
