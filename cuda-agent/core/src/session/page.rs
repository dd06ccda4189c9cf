//! The control page as the agent maps it.

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rtswap_wire::page::{ControlPage, PAGE_BYTES};
use rustix::fs::SealFlags;
use rustix::mm::{Advice, MapFlags, ProtFlags};

/// Why a page is not taken.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// It could shrink under the mapping, or is no memfd.
    #[error("the daemon's control page is not a sealed memfd of {PAGE_BYTES} bytes")]
    Unsealed,
    /// Not of this wire version.
    #[error("the daemon's control page is of another version; install one version of rtswap")]
    Unknown,
    /// The kernel refused.
    #[error("the control page cannot be mapped: {0}")]
    Map(#[from] rustix::io::Errno),
}

/// A mapped control page. Only its atomics are ever touched.
#[derive(Debug)]
pub struct Page(NonNull<ControlPage>);

// SAFETY: the page is made of atomics.
unsafe impl Send for Page {}
// SAFETY: the page is made of atomics.
unsafe impl Sync for Page {}

impl Page {
    /// Maps the page behind `fd`, after checking that it cannot shrink.
    pub fn map(fd: BorrowedFd<'_>) -> Result<Self, PageError> {
        let seals = rustix::fs::fcntl_get_seals(fd).map_err(|_| PageError::Unsealed)?;
        let size = rustix::fs::fstat(fd)?.st_size;
        if !seals.contains(SealFlags::SHRINK) || usize::try_from(size) != Ok(PAGE_BYTES) {
            return Err(PageError::Unsealed);
        }
        let page = Self::map_unchecked(fd)?;
        if page.control().is_known() {
            Ok(page)
        } else {
            Err(PageError::Unknown)
        }
    }

    /// Maps a memfd of the right size.
    pub(super) fn map_unchecked(fd: BorrowedFd<'_>) -> Result<Self, PageError> {
        // SAFETY: a new mapping at an address of the kernel's choice.
        let at = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                PAGE_BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                fd,
                0,
            )
        }?;
        // SAFETY: the mapping made above; the advice changes nothing in this process.
        unsafe { rustix::mm::madvise(at, PAGE_BYTES, Advice::LinuxDontFork) }?;
        Ok(Self(NonNull::new(at.cast()).ok_or(PageError::Unsealed)?))
    }

    /// The page.
    pub fn control(&self) -> &ControlPage {
        // SAFETY: mapped, page-aligned, as long as a ControlPage, sealed against shrinking, and
        // valid for any bytes; unmapped only on drop.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`; nobody borrows it any more.
        let _ = unsafe { rustix::mm::munmap(self.0.as_ptr().cast(), PAGE_BYTES) };
    }
}
