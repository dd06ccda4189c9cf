//! The simulated GPU's driver with other first instructions: a library of trampolines in front of it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// How all functions of a driver begin.
#[derive(Debug, Clone, Copy)]
pub struct Prologue {
    /// For messages.
    pub name: &'static str,
    /// The instructions, which leave stack and arguments as they were. `flag_` is a global that is 0.
    pub text: &'static str,
    /// How many bytes from the start a probe belongs.
    pub offset: u64,
}

const fn prologue(name: &'static str, text: &'static str, offset: u64) -> Prologue {
    Prologue { name, text, offset }
}

/// As compilers write them, with and without -fcf-protection, and such as have to be probed at their start.
pub const PROLOGUES: &[Prologue] = &[
    prologue("push", "push %rbp; pop %rbp", 0),
    prologue("push of r15", "push %r15; pop %r15", 0),
    prologue("endbr64, push", "endbr64; push %rbp; pop %rbp", 4),
    prologue("cmpl, je", "cmpl $0x321cba00, flag_(%rip); je 1f; 1:", 10),
    prologue("cmpl, jne", "cmpl $0x321cba00, flag_(%rip); jne 1f; 1:", 10),
    prologue(
        "cmpl, far je",
        "cmpl $0x321cba00, flag_(%rip); .byte 0x0f, 0x84, 0, 0, 0, 0",
        10,
    ),
    prologue(
        "cmpl, call",
        "cmpl $0x321cba00, flag_(%rip); call 1f; 1: add $8, %rsp",
        10,
    ),
    prologue(
        "cmpl, push",
        "cmpl $0x321cba00, flag_(%rip); push %rbp; pop %rbp",
        10,
    ),
    prologue(
        "endbr64, cmpl, je",
        "endbr64; cmpl $0x321cba00, flag_(%rip); je 1f; 1:",
        14,
    ),
    prologue("cmpl imm8, jne", "cmpl $5, flag_(%rip); jne 1f; 1:", 7),
    prologue("cmpb, jne", "cmpb $5, flag_(%rip); jne 1f; 1:", 7),
    prologue("mov", "mov %rdi, %rdi", 0),
    prologue(
        "cmpl, mov",
        "cmpl $0x321cba00, flag_(%rip); mov %rdi, %rdi",
        0,
    ),
    prologue(
        "cmpl, a jump back to the jne",
        "cmpl $0x321cba00, flag_(%rip); 1: jne 2f; jmp 1b; 2:",
        0,
    ),
];

/// Finds each function in the driver behind.
const RESOLVE: &str = r#"
#include <dlfcn.h>
#include <stdlib.h>
extern void *table_[] __attribute__((visibility("hidden")));
__attribute__((constructor)) static void resolve_(void) {
    void *driver = dlopen(DRIVER, RTLD_NOW | RTLD_LOCAL);
    if (!driver) abort();
    for (unsigned number = 0; number < sizeof names_ / sizeof *names_; number++) {
        table_[number] = dlsym(driver, names_[number]);
        if (!table_[number]) abort();
    }
}
"#;

/// Compiles a `libcuda.so.1` into `folder` all of whose functions begin so and go on in `driver`, which must keep
/// lying where it is, under a name that no daemon takes for a driver's.
pub fn build(prologue: Prologue, driver: &Path, folder: &Path) -> Result<PathBuf> {
    let names = exported(driver)?;
    let mut text = String::from(".data\nflag_: .quad 0\n.globl table_\n.hidden table_\n");
    writeln!(text, "table_: .fill {}, 8, 0\n.text", names.len())?;
    let mut resolve = String::from("static const char *const names_[] = {\n");
    for (number, name) in names.iter().enumerate() {
        writeln!(
            text,
            ".globl {name}\n.type {name}, @function\n.p2align 4\n{name}: {}\njmp *table_+8*{number}(%rip)\n\
             .size {name}, .-{name}",
            prologue.text
        )?;
        writeln!(resolve, "\"{name}\",")?;
    }
    text.push_str(".section .note.GNU-stack, \"\", @progbits\n");
    resolve.push_str("};");
    resolve.push_str(RESOLVE);
    let (assembly, source) = (folder.join("prologue.s"), folder.join("prologue.c"));
    std::fs::write(&assembly, text)?;
    std::fs::write(&source, resolve)?;
    let library = folder.join("libcuda.so.1");
    link(
        &[&assembly, &source],
        &library,
        &[format!("-DDRIVER=\"{}\"", driver.display())],
    )?;
    Ok(library)
}

/// Compiles a library that calls itself a driver.
pub fn link(sources: &[&Path], library: &Path, options: &[String]) -> Result<()> {
    let compiled = Command::new("cc")
        .args(["-O1", "-fPIC", "-shared", "-Wl,-soname,libcuda.so.1"])
        .args(options)
        .args(sources)
        .arg("-o")
        .arg(library)
        .output()
        .context("cannot run the C compiler cc")?;
    let errors = String::from_utf8_lossy(&compiled.stderr);
    ensure!(compiled.status.success(), "cc: {errors}");
    Ok(())
}

/// The driver functions that a library exports.
fn exported(library: &Path) -> Result<Vec<String>> {
    let listed = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library)
        .output()
        .context("cannot run nm")?;
    let text = String::from_utf8(listed.stdout)?;
    let names = text.lines().filter_map(|line| line.split_once(" T cu"));
    let names: Vec<_> = names.map(|(_, name)| format!("cu{name}")).collect();
    ensure!(!names.is_empty(), "{} exports nothing", library.display());
    Ok(names)
}
