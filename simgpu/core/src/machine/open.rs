//! Creating the machine's file, or joining the one that is there.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::sync::Once;

use rustix::fs::{FlockOperation, flock, ftruncate};

use super::Machine;
use super::layout::{CONFIG_AT, CONFIG_MAX, Header, LAYOUT_VERSION, Layout, MAGIC};
use crate::config::{Config, ConfigError, GRANULE, fnv1a};

/// Why the machine cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The configuration is refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A system call failed.
    #[error(
        "{path}: {doing}: {source}; set SIMGPU_DIR to a folder of your own with room for the device memory"
    )]
    System {
        /// What it was about.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The folder belongs to somebody else.
    #[error("{path}: belongs to user {uid}; set SIMGPU_DIR to a folder of your own")]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// The file is not one of ours, or of another version.
    #[error("{path}: not a simulated machine of this version; remove it when no process uses it")]
    Layout {
        /// The file.
        path: PathBuf,
    },
    /// The machine was made from another configuration.
    #[error(
        "{path}: the machine was made from another configuration; use that one, another SIMGPU_DIR, \
         or remove the file when no process uses it"
    )]
    Mismatch {
        /// The file.
        path: PathBuf,
    },
    /// All slots hold living processes.
    #[error("{path}: more processes than the machine can hold; end some")]
    Full {
        /// The file.
        path: PathBuf,
    },
}

/// The folder of the machine: `SIMGPU_DIR`, or one of the user's own in memory.
pub fn default_dir() -> PathBuf {
    std::env::var_os("SIMGPU_DIR").map_or_else(
        || {
            PathBuf::from(format!(
                "/dev/shm/simgpu-{}",
                rustix::process::geteuid().as_raw()
            ))
        },
        PathBuf::from,
    )
}

const FILE: &str = "machine";

/// How much of a machine is mapped.
#[derive(Clone, Copy)]
enum Extent {
    Whole,
    /// All but the device memory.
    Accounts,
}

impl Machine {
    /// Joins the machine in `dir`, or makes it first.
    ///
    /// With no configuration the machine is taken as it is; a new one is then
    /// the default.
    pub fn open(dir: &Path, wanted: Option<&Config>) -> Result<Self, MachineError> {
        make_dir(dir)?;
        let path = dir.join(FILE);
        let lock_path = dir.join("lock");
        let lock = open_file(&lock_path, true)?;
        // The kernel drops the lock with its holder, so a kill here harms nobody.
        rustix::io::retry_on_intr(|| flock(&lock, FlockOperation::LockExclusive))
            .map_err(|errno| system(&lock_path, "cannot be locked", errno.into()))?;
        if !path.exists() {
            create(dir, &path, wanted.unwrap_or(&Config::default()))?;
        }
        drop(lock);
        let machine = Self::join(&path, Extent::Whole)?;
        if wanted.is_some_and(|wanted| *wanted != machine.config) {
            return Err(MachineError::Mismatch { path });
        }
        Ok(machine)
    }

    /// Joins the machine in `dir` that somebody else has made, to look at it:
    /// the device memory is not mapped.
    pub(crate) fn open_existing(dir: &Path) -> Result<Self, MachineError> {
        Self::join(&dir.join(FILE), Extent::Accounts)
    }

    /// Puts the pages of a GPU's memory in place in this process, once. To all who join, used or
    /// not, it would be what starting many programs costs most.
    pub(crate) fn populate(&self, gpu: usize) {
        let len = self.gpu(gpu).memory.0 as usize;
        self.populated[gpu].call_once(|| {
            // SAFETY: all of the GPU's memory is mapped, as `granule` asserts. Whoever made the
            // file has given it its room: what fails here is left to page faults.
            let _ = unsafe { populate(self.granule(gpu, 0), len) };
        });
    }

    /// Whether `dir` still has this machine: its file can be removed, and
    /// another one be made.
    pub(crate) fn is_in(&self, dir: &Path) -> bool {
        fs::metadata(dir.join(FILE)).is_ok_and(|file| (file.dev(), file.ino()) == self.file)
    }

