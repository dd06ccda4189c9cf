//! Events that other processes can wait for: what they share is a page with two counts.
//!
//! The page is an anonymous file of the process that made the event; others open it through /proc as long as that process
//! lives, and keep it then. Nothing is left behind when all have ended. A record of a process that has died counts as
//! reached: nobody else would ever mark it.

use std::ffi::c_void;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::{Pid, test_kill_process};

use super::fence::Fence;
use super::ipc::HANDLE_BYTES;
use crate::clock::now_ns;
use crate::{Error, Result};

/// First word of a handle, and of the page.
const MAGIC: u64 = u64::from_le_bytes(*b"simipce1");
/// How often it is looked whether another process has got there.
const POLL: Duration = Duration::from_micros(50);

/// The page.
#[repr(C)]
struct Page {
    magic: AtomicU64,
    /// How often the event was recorded.
    recorded: AtomicU64,
    /// The last record whose work is done.
    reached: AtomicU64,
    /// The process that recorded it last.
    recorder: AtomicU64,
}

/// An event's page in this process.
pub(super) struct Interprocess {
    page: NonNull<Page>,
    /// Open as long as others may open it.
    _file: OwnedFd,
    /// Where the file can be opened: process and descriptor.
    place: [u64; 2],
}

// SAFETY: the page is nothing but atomics, and mapped as long as this exists.
unsafe impl Send for Interprocess {}
// SAFETY: as above.
unsafe impl Sync for Interprocess {}

impl Interprocess {
    /// The page of a new event.
    pub(super) fn new() -> Result<Arc<Self>> {
        let failed = |_| Error::OutOfMemory;
        let file = memfd_create("simgpu-event", MemfdFlags::CLOEXEC).map_err(failed)?;
        ftruncate(&file, size_of::<Page>() as u64).map_err(failed)?;
        let place = [std::process::id().into(), file.as_raw_fd() as u64];
        let event = Self::map(file, place)?;
        event.page().magic.store(MAGIC, Release);
        Ok(event)
    }

    /// The page behind a handle; a process does not open what it made itself.
    pub(super) fn open(handle: &[u8; HANDLE_BYTES]) -> Result<Arc<Self>> {
        let (words, _) = handle.as_chunks();
        let [magic, pid, number] = std::array::from_fn(|at| u64::from_le_bytes(words[at]));
        if magic != MAGIC {
            return Err(Error::InvalidValue);
        }
        if pid == u64::from(std::process::id()) {
            return Err(Error::InvalidContext);
        }
        let file = File::options()
            .read(true)
            .write(true)
            .open(format!("/proc/{pid}/fd/{number}"));
        let file = file.map_err(|_| Error::InvalidValue)?;
        let is_large = file
            .metadata()
            .is_ok_and(|about| about.len() >= size_of::<Page>() as u64);
        if !is_large {
            return Err(Error::InvalidValue);
        }
        let event = Self::map(file.into(), [pid, number])?;
        // The descriptor may be another file by now.
        let is_event = event.page().magic.load(Acquire) == MAGIC;
        is_event.then_some(event).ok_or(Error::InvalidValue)
    }

    fn map(file: OwnedFd, place: [u64; 2]) -> Result<Arc<Self>> {
        // SAFETY: a new mapping at no particular address, of a file that is large enough.
        let page = unsafe {
            mmap(
                std::ptr::null_mut(),
                size_of::<Page>(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &file,
                0,
            )
        };
        let page = page.ok().and_then(|page| NonNull::new(page.cast()));
        let page = page.ok_or(Error::OutOfMemory)?;
        Ok(Arc::new(Self {
            page,
            _file: file,
            place,
        }))
    }

    /// What another process opens it by.
    pub(super) fn handle(&self) -> [u8; HANDLE_BYTES] {
        let mut bytes = [0; HANDLE_BYTES];
        let words = [MAGIC, self.place[0], self.place[1]];
        for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    fn page(&self) -> &Page {
        // SAFETY: mapped as long as this exists, and nothing but atomics.
        unsafe { self.page.as_ref() }
    }

    /// Counts a record of this process; which one it is.
    pub(super) fn record(&self) -> u64 {
        let page = self.page();
        page.recorder.store(std::process::id().into(), Relaxed);
        page.recorded.fetch_add(1, AcqRel) + 1
    }

    /// The last record, which is what others wait for.
    pub(super) fn last(&self) -> u64 {
        self.page().recorded.load(Acquire)
    }

    /// Whether the work before a record is done; of a process that has ended, all is.
    pub(super) fn is_reached(&self, record: u64) -> bool {
        let page = self.page();
        page.reached.load(Acquire) >= record || !is_alive(page.recorder.load(Relaxed))
    }

    /// Waits until it is.
    pub(super) fn wait(&self, record: u64) {
        while !self.is_reached(record) {
            std::thread::sleep(POLL);
        }
    }

    /// A fence that ends when a record is reached.
    pub(super) fn fence(self: &Arc<Self>, record: u64) -> Arc<Fence> {
        let fence = Arc::<Fence>::default();
        let (event, end) = (self.clone(), fence.clone());
        std::thread::spawn(move || {
            event.wait(record);
            end.signal(now_ns());
        });
        fence
    }
}

impl Drop for Interprocess {
    fn drop(&mut self) {
        // SAFETY: mapped by us, and nothing refers to it any more.
        let _ = unsafe { munmap(self.page.as_ptr().cast(), size_of::<Page>()) };
    }
}

fn is_alive(pid: u64) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

/// A record on its way through a stream.
pub(super) struct Arrival {
    event: Arc<Interprocess>,
    record: u64,
}

impl Arrival {
    /// Records the event. What [`arrive`] is to be called with once, when the work before the record is done.
    pub(super) fn begin(event: &Arc<Interprocess>) -> usize {
        let record = event.record();
        let event = event.clone();
        Box::into_raw(Box::new(Self { event, record })) as usize
    }
}

/// The stream has got to a record; also where its context is broken.
pub(super) unsafe extern "C" fn arrive(_stream: *mut c_void, _code: u32, arrival: *mut c_void) {
    // SAFETY: what Arrival::begin made, and given to us once.
    let arrival = unsafe { Box::from_raw(arrival.cast::<Arrival>()) };
    let reached = &arrival.event.page().reached;
    reached.fetch_max(arrival.record, AcqRel);
}
