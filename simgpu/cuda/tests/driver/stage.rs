//! A process of its own for each test, because the library is one a process and its machine is named by the environment.

use std::ffi::{CString, c_void};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

const INSIDE: &str = "SIMGPU_CUDA_TEST";
/// No test takes nearly as long.
const PATIENCE: Duration = Duration::from_mins(1);

const CONFIG: [(&str, &str); 2] = [("SIMGPU_MEMORY", "64MiB"), ("SIMGPU_CONTEXT_BYTES", "2MiB")];

/// Runs a test's body in a process of its own, on a machine of its own.
pub(crate) fn isolated(name: &str, settings: &[(&str, &str)], body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        std::thread::spawn(|| {
            std::thread::sleep(PATIENCE);
            eprintln!("still not done after {PATIENCE:?}");
            std::process::exit(1);
        });
        return body();
    }
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let inside = again(name)
        .env("SIMGPU_DIR", dir.path())
        .envs(CONFIG)
        .envs(settings.iter().copied())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&inside.stdout);
    // A name that is wrong would run nothing, and succeed.
    assert!(
        inside.status.success() && said.contains("1 passed"),
        "{name} failed in its process:\n{said}{}",
        String::from_utf8_lossy(&inside.stderr)
    );
}

/// This test binary again, for one test, on the machine that the environment names.
pub(crate) fn again(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1");
    command
}

/// The library of this build, which cargo does not build for these tests: the folder above the test binary's.
fn library() -> *mut c_void {
    static LIBRARY: OnceLock<usize> = OnceLock::new();
    let address = *LIBRARY.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let path: PathBuf = test.ancestors().nth(2).unwrap().join("libsimgpu_cuda.so");
        assert!(
            path.exists(),
            "{} is missing: run `cargo build --workspace` first, or the tests by `cargo xtask test`",
            path.display()
        );
        let path = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: loading the simulated driver runs no code but its constructors.
        unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) }.expose_provenance()
    });
    assert!(address != 0, "libsimgpu_cuda.so cannot be loaded");
    std::ptr::with_exposed_provenance_mut(address)
}

/// The address that is exported under this name; null if none is.
pub(crate) fn exported(name: &str) -> *mut c_void {
    let name = CString::new(name).unwrap();
    // SAFETY: a library that stays loaded, and a text that outlives the call.
    unsafe { libc::dlsym(library(), name.as_ptr()) }
}

/// Calls a function with these words, then zeros.
pub(crate) fn call(name: &str, words: &[usize]) -> u32 {
    type Call = unsafe extern "C" fn(
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
    ) -> u32;
    let address = exported(name);
    assert!(!address.is_null(), "there is no {name}");
    let word = |at: usize| words.get(at).copied().unwrap_or(0);
    // SAFETY: a function of the driver with at most eleven arguments, all of them words.
    let function: Call = unsafe { std::mem::transmute(address) };
    // SAFETY: the tests give what the driver's documentation asks for.
    unsafe {
        function(
            word(0),
            word(1),
            word(2),
            word(3),
            word(4),
            word(5),
            word(6),
            word(7),
            word(8),
            word(9),
            word(10),
        )
    }
}

/// The same, which must succeed.
pub(crate) fn ok(name: &str, words: &[usize]) {
    let code = call(name, words);
    assert_eq!(code, 0, "{name} came to {code}");
}

/// The word that a function puts at its first argument.
pub(crate) fn made(name: &str, words: &[usize]) -> usize {
    let mut made = 0_usize;
    let words = [&[place(&mut made)], words].concat();
    ok(name, &words);
    made
}

/// Where a value lies.
pub(crate) fn place<T: ?Sized>(value: &mut T) -> usize {
    std::ptr::from_mut(value).expose_provenance()
}

/// Initialises the driver and makes GPU 0's primary context current; its handle.
pub(crate) fn primary() -> usize {
    ok("cuInit", &[0]);
    let context = made("cuDevicePrimaryCtxRetain", &[0]);
    ok("cuCtxSetCurrent", &[context]);
    context
}