    fn join(path: &Path, extent: Extent) -> Result<Self, MachineError> {
        let file = open_file(path, false)?;
        let about = file
            .metadata()
            .map_err(|e| system(path, "cannot be read", e))?;
        let len = about.len() as usize;
        let foreign = || MachineError::Layout {
            path: path.to_owned(),
        };
        let front_len = CONFIG_AT + CONFIG_MAX;
        if len < front_len {
            return Err(foreign());
        }
        let front = map(&file, path, front_len, front_len)?;
        let config = read_config(front);
        // SAFETY: mapped above with this length, and not used any more.
        unsafe { libc::munmap(front.as_ptr().cast(), front_len) };
        let config = config.ok_or_else(foreign)?;
        let layout = Layout::of(&config);
        if layout.size != len {
            return Err(foreign());
        }
        let mapped = match extent {
            Extent::Whole => len,
            Extent::Accounts => layout.accounts_size,
        };
        Ok(Self {
            base: map(&file, path, mapped, layout.accounts_size)?,
            mapped,
            order: (0..config.gpus.len()).collect(),
            populated: config.gpus.iter().map(|_| Once::new()).collect(),
            dir: path.parent().map(Path::to_owned).unwrap_or_default(),
            file: (about.dev(), about.ino()),
            layout,
            config,
        })
    }
}

fn make_dir(dir: &Path) -> Result<(), MachineError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|e| system(dir, "cannot be made", e))?;
    let owner = fs::metadata(dir)
        .map_err(|e| system(dir, "cannot be read", e))?
        .uid();
    let me = rustix::process::geteuid().as_raw();
    // Root may look at anybody's machine; nobody else is led into a stranger's.
    if owner != me && me != 0 {
        return Err(MachineError::Foreign {
            path: dir.to_owned(),
            uid: owner,
        });
    }
    Ok(())
}

/// The machine's file again, if it is still the one with this device and inode.
pub(super) fn open_machine(dir: &Path, known: (u64, u64)) -> io::Result<File> {
    let path = dir.join(FILE);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(path)?;
    let about = file.metadata()?;
    if (about.dev(), about.ino()) == known {
        Ok(file)
    } else {
        Err(io::ErrorKind::NotFound.into())
    }
}

pub(super) fn open_file(path: &Path, create: bool) -> Result<File, MachineError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(create)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(path)
        .map_err(|e| system(path, "cannot be opened", e))
}

/// Makes the file whole under another name, so that nobody ever sees half of it.
fn create(dir: &Path, path: &Path, config: &Config) -> Result<(), MachineError> {
    let half = dir.join("machine.new");
    let _ = fs::remove_file(&half);
    let file = open_file(&half, true)?;
    let made = fill(&file, &half, config)
        .and_then(|()| fs::rename(&half, path).map_err(|e| system(path, "cannot be named", e)));
    if made.is_err() {
        let _ = fs::remove_file(&half);
    }
    made
}

fn fill(file: &File, path: &Path, config: &Config) -> Result<(), MachineError> {
    let text = config.canonical();
    assert!(text.len() <= CONFIG_MAX, "eight tables of numbers fit");
    let layout = Layout::of(config);
    file.set_permissions(fs::Permissions::from_mode(0o600))
        .and_then(|()| ftruncate(file, layout.size as u64).map_err(io::Error::from))
        .map_err(|e| system(path, "cannot be sized", e))?;
    let base = map(file, path, layout.size, layout.size)?;
    // SAFETY: the file is `layout.size` bytes, mapped here, and nobody else has
    // it yet; the header and the text lie before the slots.
    unsafe {
        let header = base.as_ptr().cast::<Header>();
        (*header).layout_version = LAYOUT_VERSION;
        (*header).config_len = text.len() as u32;
        (*header).config_hash = fnv1a(HASH_BASIS, text.as_bytes());
        ptr::copy_nonoverlapping(text.as_ptr(), base.as_ptr().add(CONFIG_AT), text.len());
        (*header).magic = MAGIC;
        libc::munmap(base.as_ptr().cast(), layout.size);
    }
    Ok(())
}

const HASH_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// Maps the file, with every page of the first `ready` bytes in place: no page fault falls into a
/// timing.
fn map(file: &File, path: &Path, len: usize, ready: usize) -> Result<NonNull<u8>, MachineError> {
    let align = GRANULE as usize;
    // SAFETY: a new mapping at a place of the kernel's choice; large enough to
    // hold an aligned range of `len` bytes, onto which the file is then put.
    let base = unsafe {
        let room = libc::mmap(
            ptr::null_mut(),
            len + align,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        );
        if room == libc::MAP_FAILED {
            return Err(system(path, "cannot be mapped", io::Error::last_os_error()));
        }
        let start = room.cast::<u8>();
        let skip = start.align_offset(align);
        let base = start.add(skip);
        let mapped = libc::mmap(
            base.cast(),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_FIXED,
            file.as_raw_fd(),
            0,
        );
        if skip > 0 {
            libc::munmap(room, skip);
        }
        libc::munmap(base.add(len).cast(), align - skip);
        if mapped == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            libc::munmap(base.cast(), len);
            return Err(system(path, "cannot be mapped", error));
        }
        libc::madvise(base.cast(), len, libc::MADV_HUGEPAGE);
        base
    };
    // SAFETY: the mapping just made.
    if let Err(error) = unsafe { populate(base, ready) } {
        // SAFETY: mapped above and not used any more.
        unsafe { libc::munmap(base.cast(), len) };
        return Err(system(path, "no room for the device memory", error));
    }
    Ok(NonNull::new(base).expect("a mapping is never at 0"))
}

