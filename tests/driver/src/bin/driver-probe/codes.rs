//! What each function returns and writes when all its arguments are zero, or places to write to.
//!
//! Each call has a child of its own, which writes the code into memory that it shares with us: so a crash is an answer, and
//! no call sees what another one left behind.

use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::io::Write as _;
use std::ptr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use anyhow::{Context, Result, bail, ensure};

use rtswap_driver_tests::codes::{Phase, Words};

use crate::library::Library;

/// How many words a call has: more than any function has parameters.
const WORDS: usize = 16;

/// A function of the driver, called with more words than any has parameters: the caller's stack holds those that are left
/// over, and integers, addresses and floating-point numbers of zero are the same zero bits in x86-64's and AArch64's
/// conventions, where the floating-point registers are zero as well.
type Function = unsafe extern "C" fn(
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    f64,
    f64,
    f64,
    f64,
) -> c_uint;

/// Seconds after which a call counts as one that does not return.
const HANG_S: c_uint = 5;
/// Marks a code as written: codes have 32 bits.
const WRITTEN: u64 = 1 << 32;
/// What lies at a place before the first call, and before the second: no byte of a result is both.
const FILLS: [u8; 2] = [0xa5, 0x5a];

/// How a call came out.
enum Answer {
    Absent,
    Code(c_uint),
    Signal(c_int),
    Hang,
    Exit(c_int),
}

/// Prints `NAME ANSWER` for each name: a code, `absent`, `signal N`, `hang` or `exit N`; for places what was written instead of
/// the code, `nothing` or ranges of bytes as `ARGUMENT:FROM-TO`, the end not included. After cuInit its code comes first, as
/// `init CODE`.
pub(crate) fn print(
    library: &Library,
    names: &[CString],
    phase: Phase,
    words: Words,
) -> Result<()> {
    let shared = Shared::new()?;
    if phase == Phase::After {
        let init = library.address(c"cuInit");
        ensure!(!init.is_null(), "the library exports no cuInit");
        // SAFETY: cuInit takes an integer, flags, and returns a CUresult.
        let init = unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_uint) -> c_uint>(init)
        };
        // SAFETY: 0 are the only flags there are.
        println!("init {}", unsafe { init(0) });
    }
    let mut out = std::io::stdout().lock();
    for name in names {
        let mut written = Written::default();
        let mut answer = ask(library, name, &shared, words, FILLS[0])?;
        if words == Words::Places && matches!(answer, Answer::Code(_)) {
            written.add(&shared, FILLS[0]);
            answer = ask(library, name, &shared, words, FILLS[1])?;
            written.add(&shared, FILLS[1]);
        }
        let text = match answer {
            Answer::Absent => "absent".to_owned(),
            Answer::Code(code) if words == Words::Zeros => code.to_string(),
            // It tells what was found wrong with the places as numbers and handles.
            Answer::Code(_) => written.ranges(),
            Answer::Signal(signal) => format!("signal {signal}"),
            Answer::Hang => "hang".to_owned(),
            Answer::Exit(status) => format!("exit {status}"),
        };
        // Nothing may be left in a buffer that the next child would copy.
        writeln!(out, "{} {text}", name.to_string_lossy())?;
        out.flush()?;
    }
    Ok(())
}

