//! How fast this host moves bytes: what a modelled link must stay well below.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr;
use std::time::{Duration, Instant};

const CHUNK: usize = 2 << 20;
const CHUNKS: usize = 16;

/// Measures for some tenths of a second at what rate the host maps a chunk of
/// shared memory anew and copies it, in bytes per second.
///
/// A benchmark should refuse to run when a modelled link exceeds a quarter of
/// this: the host's own speed would then be in its figures.
pub fn host_copy_bytes_per_s() -> io::Result<f64> {
    // SAFETY: makes a new descriptor, which the File then owns.
    let file = unsafe {
        let fd = libc::memfd_create(c"simgpu-rate".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        File::from_raw_fd(fd)
    };
    file.set_len((CHUNK * CHUNKS) as u64)?;
    let mut host = vec![1_u8; CHUNK];
    // The first round makes the pages; it is not counted.
    for index in 0..CHUNKS {
        remap_and_copy(&file, index, &mut host)?;
    }
    let start = Instant::now();
    let mut bytes = 0;
    while start.elapsed() < Duration::from_millis(200) {
        for index in 0..CHUNKS {
            remap_and_copy(&file, index, &mut host)?;
            bytes += CHUNK;
        }
    }
    Ok(bytes as f64 / start.elapsed().as_secs_f64())
}

fn remap_and_copy(file: &File, index: usize, host: &mut [u8]) -> io::Result<()> {
    // SAFETY: a new mapping of one chunk of the file, which is long enough; it
    // is written, then unmapped with no reference left.
    unsafe {
        let chunk = libc::mmap(
            ptr::null_mut(),
            CHUNK,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_POPULATE,
            file.as_raw_fd(),
            (index * CHUNK).cast_signed() as libc::off_t,
        );
        if chunk == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        ptr::copy_nonoverlapping(host.as_ptr(), chunk.cast(), CHUNK);
        libc::munmap(chunk, CHUNK);
    }
    host[0] = host[0].wrapping_add(1);
    Ok(())
}
