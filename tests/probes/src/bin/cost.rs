//! What the probes cost a call: `cost [ROUNDS]`. Prints ns per call of a function that does nothing but fill its
//! argument, by how it begins, without probes and with them. Needs root and a C compiler.

use std::ffi::{CString, c_uint, c_void};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use rtswap_probe_abi::functions::Function;
use rtswap_probe_abi::maps;
use rtswap_probe_abi::records::TELL_CALLS;
use rtswap_probes_test::{Options, Probes};

const CALLS: u64 = 500;

/// First instructions: most compilers' (with -fcf-protection, and without), and the five-byte nop.
const BEGINNINGS: [(&str, &str); 4] = [
    ("push", "push %rbp; pop %rbp"),
    ("nop", "nop"),
    ("nop5", "nopl 0(%rax,%rax,1)"),
    ("endbr64", "endbr64"),
];

/// How the calls are seen.
struct Way {
    name: &'static str,
    /// As [`Options`] has them; none without probes.
    flags: Option<u32>,
    sizes: &'static [(&'static str, u32)],
    /// Allocations that are held meanwhile, of each beginning.
    held: u64,
}

const fn way(name: &'static str, flags: Option<u32>) -> Way {
    Way {
        name,
        flags,
        sizes: &[],
        held: 0,
    }
}

const WAYS: [Way; 5] = [
    way("bare", None),
    way("counted", Some(0)),
    way("counted and told", Some(TELL_CALLS)),
    Way {
        held: 25_000,
        ..way("counted, 100,000 held", Some(0))
    },
    Way {
        sizes: &[(maps::ALLOCATIONS, 4)],
        held: 4,
        ..way("counted, no room for more", Some(0))
    },
];

type Alloc = unsafe extern "C" fn(*mut u64, usize) -> c_uint;
type Free = unsafe extern "C" fn(u64) -> c_uint;

fn compile(folder: &Path) -> Result<std::path::PathBuf> {
    let mut text = String::from(
        "static unsigned long next_;\nunsigned long step_(void) { return next_ += 4096; }\n",
    );
    for (name, begins) in BEGINNINGS {
        // alloc: *rdi = a new address; free: nothing.
        let _ = writeln!(
            text,
            "__asm__(\".globl {name}_alloc\\n.type {name}_alloc,@function\\n{name}_alloc: {begins}\\n\
             mov $4096,%rax\\nlock xadd %rax,next_(%rip)\\nmov %rax,(%rdi)\\nxor %eax,%eax\\nret\\n\
             .globl {name}_free\\n.type {name}_free,@function\\n{name}_free: {begins}\\nxor %eax,%eax\\nret\\n\
             .size {name}_alloc,.-{name}_alloc\");"
        );
    }
    let (source, library) = (folder.join("cost.c"), folder.join("libcost.so"));
    std::fs::write(&source, text)?;
    let status = Command::new("cc")
        .args(["-O1", "-fPIC", "-shared", "-o"])
        .args([&library, &source])
        .status()?;
    ensure!(status.success(), "cc ended with {status}");
    Ok(library)
}

fn symbol(library: *mut c_void, name: &str) -> Result<*mut c_void> {
    let name = CString::new(name)?;
    // SAFETY: an open library, a name that ends.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    ensure!(!found.is_null(), "no {name:?}");
    Ok(found)
}

/// CPU time of this thread, ns: other programs' turns are not in it.
fn cpu_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    (now.tv_sec * 1_000_000_000 + now.tv_nsec).cast_unsigned()
}

/// ns per pair of alloc and free, best of the rounds.
fn measure((alloc, free): (Alloc, Free), rounds: u32) -> f64 {
    let round = || {
        let start = cpu_ns();
        for _ in 0..CALLS {
            let mut at = 0;
            // SAFETY: our own functions, above.
            unsafe {
                alloc(&raw mut at, 4096);
                free(at);
            }
        }
        (cpu_ns() - start) as f64 / CALLS as f64
    };
    (0..rounds).map(|_| round()).fold(f64::MAX, f64::min)
}

fn main() -> Result<()> {
    let rounds = match std::env::args().nth(1) {
        Some(rounds) => rounds.parse()?,
        None => 200,
    };
    let folder = tempfile::tempdir()?;
    let path = compile(folder.path())?;
    let name = CString::new(path.to_string_lossy().as_bytes())?;
    // SAFETY: it has no initialisers.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
    ensure!(!library.is_null(), "cannot open {name:?}");
    let pair = |begins: &str| -> Result<(Alloc, Free)> {
        let alloc = symbol(library, &format!("{begins}_alloc"))?;
        let free = symbol(library, &format!("{begins}_free"))?;
        // SAFETY: compiled with these types above.
        Ok(unsafe {
            (
                std::mem::transmute::<*mut c_void, Alloc>(alloc),
                std::mem::transmute::<*mut c_void, Free>(free),
            )
        })
    };
    println!("CPU ns of an allocation and a free together, best of {rounds} rounds");
    for way in WAYS {
        let mut probes = match way.flags {
            Some(flags) => Some(Probes::load(Options {
                flags,
                sizes: way.sizes,
            })?),
            None => None,
        };
        for (begins, _) in BEGINNINGS {
            let functions = [
                (format!("{begins}_alloc"), "enter_plain", "leave_alloc"),
                (format!("{begins}_free"), "enter_free", "leave_free"),
            ]
            .map(|(symbol, entry, exit)| Function {
                symbol: symbol.leak(),
                entry,
                exit,
            });
            if let Some(probes) = &mut probes {
                let attached = probes.attach_to(&path, &functions)?;
                ensure!(attached == 2, "attached to {attached}");
            }
            let pair = pair(begins)?;
            for _ in 0..way.held {
                let mut at = 0;
                // SAFETY: our own function, above.
                unsafe { (pair.0)(&raw mut at, 4096) };
            }
            let ns = measure(pair, rounds);
            println!("{:26} {begins:8} {ns:8.0}", way.name);
        }
        if let Some(probes) = &probes {
            let seen = probes.processes()?;
            let process = seen.get(&std::process::id()).context("not seen")?;
            let calls = way.held + 2 * CALLS * u64::from(rounds);
            let calls = calls * BEGINNINGS.len() as u64;
            // A free of what found no room is not counted as a call.
            ensure!(
                process.calls + process.unknown_frees == calls,
                "{process:?}"
            );
        }
    }
    Ok(())
}
