//! Files that look like a driver and take long to read.

/// The function that they have.
pub const FUNCTION: &str = "cuMemAlloc_v2";

/// e_type ET_DYN, e_machine EM_X86_64, e_version 1.
const SHARED: u64 = 0x0001_003e_0003;
/// PT_LOAD and PT_NOTE.
const LOAD: u32 = 1;
const NOTE: u32 = 4;
/// SHT_STRTAB, SHT_DYNAMIC and SHT_DYNSYM.
const STRINGS: u32 = 3;
const DYNAMIC: u32 = 6;
const SYMBOLS: u32 = 11;
/// DT_SONAME.
const SONAME: u64 = 14;

/// A driver with so many program headers, of which the last alone is loaded, and so many symbols named
/// [`FUNCTION`], at the address 0x1010 and so at 0x10 of the file; with `names`, each symbol has a name of so many
/// bytes instead.
pub fn driver(headers: u16, symbols: u32, names: u64) -> Vec<u8> {
    const HEADER: u64 = 64;
    let words =
        |words: &[u64]| -> Vec<u8> { words.iter().flat_map(|word| word.to_le_bytes()).collect() };
    let halves = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
    let segments_end = HEADER + u64::from(headers) * 56;
    let mut strings = b"\0libcuda.so.1\0cuMemAlloc_v2\0".to_vec();
    // Without an end until the last.
    strings.resize((strings.len() as u64 + names) as usize, b'x');
    strings.extend(vec![0; 8 - strings.len() % 8]);
    let dynamic_at = segments_end + strings.len() as u64;
    let symbols_at = dynamic_at + 32;
    let sections_at = symbols_at + u64::from(symbols) * 24;
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    bytes.extend(words(&[SHARED, 0, HEADER, sections_at]));
    bytes.extend([0, 0, 0, 0, 64, 0, 56, 0]);
    bytes.extend([headers.to_le_bytes(), [64, 0], [4, 0], [1, 0]].concat());
    for number in 1..=headers {
        let kind = if number == headers { LOAD } else { NOTE };
        bytes.extend(words(&[halves(kind, 5), 0, 0x1000, 0, 0x1000, 0x1000, 8]));
    }
    bytes.extend(&strings);
    bytes.extend(words(&[SONAME, 1, 0, 0]));
    for _ in 0..symbols {
        let name = if names == 0 { 14 } else { 28 };
        bytes.extend(words(&[halves(name, 0x0001_0012), 0x1010, 16]));
    }
    let section = |kind: u32, at: u64, size: u64, link: u32, each: u64| {
        words(&[halves(0, kind), 2, 0, at, size, halves(link, 0), 8, each])
    };
    bytes.extend(section(0, 0, 0, 0, 0));
    bytes.extend(section(STRINGS, segments_end, strings.len() as u64, 0, 0));
    bytes.extend(section(DYNAMIC, dynamic_at, 32, 1, 16));
    let size = u64::from(symbols) * 24;
    bytes.extend(section(SYMBOLS, symbols_at, size, 1, 24));
    bytes
}
