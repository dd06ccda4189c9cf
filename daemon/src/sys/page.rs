//! The memory of a control page: a sealed memfd, mapped here and sent to the agent.

use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use rtswap_wire::page::{ControlPage, PAGE_BYTES};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::thread::futex;

/// One mapped control page. Its size is sealed, so that no peer can make an access fault.
#[derive(Debug)]
pub struct PageMap {
    page: NonNull<ControlPage>,
    fd: OwnedFd,
}

// SAFETY: the mapping is owned by this value and holds atomics only; any thread may use it.
unsafe impl Send for PageMap {}

impl PageMap {
    /// A fresh zeroed page.
    pub fn new() -> io::Result<Self> {
        let fd = memfd_create(
            "rtswap-page",
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
        )?;
        ftruncate(&fd, PAGE_BYTES as u64)?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        // SAFETY: a new shared mapping at an address of the kernel's choosing aliases nothing.
        let address = unsafe {
            mmap(
                std::ptr::null_mut(),
                PAGE_BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &fd,
                0,
            )?
        };
        let page = NonNull::new(address.cast()).ok_or(io::Errno::FAULT)?;
        Ok(Self { page, fd })
    }

    /// The memfd, to be sent to the agent.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Deref for PageMap {
    type Target = ControlPage;

    fn deref(&self) -> &ControlPage {
        // SAFETY: the mapping is page-aligned, PAGE_BYTES long (sealed), lives as long as `self`,
        // and ControlPage is made of atomics that are valid for any bytes a peer may write.
        unsafe { self.page.as_ref() }
    }
}

impl Drop for PageMap {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` and no reference to it outlives `self`.
        let unmapped = unsafe { munmap(self.page.as_ptr().cast(), PAGE_BYTES) };
        debug_assert!(unmapped.is_ok());
    }
}

/// Wakes whoever waits on a futex word of a shared page.
pub fn wake(word: &AtomicU32) {
    // Only a word outside our memory could fail, and a reference never is.
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_zero_sealed_and_writable() {
        let page = PageMap::new().unwrap();
        assert!(!page.is_known());
        page.init(3);
        assert_eq!(page.epoch(), 3);
        assert_eq!(ftruncate(&page.fd, 0), Err(io::Errno::PERM));
        assert_eq!(
            fcntl_add_seals(&page.fd, SealFlags::WRITE),
            Err(io::Errno::PERM)
        );
    }
}
