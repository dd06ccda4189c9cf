//! One library: whether it is a CUDA driver, and where its functions and their probes are.
//!
//! The file may be any user's: it is read piece by piece within bounds, never mapped, and a wrong
//! one is no driver.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;

use object::elf::{DT_SONAME, FileHeader64, PT_LOAD};
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _, Sym as _};
use object::{Endianness, ReadCache, ReadRef};

use super::prologue;

/// The name by which programs are linked to a driver.
const SONAME: &[u8] = b"libcuda.so.1";

/// No part of a driver's file that is read here is larger.
const LARGEST: u64 = 16 << 20;

/// More symbols than any driver has.
const SYMBOLS: usize = 1 << 16;

/// Bytes of a function that are read for the place of its probe; NVIDIA's are some hundred.
const LARGEST_FUNCTION: u64 = 64 << 10;

/// A function of a driver, as offsets in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its first instruction.
    pub start: u64,
    /// The first instruction that the kernel emulates, where only flags change before it; else `start`.
    pub probe: u64,
}

/// A file, in pieces of at most [`LARGEST`] bytes.
#[derive(Clone, Copy)]
struct Pieces<'a>(&'a ReadCache<File>);

impl<'a> ReadRef<'a> for Pieces<'a> {
    fn len(self) -> Result<u64, ()> {
        self.0.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        if size > LARGEST {
            return Err(());
        }
        self.0.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        self.0.read_bytes_at_until(range, delimiter)
    }
}

/// Where a driver's functions are in its file: place by symbol, of those that `wanted` names. None where the
/// file is no driver.
pub fn functions(file: File, wanted: impl Fn(&str) -> bool) -> Option<BTreeMap<String, Place>> {
    let cache = ReadCache::new(file);
    let data = Pieces(&cache);
    let header = FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, data).ok()?;
    let (entries, link) = sections.dynamic(endian, data).ok()??;
    let strings = sections.strings(endian, data, link).ok()?;
    let soname = entries
        .iter()
        .find(|entry| entry.tag32(endian) == Some(DT_SONAME))?;
    let soname = u32::try_from(soname.d_val(endian)).ok()?;
    if strings.get(soname).ok()? != SONAME {
        return None;
    }
    let segments = header.program_headers(endian, data).ok()?;
    let offset_of = |address: u64| {
        segments.iter().find_map(|segment| {
            let within = address.checked_sub(segment.p_vaddr(endian))?;
            let loaded = segment.p_type(endian) == PT_LOAD && within < segment.p_filesz(endian);
            segment
                .p_offset(endian)
                .checked_add(within)
                .filter(|_| loaded)
        })
    };
    let symbols = sections
        .symbols(endian, data, object::elf::SHT_DYNSYM)
        .ok()?;
    let mut found = BTreeMap::new();
    for symbol in symbols.iter().take(SYMBOLS) {
        if symbol.is_undefined(endian) || symbol.st_value(endian) == 0 {
            continue;
        }
        let name = symbol.name(endian, symbols.strings()).ok();
        let name = name.and_then(|name| str::from_utf8(name).ok());
        if let Some(name) = name.filter(|name| wanted(name))
            && let Some(start) = offset_of(symbol.st_value(endian))
        {
            let size = symbol.st_size(endian);
            let code = (size <= LARGEST_FUNCTION)
                .then(|| data.read_bytes_at(start, size).ok())
                .flatten();
            let behind = prologue::probe_offset(code.unwrap_or_default());
            let probe = start + behind as u64;
            found.insert(name.to_owned(), Place { start, probe });
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn read(bytes: &[u8]) -> Option<BTreeMap<String, Place>> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        functions(file, |_| true)
    }

    #[test]
    fn what_is_no_driver_is_none() {
        assert_eq!(read(b""), None);
        assert_eq!(read(b"\x7fELF"), None);
        let this = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(read(&this), None, "a program, and not the driver");
        for end in [64, 200, 4096, this.len() / 2] {
            assert_eq!(read(&this[..end]), None);
        }
    }

    #[test]
    fn a_file_that_claims_much_is_not_read_into_memory() {
        let file = tempfile::tempfile().unwrap();
        // A hole of a tebibyte, which costs nothing until it is read.
        file.set_len(1 << 40).unwrap();
        let cache = ReadCache::new(file);
        assert!(Pieces(&cache).read_bytes_at(0, 1 << 39).is_err());
        assert!(Pieces(&cache).read_bytes_at(0, 64).is_ok());
    }
}
