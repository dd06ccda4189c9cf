//! The agent's library: which it is, whether it is one, and how it is preloaded.
//!
//! The dynamic loader ignores what it cannot preload, and the program would run unmanaged: so the file is
//! looked at before.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use object::elf::{EM_AARCH64, EM_X86_64, ET_DYN, FileHeader64, SHT_DYNSYM};
use object::read::elf::{FileHeader as _, Sym as _};
use object::{Endianness, ReadCache};

use crate::failure::Failure;

const AGENT: &str = "librtswap_cuda.so";
const SYSTEM_FOLDER: &str = concat!("/usr/lib/", std::env!("RTSWAP_MULTIARCH"));

/// What every agent exports, by rtswap.h, and no other library does.
const EXPORT: &[u8] = b"rtswap_job_begin";

/// No library that is preloaded is larger, debug information included.
const LARGEST: u64 = 1 << 30;

/// The machine of this program, and so of the agent.
const MACHINE: u16 = if cfg!(target_arch = "aarch64") {
    EM_AARCH64
} else {
    EM_X86_64
};

/// The library that is named, else the one beside this program, else the system's.
pub(crate) fn find(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let system = Path::new(SYSTEM_FOLDER).join(AGENT);
    let candidates = if let Some(path) = named {
        vec![path.to_path_buf()]
    } else {
        let beside = std::env::current_exe()?.with_file_name(AGENT);
        vec![beside, system]
    };
    let found = candidates.iter().find(|path| path.exists());
    let found = found.ok_or_else(|| Failure::NoAgent(candidates.last().expect("one").clone()))?;
    let refused = |why| Failure::NotAgent {
        file: found.clone(),
        why,
    };
    check(found).map_err(refused)?;
    Ok(found.canonicalize()?)
}

/// Says in words why the file at `path` is no agent, if it is none.
fn check(path: &Path) -> Result<(), String> {
    let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is no regular file".into());
    }
    if metadata.len() > LARGEST {
        return Err(format!("it has more than {} MiB", LARGEST >> 20));
    }
    let file = File::open(path).map_err(|error| error.to_string())?;
    let file = ReadCache::new(file);
    let no_elf = |_| "it is no 64-bit ELF file".to_owned();
    let header = FileHeader64::<Endianness>::parse(&file).map_err(no_elf)?;
    let endian = header.endian().map_err(no_elf)?;
    if header.e_type(endian) != ET_DYN {
        return Err("it is no shared object".into());
    }
    if header.e_machine(endian) != MACHINE {
        return Err(format!(
            "it is not of this machine ({})",
            std::env::consts::ARCH
        ));
    }
    let damaged = |error: object::Error| format!("its symbols cannot be read ({error})");
    let sections = header.sections(endian, &file).map_err(damaged)?;
    let symbols = sections
        .symbols(endian, &file, SHT_DYNSYM)
        .map_err(damaged)?;
    let exports = symbols.iter().any(|symbol| {
        let name = symbol.name(endian, symbols.strings());
        !symbol.is_undefined(endian) && name.is_ok_and(|name| name == EXPORT)
    });
    if exports {
        Ok(())
    } else {
        Err(format!(
            "it does not export {}",
            String::from_utf8_lossy(EXPORT)
        ))
    }
}

/// The agent ahead of what is preloaded already.
pub(crate) fn preload(agent: &Path) -> Result<OsString, Failure> {
    let mut preload = loader_path(agent)?;
    if let Some(present) = std::env::var_os("LD_PRELOAD").filter(|present| !present.is_empty()) {
        preload.push(":");
        preload.push(present);
    }
    Ok(preload)
}

/// The agent as `LD_PRELOAD` names it. The system's by a path that glibc's loader alone expands: musl's would end each of
/// its programs that the started one starts in turn.
pub(crate) fn loader_path(agent: &Path) -> Result<OsString, Failure> {
    let text = agent.to_string_lossy();
    if text.contains([' ', ':']) {
        return Err(Failure::AgentPath(agent.to_path_buf()));
    }
    if agent == Path::new(SYSTEM_FOLDER).join(AGENT) {
        Ok(OsString::from(format!("/usr/$LIB/{AGENT}")))
    } else {
        Ok(agent.as_os_str().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_is_not_there_is_an_error() {
        let failure = find(Some(Path::new("/nonexistent/agent.so"))).unwrap_err();
        assert!(failure.to_string().contains("/nonexistent/agent.so"));
        assert!(matches!(
            preload(Path::new("/a b/agent.so")),
            Err(Failure::AgentPath(_))
        ));
        let first = |agent: &Path| {
            let preload = preload(agent).unwrap().into_string().unwrap();
            preload.split(':').next().map(str::to_owned)
        };
        let system = first(&Path::new(SYSTEM_FOLDER).join(AGENT));
        assert_eq!(system.as_deref(), Some("/usr/$LIB/librtswap_cuda.so"));
        assert_eq!(
            first(Path::new("/a/agent.so")).as_deref(),
            Some("/a/agent.so")
        );
    }
}
