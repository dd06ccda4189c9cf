//! The comparison finds mistakes: hooks with one each, in the place of the agent's.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rtswap_doors::stub::{Stub, calls};
use rtswap_e2e::{Machine, MachineOptions};

/// Hooks that lose an argument, half of one, swap two, and forget the driver's result; and one that is right.
const PLANTED: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

typedef unsigned long long address;

int cuMemcpyHtoD_v2(address to, void *from, size_t bytes)
{
    int (*real)(address, void *, ...) = dlsym(RTLD_NEXT, "cuMemcpyHtoD_v2");
    return real(to, from, 0);
}

int cuMemFree_v2(unsigned at)
{
    int (*real)(address) = dlsym(RTLD_NEXT, "cuMemFree_v2");
    return real(at);
}

int cuMemcpy(address to, address from, size_t bytes)
{
    int (*real)(address, address, size_t) = dlsym(RTLD_NEXT, "cuMemcpy");
    return real(from, to, bytes);
}

int cuCtxDestroy_v2(void *context)
{
    int (*real)(void *) = dlsym(RTLD_NEXT, "cuCtxDestroy_v2");
    real(context);
    return 0;
}

int cuMemsetD8_v2(address at, unsigned char value, size_t count)
{
    int (*real)(address, unsigned char, size_t) = dlsym(RTLD_NEXT, "cuMemsetD8_v2");
    return real(at, value, count);
}
"#;

#[test]
fn a_hook_with_a_mistake_is_found() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let mistaken = [
        "cuMemcpyHtoD_v2",
        "cuMemFree_v2",
        "cuMemcpy",
        "cuCtxDestroy_v2",
    ];
    let names = mistaken.iter().chain(&["cuMemsetD8_v2"]);
    let names: BTreeSet<String> = names.map(|name| (*name).to_owned()).collect();
    let stub = Stub::compile(&names)?;
    let (source, library) = (machine.path("planted.c"), machine.path("planted.so"));
    fs::write(&source, PLANTED)?;
    let mut compiler = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()));
    compiler
        .args(["-O1", "-shared", "-fPIC", "-o"])
        .arg(&library);
    ensure!(compiler.arg(&source).arg("-ldl").status()?.success());

    let mut command = stub.command(&machine, "fail");
    command.env("LD_PRELOAD", &library);
    let made = calls(command)?;
    ensure!(made.len() == names.len(), "{made:?}");
    for made in made {
        let name = made.passed.name.as_str();
        let found = made.difference(stub.failure(name)?);
        ensure!(
            found.is_some() == mistaken.contains(&name),
            "{name}: {}",
            found.context("nothing is found")?
        );
    }
    Ok(())
}
