//! Who calls.

use aya_ebpf::bindings::bpf_pidns_info;
use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_get_ns_current_pid_tgid, bpf_ktime_get_ns};
use rtswap_probe_abi::records::{Lost, NO_DEVICE, Object, Process, SHARES, Share};

use crate::maps::{PROCESSES, add_narrow, config, count, lose};
use crate::share;

/// BPF_NOEXIST: of two threads that come at once, one makes the entry.
pub const NEW_ONLY: u64 = 1;

/// The calling process.
#[derive(Clone, Copy)]
pub struct Caller {
    /// Process id << 32 | thread id, in the initial namespace.
    pub thread: u64,
    /// [`Process::since`].
    pub since: u64,
    /// Its entry; valid for as long as one of its threads runs, so for the whole program.
    pub process: *mut Process,
}

impl Caller {
    /// Finds the caller, or makes its entry. Without room for it, a call of so many bytes is lost.
    #[inline(always)]
    pub fn find(bytes: u64) -> Option<Self> {
        let thread = bpf_get_current_pid_tgid();
        let id = (thread >> 32) as u32;
        let mut process = PROCESSES.get_ptr_mut(id);
        if process.is_none() {
            let owner = share::owner();
            if share::take_for_owner(owner, Share::Processes, 1) {
                let _ = PROCESSES.insert(id, first_seen(id, owner), NEW_ONLY);
            }
            process = PROCESSES.get_ptr_mut(id);
        }
        let Some(process) = process else {
            lose(Lost::Calls, 1);
            lose(Lost::Bytes, bytes);
            return None;
        };
        // SAFETY: the map's value, never changed.
        let since = unsafe { (*process).since };
        Some(Self {
            thread,
            since,
            process,
        })
    }

    /// Process id in the initial namespace.
    #[inline(always)]
    pub fn id(&self) -> u32 {
        (self.thread >> 32) as u32
    }

    /// Thread id in the initial namespace.
    #[inline(always)]
    pub fn thread_id(&self) -> u32 {
        self.thread as u32
    }

    /// Something that the driver named for this process.
    #[inline(always)]
    pub fn object(&self, name: u64) -> Object {
        Object {
            since: self.since,
            name,
            process: self.id(),
            zero: 0,
        }
    }

    /// Counts a call that succeeded.
    #[inline(always)]
    pub fn called(&self) {
        // SAFETY: the map's value.
        unsafe { count(&raw mut (*self.process).calls, 1) }
    }

    /// Counts a call that the driver refused.
    #[inline(always)]
    pub fn failed(&self) {
        // SAFETY: the map's value.
        unsafe { count(&raw mut (*self.process).failures, 1) }
    }

    /// Counts a call that was not followed, and may have left so many bytes held.
    #[inline(always)]
    pub fn unseen(&self, bytes: u64) {
        // SAFETY: the map's value.
        unsafe {
            count(&raw mut (*self.process).unseen_calls, 1);
            count(&raw mut (*self.process).unseen_bytes, bytes);
        }
    }

    /// Counts a memory object whose free is not recognised.
    #[inline(always)]
    pub fn unfreed(&self, bytes: u64) {
        // SAFETY: the map's value.
        unsafe {
            count(&raw mut (*self.process).unfreed_objects, 1);
            count(&raw mut (*self.process).unfreed_bytes, bytes);
        }
    }

    /// Counts a name that had no room.
    #[inline(always)]
    pub fn unnamed(&self) {
        // SAFETY: the map's value.
        unsafe { add_narrow(&raw mut (*self.process).unnamed, 1) };
    }

    /// Records that it called a driver that is not root's.
    #[inline(always)]
    pub fn mark_foreign(&self) {
        // SAFETY: the map's value.
        unsafe { (&raw mut (*self.process).foreign).write_volatile(1) };
    }

    /// Counts a free of what is not known.
    #[inline(always)]
    pub fn freed_unknown(&self) {
        // SAFETY: the map's value.
        unsafe { count(&raw mut (*self.process).unknown_frees, 1) }
    }
}

#[inline(always)]
fn first_seen(id: u32, owner: u32) -> Process {
    Process {
        since: now(),
        calls: 0,
        failures: 0,
        unseen_calls: 0,
        unseen_bytes: 0,
        unfreed_objects: 0,
        unfreed_bytes: 0,
        unknown_frees: 0,
        lost_news: 0,
        id_here: id_here(id),
        device: NO_DEVICE,
        owner,
        unnamed: 0,
        foreign: 0,
        zero: 0,
        used: [0; SHARES],
        taken: [0; SHARES],
    }
}

/// `CLOCK_MONOTONIC`, ns.
#[inline(always)]
pub fn now() -> u64 {
    // SAFETY: it takes nothing.
    unsafe { bpf_ktime_get_ns() }
}

/// The calling process's id in the reader's PID namespace, 0 where it is not in it.
#[inline(always)]
fn id_here(id: u32) -> u32 {
    let config = config();
    if config.namespace_inode == 0 {
        return id;
    }
    let mut found = bpf_pidns_info { pid: 0, tgid: 0 };
    // SAFETY: `found` is of the size given; the helper zeroes it where it fails.
    let result = unsafe {
        bpf_get_ns_current_pid_tgid(
            config.namespace_device,
            config.namespace_inode,
            &raw mut found,
            size_of::<bpf_pidns_info>() as u32,
        )
    };
    if result == 0 { found.tgid } else { 0 }
}