fn ask(library: &Library, name: &CStr, shared: &Shared, words: Words, fill: u8) -> Result<Answer> {
    shared.clear(fill);
    let address = library.address(name);
    if address.is_null() {
        return Ok(Answer::Absent);
    }
    let w = shared.words(words);
    // SAFETY: this process has one thread, and the child only calls the function and ends.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error()).context("cannot fork"),
        0 => {
            // SAFETY: plain system calls; nothing of this process is cleaned up twice.
            unsafe {
                libc::alarm(HANG_S);
                let null = libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY);
                libc::dup2(null, 1);
                libc::dup2(null, 2);
            }
            // SAFETY: an export whose parameters are integers, addresses and floating-point numbers; zero is a value that
            // each of them has, a place is a number as well, and whatever it does then happens in this child alone.
            let code = unsafe {
                let function = std::mem::transmute::<*mut c_void, Function>(address);
                function(
                    w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11],
                    w[12], w[13], w[14], w[15], 0.0, 0.0, 0.0, 0.0,
                )
            };
            shared
                .word()
                .store(WRITTEN | u64::from(code), Ordering::SeqCst);
            // SAFETY: ends the child without the exit handlers of the library that was asked.
            unsafe { libc::_exit(0) }
        }
        child => {
            let mut status = 0;
            // SAFETY: our own child, and a status of ours.
            while unsafe { libc::waitpid(child, &raw mut status, 0) } != child {
                let error = std::io::Error::last_os_error();
                if error.kind() != std::io::ErrorKind::Interrupted {
                    bail!(
                        "waiting for the call of {}: {error}",
                        name.to_string_lossy()
                    );
                }
            }
            let word = shared.word().load(Ordering::SeqCst);
            Ok(if word & WRITTEN != 0 {
                Answer::Code(word as c_uint)
            } else if libc::WIFSIGNALED(status) {
                match libc::WTERMSIG(status) {
                    libc::SIGALRM => Answer::Hang,
                    signal => Answer::Signal(signal),
                }
            } else {
                Answer::Exit(libc::WEXITSTATUS(status))
            })
        }
    }
}

/// Memory that children share with this process: a word for the code, and a room for what each argument's place gets.
struct Shared(ptr::NonNull<Layout>);

#[repr(C)]
struct Layout {
    word: AtomicU64,
    rooms: [[AtomicU8; ROOM]; WORDS],
}

/// Bytes for one result.
const ROOM: usize = 256;

impl Shared {
    fn new() -> Result<Self> {
        // SAFETY: new memory, which nothing else refers to.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                size_of::<Layout>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        ensure!(memory != libc::MAP_FAILED, "no shared memory");
        ptr::NonNull::new(memory.cast())
            .map(Self)
            .context("no shared memory")
    }

    fn layout(&self) -> &Layout {
        // SAFETY: mapped for as long as the process lives, aligned as a page is, and only used as atomics.
        unsafe { self.0.as_ref() }
    }

    fn word(&self) -> &AtomicU64 {
        &self.layout().word
    }

    fn clear(&self, fill: u8) {
        self.word().store(0, Ordering::SeqCst);
        for byte in self.layout().rooms.iter().flatten() {
            byte.store(fill, Ordering::SeqCst);
        }
    }

    /// The arguments of a call.
    fn words(&self, words: Words) -> [usize; WORDS] {
        std::array::from_fn(|number| match words {
            Words::Zeros => 0,
            Words::Places => (&raw const self.layout().rooms[number]).addr(),
        })
    }
}

/// Which bytes of each argument's place calls have written.
struct Written([[bool; ROOM]; WORDS]);

impl Default for Written {
    fn default() -> Self {
        Self([[false; ROOM]; WORDS])
    }
}

impl Written {
    /// Adds the bytes that are no longer `fill`.
    fn add(&mut self, shared: &Shared, fill: u8) {
        let bytes = shared.layout().rooms.iter().flatten();
        for (written, byte) in self.0.iter_mut().flatten().zip(bytes) {
            *written |= byte.load(Ordering::SeqCst) != fill;
        }
    }

    fn ranges(&self) -> String {
        let mut ranges = Vec::new();
        for (number, room) in self.0.iter().enumerate() {
            let mut from = 0;
            while let Some(first) = room[from..].iter().position(|written| *written) {
                let start = from + first;
                let rest = &room[start..];
                let length = rest.iter().position(|written| !written);
                from = start + length.unwrap_or(rest.len());
                ranges.push(format!("{number}:{start}-{from}"));
            }
        }
        if ranges.is_empty() {
            return "nothing".to_owned();
        }
        ranges.join(" ")
    }
}
