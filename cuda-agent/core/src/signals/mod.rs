//! Doorbells among a program's own signals. SIGUSR1 and SIGUSR2 belong to the program: it may
//! handle, wait for, read or ignore them, and must never miss one because of the agent.
//!
//! The daemon queues a doorbell to the swap thread alone, so it is pending for that thread; what
//! the program gets is pending for the process. signalfd and sigwaitinfo take from both, the
//! thread's own first. /proc tells the two apart before anything is taken: only what is pending
//! for this thread is. While a number is pending for the process, it is left out of the wait set,
//! so that the swap thread does not spin on it either.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rtswap_wire::doorbell::Cookie;

use crate::session::{Descriptor, Headroom, Mark};

const NUMBERS: [i32; 2] = [libc::SIGUSR1, libc::SIGUSR2];

/// The swap thread's ear. Made and used in that thread.
#[derive(Debug)]
pub struct Doorbells {
    fd: Descriptor,
    /// /proc/thread-self/status, where there is a /proc.
    status: Option<Descriptor>,
    /// Numbers left out for now, as a mask.
    left_out: u64,
}

/// What is pending, as masks of the two numbers.
#[derive(Clone, Copy)]
struct Pending {
    thread: u64,
    process: u64,
}

impl Doorbells {
    /// Blocks all signals in this thread and listens.
    pub fn new() -> std::io::Result<Self> {
        block_all()?;
        let both = set(0);
        // SAFETY: makes a descriptor out of a mask on the stack.
        let fd =
            unsafe { libc::signalfd(-1, &raw const both, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nobody else owns.
        let fd = Descriptor::new(unsafe { OwnedFd::from_raw_fd(fd) })?;
        let status = rustix::fs::open(
            "/proc/thread-self/status",
            rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        );
        Ok(Self {
            fd,
            status: status.and_then(Descriptor::new).ok(),
            left_out: 0,
        })
    }

    /// Readable when a doorbell may have rung. Nothing if the program closed it: the next
    /// [`Self::take`] opens another.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.get()
    }

    /// The descriptors, for the child of a fork to close.
    pub fn marks(&self) -> impl Iterator<Item = Mark> {
        let all = self.status.iter().chain([&self.fd]);
        all.map(Descriptor::mark)
    }

    /// Whether some number is left out: doorbells of it do not wake the thread, it must look.
    pub fn is_deaf(&self) -> bool {
        self.left_out != 0
    }

    /// Takes the doorbells, hands back what was the program's, and listens to what may be
    /// listened to.
    pub fn take(&mut self, cookie: Cookie) {
        let whole = self.status.iter().all(|status| status.get().is_some());
        if !whole || self.fd.get().is_none() {
            // Without it the descriptors are the next that are free.
            let _headroom = Headroom::make();
            if let Ok(fresh) = Self::new() {
                *self = fresh;
            }
        }
        // Without /proc everything counts as this thread's: the program's signals are taken and
        // raised again.
        let mut pending = self.pending();
        while pending.is_none_or(|pending| pending.thread != 0) {
            let Some(info) = self.read() else { break };
            if !cookie.rings(info.ssi_code, info.ssi_ptr) {
                raise_again(&info);
            }
            if pending.is_none() {
                // Raised again it may be the next to be read: look once a wake-up.
                break;
            }
            pending = self.pending();
        }
        let process = pending.map_or(0, |pending| pending.process);
        if process != self.left_out {
            self.left_out = process;
            let rest = set(process);
            if let Some(fd) = self.fd.get() {
                // SAFETY: sets the mask of our own signalfd.
                unsafe { libc::signalfd(fd.as_raw_fd(), &raw const rest, 0) };
            }
        }
    }

    fn pending(&self) -> Option<Pending> {
        let mut text = [0; 4096];
        let bytes = rustix::io::pread(self.status.as_ref()?.get()?, &mut text, 0).ok()?;
        let text = std::str::from_utf8(&text[..bytes]).ok()?;
        let mask = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key))?;
            let all = u64::from_str_radix(line.trim(), 16).ok()?;
            Some(all & NUMBERS.iter().fold(0, |mask, &number| mask | bit(number)))
        };
        Some(Pending {
            thread: mask("SigPnd:")?,
            process: mask("ShdPnd:")?,
        })
    }

    /// Takes one signal: of this thread if it has any, else of the process.
    fn read(&self) -> Option<libc::signalfd_siginfo> {
        let mut bytes = [0; size_of::<libc::signalfd_siginfo>()];
        let got = rustix::io::read(self.fd.get()?, &mut bytes).ok()?;
        // SAFETY: plain integers, for which any bytes are valid; the kernel writes whole ones.
        (got == bytes.len()).then(|| unsafe { std::mem::transmute_copy(&bytes) })
    }
}

