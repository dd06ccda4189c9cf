//! The programs on the GPUs: whether the agent is in each, and what of their memory never leaves.

use std::fmt::Display;

use object::elf::{FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Endianness, ReadCache};

use super::finding::Finding;
use super::machine::Machine;
use crate::daemon::{Processes, take};
use crate::table::bytes;

/// What is to be known of a program here.
#[derive(Debug)]
struct Program {
    pid: u32,
    name: String,
    is_managed: bool,
    /// The bytes that other processes or devices map.
    kept: u64,
}

impl Display for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name, self.pid)
    }
}

/// `processes` are those that the daemon knows.
pub(super) fn check(machine: &Machine, processes: Processes) -> Vec<Finding> {
    let mut programs: Vec<_> = processes
        .into_iter()
        .map(|mut fields| {
            let mut bytes = |name| take::<u64>(&mut fields, name).unwrap_or_default();
            Program {
                kept: bytes("kept_for_processes_bytes") + bytes("kept_for_devices_bytes"),
                pid: take(&mut fields, "pid").unwrap_or_default(),
                name: take(&mut fields, "comm").unwrap_or_default(),
                is_managed: take(&mut fields, "managed").unwrap_or_default(),
            }
        })
        .collect();
    // One on several GPUs is there several times.
    programs.sort_by_key(|program| program.pid);
    programs.dedup_by(|next, program| {
        let is_same = next.pid == program.pid;
        if is_same {
            program.kept += next.kept;
        }
        is_same
    });
    let (managed, others): (Vec<_>, Vec<_>) =
        programs.iter().partition(|program| program.is_managed);
    let (fixed, others): (Vec<_>, Vec<_>) = others
        .into_iter()
        .partition(|program| is_static(machine, program.pid));
    let mut findings = Vec::new();
    if !others.is_empty() {
        findings.push(Finding::warning(
            "programs",
            format!(
                "without the agent, and so neither gated nor swapped: {}",
                all(&others)
            ),
            "end them, and start them by rtswapctl run",
        ));
    }
    if !fixed.is_empty() {
        findings.push(Finding::warning(
            "static-programs",
            format!(
                "linked statically, so that no agent can be preloaded: {}",
                all(&fixed)
            ),
            "link them with the system's C library; CUDA's own runtime may be static",
        ));
    }
    let kept: u64 = managed.iter().map(|program| program.kept).sum();
    if kept > 0 {
        let holders: Vec<_> = managed
            .iter()
            .filter(|program| program.kept > 0)
            .copied()
            .collect();
        findings.push(Finding::warning(
            "shared-memory",
            format!(
                "{} never leave, because other processes or devices map them (NCCL, CUDA IPC): {}",
                bytes(kept),
                all(&holders)
            ),
            "rtswapctl status; for processes of one program: start all of them under one --name",
        ));
    }
    if findings.is_empty() {
        let found = match managed.len() {
            0 => "none uses a GPU".to_owned(),
            _ => format!("all on the GPUs have the agent: {}", all(&managed)),
        };
        findings.push(Finding::ok("programs", found));
    }
    findings
}

/// Their names, as far as a line has room.
fn all(programs: &[&Program]) -> String {
    const SHOWN: usize = 5;
    let names: Vec<_> = programs
        .iter()
        .take(SHOWN)
        .map(ToString::to_string)
        .collect();
    let more = programs.len().saturating_sub(SHOWN);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    names.join(", ") + &more
}

/// Whether a program asks for no dynamic loader; false where its file may not be read.
fn is_static(machine: &Machine, pid: u32) -> bool {
    let file = std::fs::File::open(machine.path(&format!("/proc/{pid}/exe")));
    let Ok(file) = file else {
        return false;
    };
    let file = ReadCache::new(file);
    let asks = || {
        let header = FileHeader64::<Endianness>::parse(&file).ok()?;
        let endian = header.endian().ok()?;
        let mut parts = header.program_headers(endian, &file).ok()?.iter();
        Some(parts.any(|part| part.p_type(endian) == PT_INTERP))
    };
    asks() == Some(false)
}

#[cfg(test)]
mod tests {
    use zbus::{OwnedVariant, Variant};

    use super::super::machine::tests::with;
    use super::*;

    fn process(pid: u32, is_managed: bool, kept: u64) -> rtswap_dbus::objects::Properties {
        let fields = [
            ("pid", Variant::from(pid)),
            ("comm", Variant::from("python3")),
            ("managed", Variant::from(is_managed)),
            ("kept_for_processes_bytes", Variant::from(kept)),
        ];
        let owned = |value: Variant<'_>| OwnedVariant::try_from(value).unwrap();
        fields
            .into_iter()
            .map(|(name, value)| (name.to_owned(), owned(value)))
            .collect()
    }

    #[test]
    fn programs_without_the_agent_and_memory_that_stays_are_told() {
        let (folder, machine) = with(&[("/proc/3/comm", "")]);
        let own = std::fs::read("/proc/self/exe").unwrap();
        std::fs::write(folder.path().join("proc/3/exe"), own).unwrap();
        let names = |processes| -> Vec<_> {
            let findings = check(&machine, processes).into_iter();
            findings
                .map(|it| format!("{} {}", it.check, it.found))
                .collect()
        };
        assert_eq!(names(vec![]), ["programs none uses a GPU"]);
        let good = names(vec![process(3, true, 0), process(3, true, 0)]);
        assert_eq!(
            good,
            ["programs all on the GPUs have the agent: python3 (3)"]
        );
        let bad = names(vec![process(3, false, 0), process(4, true, 2 << 20)]);
        assert_eq!(bad.len(), 2, "{bad:?}");
        assert!(bad[0].ends_with("nor swapped: python3 (3)"), "{bad:?}");
        assert!(
            bad[1].starts_with("shared-memory 2 MiB never leave"),
            "{bad:?}"
        );
    }

    #[test]
    fn a_program_without_a_loader_is_static() {
        // An ELF header without program headers.
        let mut header = [0_u8; 64];
        header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        header[16] = 2;
        header[18] = 62;
        header[20] = 1;
        header[52] = 64;
        header[54] = 56;
        let (folder, machine) = with(&[("/proc/5/comm", "")]);
        std::fs::write(folder.path().join("proc/5/exe"), header).unwrap();
        assert!(is_static(&machine, 5));
        assert!(!is_static(&machine, 6));
        let found = check(&machine, vec![process(5, false, 0)]);
        assert_eq!(found[0].check, "static-programs");
    }
}
