//! Real signals in a process of their own: this test binary again, with SIGUSR1 and SIGUSR2
//! blocked (or ignored) from its first instruction on, as in a program that waits for them.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::*;

const COOKIE: Cookie = Cookie(0x1234_5678_9abc_def0);
const ROUNDS: u64 = 3_000;
const BOUND: Duration = Duration::from_secs(30);
const MODE: &str = "RTSWAP_TEST_SIGNALS";

static RECEIVED: AtomicU64 = AtomicU64::new(0);
static VALUE: AtomicU64 = AtomicU64::new(0);

/// A swap thread that does nothing but listen.
struct Listener {
    tid: i32,
    wakes: &'static AtomicU64,
}

impl Listener {
    fn start() -> Self {
        let (said, heard) = mpsc::channel();
        let wakes: &'static AtomicU64 = Box::leak(Box::default());
        std::thread::spawn(move || {
            let mut bells = Doorbells::new().unwrap();
            said.send(rustix::thread::gettid().as_raw_nonzero().get())
                .unwrap();
            loop {
                let bound = Timespec {
                    tv_sec: 0,
                    tv_nsec: 2_000_000,
                };
                let mut waited = [PollFd::from_borrowed_fd(bells.fd().unwrap(), PollFlags::IN)];
                if poll(&mut waited, Some(&bound)) == Ok(1) {
                    wakes.fetch_add(1, Ordering::SeqCst);
                }
                bells.take(COOKIE);
            }
        });
        Self {
            tid: heard.recv_timeout(BOUND).unwrap(),
            wakes,
        }
    }

    /// As the daemon does: queued to the thread alone.
    fn ring(&self, number: i32, value: u64) {
        let mut info = [0u8; 128];
        info[..4].copy_from_slice(&number.to_ne_bytes());
        info[8..12].copy_from_slice(&(-1i32).to_ne_bytes());
        info[24..32].copy_from_slice(&value.to_ne_bytes());
        let process = std::process::id().cast_signed();
        // SAFETY: the kernel reads 128 bytes.
        let rc = unsafe {
            libc::syscall(
                libc::SYS_rt_tgsigqueueinfo,
                process,
                self.tid,
                number,
                info.as_ptr(),
            )
        };
        assert_eq!(rc, 0);
    }

    fn has_pending(&self) -> bool {
        let path = format!("/proc/self/task/{}/status", self.tid);
        let text = std::fs::read_to_string(path).unwrap();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("SigPnd:"))
            .unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap() != 0
    }

    /// Rings until the thread is woken: one that was about to look anyway takes a doorbell unwoken.
    fn until_woken(&self) {
        let before = self.wakes.load(Ordering::SeqCst);
        until("the doorbell wakes", || {
            self.ring(libc::SIGUSR1, COOKIE.0);
            self.wakes.load(Ordering::SeqCst) > before
        });
    }

    fn until_taken(&self) {
        until("the doorbell is taken", || !self.has_pending());
    }
}

#[track_caller]
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < BOUND, "waited in vain: {what}");
        std::thread::sleep(Duration::from_micros(20));
    }
}

extern "C" fn count(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel's siginfo; the value means something for queued signals only.
    let value = unsafe { (*info).si_value().sival_ptr.addr() as u64 };
    VALUE.store(value, Ordering::SeqCst);
    RECEIVED.fetch_add(1, Ordering::SeqCst);
}

fn handle(number: i32) {
    // SAFETY: a handler that touches atomics only, and this thread's own mask.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = count as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        assert_eq!(
            libc::sigaction(number, &raw const action, std::ptr::null_mut()),
            0
        );
        let mut mask: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut mask);
        libc::sigaddset(&raw mut mask, number);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const mask, std::ptr::null_mut());
    }
}

fn send(number: i32) {
    // SAFETY: a signal to this process.
    assert_eq!(unsafe { libc::kill(libc::getpid(), number) }, 0);
}

/// Sends signals one by one, each after the one before arrived, with doorbells in between.
fn every_one_arrives(listener: &Listener) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                listener.ring(libc::SIGUSR1, COOKIE.0);
                listener.ring(libc::SIGUSR2, COOKIE.0);
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        for round in 1..=ROUNDS {
            send(libc::SIGUSR1);
            until("the program's signal", || {
                RECEIVED.load(Ordering::SeqCst) >= round
            });
        }
        until("doorbells wake", || {
            listener.wakes.load(Ordering::SeqCst) > 50
        });
        stop.store(true, Ordering::SeqCst);
    });
    listener.until_taken();
    let received = RECEIVED.load(Ordering::SeqCst);
    assert_eq!(received, ROUNDS, "no doorbell reached the program");
}

