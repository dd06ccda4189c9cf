//! bpf(2) for links of many places in one file (`uprobe_multi`, Linux 6.6), which the last aya that our
//! compiler builds cannot make. Numbers and layouts: include/uapi/linux/bpf.h.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use aya_obj::generated::bpf_attach_type::BPF_TRACE_UPROBE_MULTI;
use aya_obj::generated::bpf_cmd;
use aya_obj::generated::bpf_insn;
use aya_obj::generated::bpf_prog_type::BPF_PROG_TYPE_KPROBE;
use rustix::io::Errno;

/// The flag BPF_F_UPROBE_MULTI_RETURN of a link: its program runs when functions return.
const RETURN: u32 = 1;

/// The events of a function at which a link's program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Each given place is reached.
    Entry,
    /// The function that begins at a given place returns.
    Return,
}

/// Of `union bpf_attr`, for BPF_PROG_LOAD, up to what is needed here.
#[repr(C)]
struct Load {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
}

/// The same for BPF_LINK_CREATE of `uprobe_multi`.
#[repr(C)]
struct Link {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
    path: u64,
    offsets: u64,
    ref_ctr_offsets: u64,
    cookies: u64,
    cnt: u32,
    multi_flags: u32,
    pid: u32,
    zero: u32,
}

/// The same for BPF_MAP_UPDATE_ELEM.
#[repr(C)]
struct Update {
    map_fd: u32,
    zero: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// # Safety
/// `attr` is laid out as the command's part of `union bpf_attr`, and what it points to is valid for the call.
unsafe fn bpf<T>(command: bpf_cmd, attr: &T) -> io::Result<i64> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes there, and writes none for the commands used here.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command as u32,
            std::ptr::from_ref(attr),
            size_of::<T>(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// # Safety
/// As [`bpf`]; the command gives a new descriptor.
unsafe fn bpf_descriptor<T>(command: bpf_cmd, attr: &T) -> io::Result<OwnedFd> {
    // SAFETY: by the caller's promise.
    let descriptor = unsafe { bpf(command, attr)? };
    // SAFETY: the kernel has just made it, for nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as RawFd) })
}

fn address<T: ?Sized>(of: *const T) -> u64 {
    of.cast::<u8>().addr() as u64
}

/// Loads a program for [`link_uprobes`]: `instructions` refer to maps by descriptors of this process. Its
/// `name` is cut to what the kernel keeps, 15 bytes.
pub fn load_uprobe(name: &str, instructions: &[bpf_insn], license: &CStr) -> io::Result<OwnedFd> {
    let mut prog_name = [0; 16];
    for (to, from) in prog_name.iter_mut().zip(name.bytes().take(15)) {
        *to = from;
    }
    let attr = Load {
        prog_type: BPF_PROG_TYPE_KPROBE as u32,
        insn_cnt: instructions.len() as u32,
        insns: address(instructions.as_ptr()),
        license: address(license.as_ptr()),
        log_level: 0,
        log_size: 0,
        log_buf: 0,
        kern_version: 0,
        prog_flags: 0,
        prog_name,
        prog_ifindex: 0,
        expected_attach_type: BPF_TRACE_UPROBE_MULTI as u32,
    };
    // SAFETY: Load is the command's part, and the slices outlive the call.
    unsafe { bpf_descriptor(bpf_cmd::BPF_PROG_LOAD, &attr) }
}

/// Links a program to places of the file at `path`, each an (offset, cookie), in all processes that map the
/// file. Closing the descriptor ends the link, once no CPU can be running the program there any more.
pub fn link_uprobes(
    program: BorrowedFd<'_>,
    path: &CStr,
    places: &[(u64, u64)],
    at: At,
) -> io::Result<OwnedFd> {
    let (offsets, cookies): (Vec<u64>, Vec<u64>) = places.iter().copied().unzip();
    let attr = Link {
        prog_fd: program.as_raw_fd() as u32,
        target_fd: 0,
        attach_type: BPF_TRACE_UPROBE_MULTI as u32,
        flags: 0,
        path: address(path.as_ptr()),
        offsets: address(offsets.as_ptr()),
        ref_ctr_offsets: 0,
        cookies: address(cookies.as_ptr()),
        cnt: places.len() as u32,
        multi_flags: if at == At::Return { RETURN } else { 0 },
        // Of all processes.
        pid: 0,
        zero: 0,
    };
    // SAFETY: Link is the command's part, and the path and both vectors outlive the call.
    unsafe { bpf_descriptor(bpf_cmd::BPF_LINK_CREATE, &attr) }
}

/// Whether the kernel makes such links. Asked to link to a folder, a kernel that makes them answers EBADF;
/// another one fails before it looks at the path.
pub fn links_uprobes(program: BorrowedFd<'_>) -> bool {
    let refused = link_uprobes(program, c"/", &[(1, 0)], At::Entry).err();
    refused.and_then(|error| Errno::from_io_error(&error)) == Some(Errno::BADF)
}

/// Puts a program into a map of programs.
pub fn put_program(map: BorrowedFd<'_>, index: u32, program: BorrowedFd<'_>) -> io::Result<()> {
    let value = program.as_raw_fd() as u32;
    let attr = Update {
        map_fd: map.as_raw_fd() as u32,
        zero: 0,
        key: address(&raw const index),
        value: address(&raw const value),
        flags: 0,
    };
    // SAFETY: Update is the command's part; key and value are of the sizes of such a map, and outlive the call.
    unsafe { bpf(bpf_cmd::BPF_MAP_UPDATE_ELEM, &attr).map(drop) }
}
