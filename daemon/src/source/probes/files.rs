//! Opens files that any user may have made: only regular ones, and none that could make the daemon wait.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{OFlags, StatVfsMountFlags};

use super::libraries::{FileId, Mapped};

/// Bytes of a table of mounts that are read.
const LONGEST: u64 = 1 << 20;

/// A library by its path in our own mount namespace.
pub(super) fn open(path: &Path) -> Option<(FileId, File)> {
    let file = open_regular(path).ok()?;
    let metadata = file.metadata().ok()?;
    let device = metadata.dev();
    let id = FileId {
        device: (rustix::fs::major(device), rustix::fs::minor(device)),
        inode: metadata.ino(),
    };
    Some((id, file))
}

/// A library that a process maps, whatever lies at its path by now; where that may not be opened, what lies
/// there.
pub(super) fn open_mapped(pid: u32, mapped: &Mapped) -> Option<File> {
    if may_wait(pid, mapped.file.device) {
        return None;
    }
    let link = format!("/proc/{pid}/map_files/{}", mapped.range);
    let file = match open_regular(Path::new(&link)) {
        // A path leads wherever its owner likes, so not when the mapping has merely gone.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let path = format!("/proc/{pid}/root{}", mapped.path);
            open_regular(Path::new(&path)).ok()?
        }
        opened => opened.ok()?,
    };
    // On some file systems the device of a mapping is another than the file's own.
    (file.metadata().ok()?.ino() == mapped.file.inode).then_some(file)
}

/// Whether root alone can have made the file what it is. A file system that was mounted `nosuid` may be a user's
/// own, with whatever owners.
pub(super) fn is_of_root(file: &File) -> bool {
    let is_own = file
        .metadata()
        .is_ok_and(|metadata| metadata.uid() == 0 && metadata.mode() & 0o022 == 0);
    let flags = rustix::fs::fstatvfs(file).map(|system| system.f_flag);
    is_own && flags.is_ok_and(|flags| !flags.contains(StatVfsMountFlags::NOSUID))
}

/// Opens a regular file. Others are not opened even for an instant: of a device that alone may have effects.
fn open_regular(path: &Path) -> io::Result<File> {
    let open = |path: &Path, flags: OFlags| {
        let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(flags.bits().cast_signed());
        options.open(path)
    };
    let found = open(path, OFlags::PATH)?;
    if !found.metadata()?.is_file() {
        return Err(ErrorKind::InvalidInput.into());
    }
    let found = format!("/proc/self/fd/{}", found.as_raw_fd());
    open(Path::new(&found), OFlags::empty())
}

/// Whether a file on this device may be served by a program (FUSE), which answers when it likes. So counts also
/// a device without a disk that neither the process's nor our own mounts name: it was unmounted while in use.
fn may_wait(pid: u32, device: (u32, u32)) -> bool {
    let kind = ["self".to_owned(), pid.to_string()]
        .iter()
        .find_map(|process| kind_of(device, &mounts(process)?).map(|kind| is_served(&kind)));
    kind.unwrap_or(device.0 == 0)
}

fn is_served(kind: &str) -> bool {
    kind.starts_with("fuse") && kind != "fuseblk"
}

fn mounts(process: &str) -> Option<String> {
    let mut text = Vec::new();
    let file = File::open(format!("/proc/{process}/mountinfo")).ok()?;
    file.take(LONGEST).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// The file system of a device, by the text of a table of mounts (proc_pid_mountinfo(5)).
fn kind_of((major, minor): (u32, u32), mounts: &str) -> Option<String> {
    let device = format!("{major}:{minor}");
    let line = mounts
        .lines()
        .find(|line| line.split(' ').nth(2) == Some(&*device))?;
    let (_, kind) = line.split_once(" - ")?;
    kind.split(' ').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::fs;
    use std::time::{Duration, Instant};

    use super::*;

    const MOUNTS: &str = "\
28 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw
36 28 0:31 / /home/u/cuda\\040mount rw,nosuid - fuse.sshfs there: rw,user_id=1000
37 28 0:32 / /tmp rw,nosuid shared:9 - tmpfs tmpfs rw
38 28 8:5 / /media rw - fuseblk /dev/sda5 rw
";

    #[test]
    fn files_that_a_program_serves_are_left_alone() {
        let kind = |device| kind_of(device, MOUNTS);
        assert_eq!(kind((254, 0)).as_deref(), Some("ext4"));
        assert_eq!(kind((0, 3)), None);
        assert!(is_served(&kind((0, 31)).unwrap()));
        assert!(!is_served(&kind((0, 32)).unwrap()));
        assert!(!is_served(&kind((8, 5)).unwrap()));
        let this = std::process::id();
        assert!(may_wait(this, (0, u32::MAX)), "mounted nowhere");
        assert!(!may_wait(this, (u32::MAX, 0)), "a disk");
    }

    #[test]
    fn only_regular_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("libcuda.so.1");
        let name = CString::new(fifo.as_os_str().as_encoded_bytes()).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &name,
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
        let start = Instant::now();
        for path in [&*fifo, folder.path(), Path::new("/dev/zero")] {
            assert!(open(path).is_none(), "{}", path.display());
        }
        assert!(start.elapsed() < Duration::from_secs(5));
        let regular = folder.path().join("regular");
        fs::write(&regular, "text").unwrap();
        assert!(open(&regular).is_some());
    }
}