fn sigwait() {
    std::thread::spawn(|| {
        let both = set(0);
        let mut number = 0;
        // SAFETY: waits for a mask on the stack.
        while unsafe { libc::sigwait(&raw const both, &raw mut number) } == 0 {
            RECEIVED.fetch_add(1, Ordering::SeqCst);
        }
    });
}

fn signalfd() {
    std::thread::spawn(|| {
        let both = set(0);
        // SAFETY: a new descriptor that this thread owns.
        let fd = unsafe { OwnedFd::from_raw_fd(libc::signalfd(-1, &raw const both, 0)) };
        let mut info = [0; size_of::<libc::signalfd_siginfo>()];
        while rustix::io::read(&fd, &mut info) == Ok(info.len()) {
            RECEIVED.fetch_add(1, Ordering::SeqCst);
        }
    });
}

/// Runs in the process that [`in_process`] starts, and does nothing in any other.
#[test]
fn program() {
    let Ok(mode) = std::env::var(MODE) else {
        return;
    };
    let listener = Listener::start();
    match mode.as_str() {
        "handler" => {
            handle(libc::SIGUSR1);
            every_one_arrives(&listener);
        }
        "sigwait" => {
            sigwait();
            every_one_arrives(&listener);
        }
        "signalfd" => {
            signalfd();
            every_one_arrives(&listener);
        }
        "ignored" => {
            for _ in 0..200 {
                send(libc::SIGUSR1);
                listener.until_woken();
                listener.until_taken();
            }
        }
        "pending" => {
            // Nobody takes it yet: it stays, for as long as the program likes.
            send(libc::SIGUSR1);
            std::thread::sleep(Duration::from_millis(20));
            let before = listener.wakes.load(Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(200));
            let spins = listener.wakes.load(Ordering::SeqCst) - before;
            assert!(spins <= 1, "{spins} wake-ups for a signal that is not ours");
            sigwait();
            until("the program's signal", || {
                RECEIVED.load(Ordering::SeqCst) == 1
            });
            // And then doorbells wake again.
            std::thread::sleep(Duration::from_millis(20));
            listener.until_woken();
        }
        "stranger" => {
            handle(libc::SIGUSR1);
            // Queued to our thread with a value that is no cookie: a program that signals each of
            // its threads.
            listener.ring(libc::SIGUSR1, 77);
            until("the program's signal", || {
                RECEIVED.load(Ordering::SeqCst) == 1
            });
            assert_eq!(VALUE.load(Ordering::SeqCst), 77, "with its value");
            let process = std::process::id().cast_signed();
            // SAFETY: a signal to a thread of this process.
            unsafe { libc::syscall(libc::SYS_tgkill, process, listener.tid, libc::SIGUSR1) };
            until("the program's signal", || {
                RECEIVED.load(Ordering::SeqCst) == 2
            });
        }
        other => panic!("no mode {other}"),
    }
}

/// Runs [`program`] in a process of its own.
fn in_process(mode: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "signals::tests::program",
        "--test-threads=1",
        "--nocapture",
    ]);
    command.env(MODE, mode);
    let both = set(0);
    let ignores = mode == "ignored";
    // SAFETY: sets a mask or a disposition between fork and exec: async-signal-safe, and kept.
    unsafe {
        command.pre_exec(move || {
            if ignores {
                libc::signal(libc::SIGUSR1, libc::SIG_IGN);
            } else {
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const both, std::ptr::null_mut());
            }
            Ok(())
        });
    }
    let mut child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > 8 * BOUND {
            child.kill().unwrap();
            panic!("{mode}: it hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(status.success(), "{mode}: {status}");
}

#[test]
fn a_handler_gets_every_signal() {
    in_process("handler");
}

#[test]
fn a_sigwait_thread_gets_every_signal() {
    in_process("sigwait");
}

#[test]
fn a_signalfd_gets_every_signal() {
    in_process("signalfd");
}

#[test]
fn doorbells_ring_while_the_number_is_ignored() {
    in_process("ignored");
}

#[test]
fn a_signal_that_stays_pending_is_neither_eaten_nor_spun_on() {
    in_process("pending");
}

#[test]
fn what_was_sent_to_our_thread_reaches_the_program() {
    in_process("stranger");
}
