//! Drops capabilities that the daemon does not need: docs/security.md lists what each step needs.

use std::os::fd::AsFd as _;

use aya_obj::generated::bpf_insn;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use crate::sys::bpf;

/// Drops CAP_SYS_ADMIN where the probes work without it, from Linux 6.6 on. Each thread has capabilities of its
/// own: call this before there is a second thread, so that later ones inherit the reduced set. On a kernel
/// that needs the capability, or does not tell, it is kept.
pub fn reduce() -> rustix::io::Result<()> {
    let mut sets = capabilities(None)?;
    if !sets.permitted.contains(CapabilitySet::SYS_ADMIN) || !probes_do_without() {
        return Ok(());
    }
    for set in [
        &mut sets.effective,
        &mut sets.permitted,
        &mut sets.inheritable,
    ] {
        set.remove(CapabilitySet::SYS_ADMIN);
    }
    set_capabilities(None, sets)
}

/// Whether other capabilities are there and suffice: those with which a program can be loaded, and a kernel that
/// links it without perf events.
fn probes_do_without() -> bool {
    let others = CapabilitySet::BPF
        | CapabilitySet::PERFMON
        | CapabilitySet::SYS_PTRACE
        | CapabilitySet::DAC_READ_SEARCH
        | CapabilitySet::CHECKPOINT_RESTORE;
    let has = capabilities(None).is_ok_and(|sets| sets.effective.contains(others));
    has && bpf::load_uprobe("nothing", &nothing(), c"GPL")
        .is_ok_and(|program| bpf::links_uprobes(program.as_fd()))
}

/// A program that returns 0.
fn nothing() -> [bpf_insn; 2] {
    // BPF_ALU64 | BPF_MOV | BPF_K into register 0, and BPF_JMP | BPF_EXIT.
    [0xb7, 0x95].map(|code| bpf_insn {
        code,
        _bitfield_align_1: [],
        _bitfield_1: bpf_insn::new_bitfield_1(0, 0),
        off: 0,
        imm: 0,
    })
}