/// Puts pages in place. Also what reports that the file system has no room, where touching a page
/// would kill the process.
///
/// # Safety
///
/// `len` bytes from `at`, which is the start of a page, are mapped.
unsafe fn populate(at: *mut u8, len: usize) -> io::Result<()> {
    // SAFETY: advice on what the caller has mapped.
    match unsafe { libc::madvise(at.cast(), len, libc::MADV_POPULATE_WRITE) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Reads the configuration from a mapping of the file's first part.
fn read_config(front: NonNull<u8>) -> Option<Config> {
    // SAFETY: the mapping has the header and the configuration's room, which do
    // not change once the file has its name.
    let (header, text) = unsafe {
        let header = &*front.as_ptr().cast::<Header>();
        let text_len = (header.config_len as usize).min(CONFIG_MAX);
        (
            header,
            std::slice::from_raw_parts(front.as_ptr().add(CONFIG_AT), text_len),
        )
    };
    let known = header.magic == MAGIC
        && header.layout_version == LAYOUT_VERSION
        && header.config_hash == fnv1a(HASH_BASIS, text);
    let text = std::str::from_utf8(text).ok().filter(|_| known)?;
    Config::from_canonical(text)
}

fn system(path: &Path, doing: &'static str, source: io::Error) -> MachineError {
    MachineError::System {
        path: path.to_owned(),
        doing,
        source,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::config::{GpuConfig, Size};

    /// A small machine in a folder that goes with the returned guard.
    pub(crate) fn small(memory_mib: u64) -> (tempfile::TempDir, Machine) {
        let gpu = GpuConfig {
            memory: Size(memory_mib << 20),
            context_bytes: Size(GRANULE),
            ..GpuConfig::default()
        };
        with_gpu(gpu)
    }

    /// A machine of one GPU.
    pub(crate) fn with_gpu(gpu: GpuConfig) -> (tempfile::TempDir, Machine) {
        let config = Config {
            gpus: vec![gpu],
            ..Config::default()
        };
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let machine = Machine::open(dir.path(), Some(&config)).unwrap();
        (dir, machine)
    }

    #[test]
    fn second_opener_sees_the_same_machine() {
        let (dir, first) = small(4);
        let second = Machine::open(dir.path(), None).unwrap();
        assert_eq!(first.config(), second.config());
        // SAFETY: granule 1 exists in both mappings and nobody else uses it.
        unsafe {
            first.granule(0, 1).write(42);
            assert_eq!(second.granule(0, 1).read(), 42);
        }
    }

    #[test]
    fn another_configuration_is_refused() {
        let (dir, machine) = small(4);
        let mut other = machine.config().clone();
        other.scrub = !other.scrub;
        let error = Machine::open(dir.path(), Some(&other)).unwrap_err();
        assert!(matches!(error, MachineError::Mismatch { .. }), "{error}");
    }

    #[test]
    fn garbage_is_refused() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        for len in [10, 1 << 20] {
            fs::write(dir.path().join(FILE), vec![7; len]).unwrap();
            let error = Machine::open(dir.path(), None).unwrap_err();
            assert!(matches!(error, MachineError::Layout { .. }), "{error}");
        }
    }

    #[test]
    fn racing_creators_agree() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let gpu = GpuConfig {
            memory: Size(4 << 20),
            context_bytes: Size(GRANULE),
            ..GpuConfig::default()
        };
        let config = Config {
            gpus: vec![gpu],
            ..Config::default()
        };
        std::thread::scope(|scope| {
            let open = || Machine::open(dir.path(), Some(&config)).unwrap();
            let openers: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
            let machines: Vec<_> = openers.into_iter().map(|o| o.join().unwrap()).collect();
            // SAFETY: granule 0 exists in each mapping and nobody else uses it.
            unsafe {
                machines[0].granule(0, 0).write(9);
                assert!(
                    machines
                        .iter()
                        .all(|machine| machine.granule(0, 0).read() == 9)
                );
            }
        });
    }
}
