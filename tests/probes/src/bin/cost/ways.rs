//! Functions that do nothing but fill their argument, by how they begin and by what is counted.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use rtswap_probe_abi::functions::Function;
use rtswap_probe_abi::maps;
use rtswap_probe_abi::records::TELL_CALLS;
use rtswap_probes_test::prologues::link;
use rtswap_probes_test::{Options, Probes};

use crate::subject::{CALLS, Library, Subject};

/// First instructions: most compilers' (without -fcf-protection, and with), NVIDIA's, the nops of one byte and of
/// five, and one that has to be stepped through.
const BEGINNINGS: [(&str, &str); 6] = [
    ("push", "push %rbp; pop %rbp"),
    ("endbr64", "endbr64; push %rbp; pop %rbp"),
    ("cmpl", "cmpl $0x321cba00, next_(%rip); je 1f; 1:"),
    ("nop", "nop"),
    ("nop5", "nopl 0(%rax,%rax,1)"),
    ("mov", "mov %rdi, %rdi"),
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
        held: 16_000,
        ..way("counted, 96,000 held", Some(0))
    },
    Way {
        sizes: &[(maps::ALLOCATIONS, 4)],
        held: 4,
        ..way("counted, no room for more", Some(0))
    },
];

fn compile(folder: &Path) -> Result<PathBuf> {
    let mut text = String::from(
        "static unsigned long next_;\nunsigned long step_(void) { return next_ += 4096; }\n",
    );
    for (name, begins) in BEGINNINGS {
        // alloc: *rdi = a new address; free: nothing.
        let function = |name: &str, body: &str| {
            format!(
                ".globl {name}\\n.type {name},@function\\n{name}: {begins}\\n{body}\\nxor %eax,%eax\\nret\\n\
                 .size {name},.-{name}\\n"
            )
        };
        let fill = "mov $4096,%rax\\nlock xadd %rax,next_(%rip)\\nmov %rax,(%rdi)";
        let alloc = function(&format!("{name}_alloc"), fill);
        let free = function(&format!("{name}_free"), "");
        writeln!(text, "__asm__(\"{alloc}{free}\");")?;
    }
    let (source, library) = (folder.join("cost.c"), folder.join("libcost.so"));
    std::fs::write(&source, text)?;
    link(&[&source], &library, &[])?;
    Ok(library)
}

/// Prints a row for each way and beginning.
pub(crate) fn measure(rounds: u32) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = compile(folder.path())?;
    let library = Library::open(&path)?;
    for way in WAYS {
        let functions: Vec<_> = BEGINNINGS
            .iter()
            .flat_map(|(begins, _)| {
                [
                    (format!("{begins}_alloc"), "enter_plain", "leave_alloc"),
                    (format!("{begins}_free"), "enter_free", "leave_free"),
                ]
            })
            .map(|(symbol, entry, exit)| Function {
                symbol: symbol.leak(),
                entry,
                exit,
            })
            .collect();
        let functions: &'static [Function] = functions.leak();
        let probes = match way.flags {
            Some(flags) => {
                let mut probes = Probes::load(Options {
                    flags,
                    sizes: way.sizes,
                    ..Options::default()
                })?;
                let attached = probes.attach_to(&path, functions, |place| place.probe)?;
                ensure!(attached == functions.len(), "attached to {attached}");
                Some(probes)
            }
            None => None,
        };
        let subject = |(begins, _): &(&str, &str)| {
            Subject::new(
                library,
                &format!("{begins}_alloc"),
                &format!("{begins}_free"),
            )
        };
        let subjects: Result<Vec<_>> = BEGINNINGS.iter().map(subject).collect();
        let mut subjects = subjects?;
        for subject in &subjects {
            (0..way.held).for_each(|_| subject.hold());
        }
        for _ in 0..rounds {
            subjects.iter_mut().for_each(Subject::measure);
        }
        for ((begins, _), subject) in BEGINNINGS.iter().zip(&subjects) {
            let (least, median) = (subject.least(), subject.median());
            println!("{:26} {begins:8} {least:8.0} {median:8.0}", way.name);
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
