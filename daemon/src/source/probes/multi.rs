//! The programs by `uprobe_multi` (Linux 6.6): two links for a library, whatever the number of its functions.
//!
//! Beside being fewer, such links end by one wait of the kernel each where a perf event ends by one for each
//! place, and need CAP_BPF and CAP_PERFMON where perf events need CAP_SYS_ADMIN. The kernel takes 9 s to take
//! 76 perf uprobes off again. Perf events remain for kernels before 6.6. aya loads programs for perf events
//! alone, so these are taken from the object here, onto the maps that aya has made.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use aya::Ebpf;
use aya::maps::Map;
use aya_obj::Object;
use rtswap_probe_abi::functions::{ENTER_ANY, FUNCTIONS, Function, LEAVE_ANY};
use rtswap_probe_abi::maps::PROGRAMS;
use rtswap_probe_abi::records::FOREIGN;

use super::problem::Problem;
use crate::sys::bpf::{self, At};

/// The two programs that are attached, and where they pass on to.
#[derive(Debug)]
pub struct Multi {
    enter: OwnedFd,
    leave: OwnedFd,
    cookies: BTreeMap<&'static str, u64>,
}

impl Multi {
    /// Loads all programs of `object` onto the maps that `ebpf` has made; none where the kernel has no
    /// such links.
    pub fn load(ebpf: &Ebpf, object: &[u8]) -> Result<Option<Self>, Problem> {
        let object = relocated(ebpf, object)?;
        let load = |name: &'static str| {
            let program = object.programs.get(name);
            let function =
                program.and_then(|program| object.functions.get(&program.function_key()));
            let (Some(program), Some(function)) = (program, function) else {
                return Err(Problem::Object { what: name });
            };
            bpf::load_uprobe(name, &function.instructions, &program.license)
                .map_err(|error| Problem::of_load_call(name, &error))
        };
        let enter = load(ENTER_ANY)?;
        if !bpf::links_uprobes(enter.as_fd()) {
            return Ok(None);
        }
        let leave = load(LEAVE_ANY)?;
        let map = descriptor(ebpf, PROGRAMS)?;
        let names = FUNCTIONS.iter().flat_map(|on| [on.entry, on.exit]);
        let names: BTreeSet<_> = names.collect();
        let mut cookies = BTreeMap::new();
        for (index, name) in (0..).zip(names) {
            // The map keeps it.
            let program = load(name)?;
            bpf::put_program(map, index, program.as_fd())?;
            cookies.insert(name, u64::from(index));
        }
        Ok(Some(Self {
            enter,
            leave,
            cookies,
        }))
    }

    /// Attaches to functions of a file, by offset. Processes that call them are told apart where the file is not
    /// to be trusted. The link on their returns, then the one on their entries. What
    /// was made before an error ends with the error.
    pub fn attach(
        &self,
        file: &File,
        functions: &BTreeMap<u64, &'static Function>,
        is_trusted: bool,
    ) -> io::Result<[OwnedFd; 2]> {
        let mark = if is_trusted { 0 } else { FOREIGN };
        // The file itself, whatever lies at its path by now.
        let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        let places = |program: fn(&Function) -> &'static str| -> Vec<_> {
            let places = functions.iter();
            places
                .map(|(&offset, on)| (offset, self.cookies[program(on)] | mark))
                .collect()
        };
        let exits = places(|on| on.exit);
        let exits = bpf::link_uprobes(self.leave.as_fd(), &path, &exits, At::Return)?;
        let entries = places(|on| on.entry);
        let entries = bpf::link_uprobes(self.enter.as_fd(), &path, &entries, At::Entry)?;
        Ok([exits, entries])
    }
}

/// The object's programs, as they go to the kernel: with the descriptors of the maps that they use.
fn relocated(ebpf: &Ebpf, object: &[u8]) -> Result<Object, Problem> {
    let mut object = Object::parse(object).map_err(|error| Problem::of_object(&error))?;
    let maps: Vec<_> = object.maps.drain().collect();
    let maps = maps.iter().map(|(name, map)| {
        let descriptor = descriptor(ebpf, name)?;
        Ok((name.as_str(), descriptor.as_raw_fd(), map))
    });
    let maps = maps.collect::<Result<Vec<_>, Problem>>()?;
    let sections: HashSet<_> = object
        .functions
        .keys()
        .map(|(section, _)| *section)
        .collect();
    object
        .relocate_maps(maps.into_iter(), &sections)
        .map_err(|error| Problem::of_object(&error))?;
    object
        .relocate_calls(&sections)
        .map_err(|error| Problem::of_object(&error))?;
    Ok(object)
}

/// Of a map that aya has made.
fn descriptor<'a>(ebpf: &'a Ebpf, name: &str) -> Result<BorrowedFd<'a>, Problem> {
    match ebpf.map(name) {
        Some(
            Map::Array(data)
            | Map::HashMap(data)
            | Map::PerCpuArray(data)
            | Map::ProgramArray(data)
            | Map::RingBuf(data),
        ) => Ok(data.fd().as_fd()),
        _ => Err(Problem::Object {
            what: "a map of a known kind",
        }),
    }
}