fn bit(number: i32) -> u64 {
    1 << (number - 1)
}

/// The two numbers without those of the mask `left_out`.
fn set(left_out: u64) -> libc::sigset_t {
    // SAFETY: sigemptyset and sigaddset fill the set, whose zero bytes are valid.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for number in NUMBERS
            .into_iter()
            .filter(|&number| left_out & bit(number) == 0)
        {
            libc::sigaddset(&raw mut set, number);
        }
        set
    }
}

/// Blocks every signal in the calling thread, and gives the mask before.
pub fn block_all() -> std::io::Result<libc::sigset_t> {
    // SAFETY: fills two masks on the stack and sets this thread's own.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        match libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) {
            0 => Ok(before),
            error => Err(std::io::Error::from_raw_os_error(error)),
        }
    }
}

/// Gives the calling thread its mask back.
pub fn restore(mask: &libc::sigset_t) {
    // SAFETY: sets this thread's mask to one that it had.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) };
}

/// Whether a signal that this thread blocks is pending.
pub fn is_pending(number: i32) -> bool {
    // SAFETY: fills a mask on the stack.
    unsafe {
        let mut pending: libc::sigset_t = std::mem::zeroed();
        libc::sigpending(&raw mut pending) == 0
            && libc::sigismember(&raw const pending, number) == 1
    }
}

/// Takes a pending signal that this thread, which blocks it, brought upon itself.
pub fn forget(number: i32) {
    // SAFETY: builds a mask on the stack and waits no time for it.
    unsafe {
        let mut one: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut one);
        libc::sigaddset(&raw mut one, number);
        let now: libc::timespec = std::mem::zeroed();
        libc::sigtimedwait(&raw const one, std::ptr::null_mut(), &raw const now);
    }
}

/// Gives the program a signal that somebody sent to the swap thread. With its value where the
/// kernel lets a thread that is not the leader do that: for negative codes but SI_TKILL.
fn raise_again(info: &libc::signalfd_siginfo) {
    let process = std::process::id().cast_signed();
    let number = info.ssi_signo.cast_signed();
    let queued = info.ssi_code < 0
        && info.ssi_code != libc::SI_TKILL
        && queue(process, number, info).is_ok();
    if !queued {
        // SAFETY: a signal to this process.
        unsafe { libc::kill(process, number) };
    }
}

fn queue(process: i32, number: i32, from: &libc::signalfd_siginfo) -> std::io::Result<()> {
    /// The kernel's siginfo_t for a queued signal.
    #[repr(C)]
    struct Queued {
        number: i32,
        error: i32,
        code: i32,
        pad: i32,
        pid: u32,
        uid: u32,
        value: u64,
        rest: [u8; 96],
    }
    const _: () = assert!(size_of::<Queued>() == 128);
    let info = Queued {
        number,
        error: from.ssi_errno,
        code: from.ssi_code,
        pad: 0,
        pid: from.ssi_pid,
        uid: from.ssi_uid,
        value: from.ssi_ptr,
        rest: [0; 96],
    };
    // SAFETY: the kernel reads 128 bytes, the size of the struct.
    let rc = unsafe { libc::syscall(libc::SYS_rt_sigqueueinfo, process, number, &raw const info) };
    if rc == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests;
