//! One library: whether it is a CUDA driver, and where its functions and their probes are.
//!
//! The file may be any user's, so the work for one is bounded: headers, symbols, the length of a name and all
//! bytes read have limits far above those of any driver, each wanted name is looked up once, and what is beyond
//! is no driver. The file is read, never mapped: one that shrinks meanwhile gives an error, not SIGBUS.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::Range;

use object::elf::{DT_SONAME, FileHeader64, PT_LOAD, SHT_DYNSYM};
use object::read::elf::{
    Dyn as _, FileHeader as _, ProgramHeader as _, SectionHeader as _, Sym as _,
};
use object::{Endianness, ReadCache, ReadRef};

use super::prologue;

/// The name by which programs are linked to a driver.
const SONAME: &[u8] = b"libcuda.so.1";

/// The most program headers and the most sections of a file; NVIDIA's drivers have about 8 and 30.
const HEADERS: usize = 128;

/// The most entries of a dynamic section; NVIDIA's drivers have about 30.
const DYNAMIC: usize = 1024;

/// The most dynamic symbols; NVIDIA's drivers have some 1,000.
const SYMBOLS: usize = 1 << 14;

/// The bytes of a symbol's name that are compared; no wanted name is longer.
const LONGEST_NAME: usize = 128;

/// Bytes of a function that are read for the place of its probe; NVIDIA's are some hundred.
const LARGEST_FUNCTION: u64 = 16 << 10;

/// The most bytes read of one file; NVIDIA's drivers take about 200 KiB.
const LARGEST: u64 = 4 << 20;

/// A function of a driver, as offsets in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its first instruction.
    pub start: u64,
    /// The first instruction that the kernel emulates, where only flags change before it; else `start`.
    pub probe: u64,
}

/// A file of which at most `left` further bytes are read.
#[derive(Clone, Copy)]
struct Bounded<'a> {
    file: &'a ReadCache<File>,
    left: &'a Cell<u64>,
}

impl<'a> ReadRef<'a> for Bounded<'a> {
    fn len(self) -> Result<u64, ()> {
        self.file.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        self.left.set(self.left.get().checked_sub(size).ok_or(())?);
        self.file.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        // The cache reads no more of a string.
        const MOST: u64 = 4096;
        self.left.set(self.left.get().checked_sub(MOST).ok_or(())?);
        self.file.read_bytes_at_until(range, delimiter)
    }
}

/// Where the `wanted` functions are in a driver's file: place by symbol. None where the file is no driver.
pub fn functions(file: File, wanted: &BTreeSet<&str>) -> Option<BTreeMap<String, Place>> {
    let (cache, left) = (ReadCache::new(file), Cell::new(LARGEST));
    let data = Bounded {
        file: &cache,
        left: &left,
    };
    let header = FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let (segments, sections) = (header.e_phnum(endian), header.e_shnum(endian));
    // A file with more of either than their fields can say has the number elsewhere, and is no driver.
    if usize::from(segments) > HEADERS || sections == 0 || usize::from(sections) > HEADERS {
        return None;
    }
    let sections = header.sections(endian, data).ok()?;
    let (entries, link) = sections.dynamic(endian, data).ok()??;
    let strings = sections.strings(endian, data, link).ok()?;
    let mut entries = entries.iter().take(DYNAMIC);
    let soname = entries.find(|entry| entry.tag32(endian) == Some(DT_SONAME))?;
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
    let symbols = sections.symbols(endian, data, SHT_DYNSYM).ok()?;
    // At once: a system call for each name would take longer than all the rest.
    let names = sections.section(symbols.string_section()).ok()?;
    let names = names.data(endian, data).ok()?;
    let mut found = BTreeMap::new();
    for symbol in symbols.iter().take(SYMBOLS) {
        if symbol.is_undefined(endian) || symbol.st_value(endian) == 0 {
            continue;
        }
        let Some(name) = name_at(names, symbol.st_name(endian)) else {
            continue;
        };
        // The first of a name is the one.
        if !wanted.contains(name) || found.contains_key(name) {
            continue;
        }
        let place = offset_of(symbol.st_value(endian)).map(|start| {
            let size = symbol.st_size(endian);
            let code = (size <= LARGEST_FUNCTION)
                .then(|| data.read_bytes_at(start, size).ok())
                .flatten();
            let behind = prologue::probe_offset(code.unwrap_or_default());
            let probe = start.saturating_add(behind as u64);
            Place { start, probe }
        });
        found.insert(name.to_owned(), place);
        if found.len() == wanted.len() {
            break;
        }
    }
    let placed = found.into_iter();
    Some(
        placed
            .filter_map(|(name, place)| Some((name, place?)))
            .collect(),
    )
}

/// The name at an offset of the names' section; none where it is longer than any that may be wanted.
fn name_at(names: &[u8], offset: u32) -> Option<&str> {
    let rest = names.get(offset as usize..)?;
    let rest = &rest[..rest.len().min(LONGEST_NAME)];
    let end = rest.iter().position(|byte| *byte == 0)?;
    str::from_utf8(&rest[..end]).ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn read(bytes: &[u8]) -> Option<BTreeMap<String, Place>> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        functions(file, &BTreeSet::from(["main"]))
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
        let left = Cell::new(LARGEST);
        let data = Bounded {
            file: &cache,
            left: &left,
        };
        assert!(data.read_bytes_at(0, 1 << 39).is_err());
        assert!(data.read_bytes_at(0, LARGEST - 64).is_ok());
        assert!(data.read_bytes_at(64, 65).is_err(), "in pieces neither");
    }
}
