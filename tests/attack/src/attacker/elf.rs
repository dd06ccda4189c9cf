//! Libraries that no compiler would make.

/// What stands in a made library.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    /// Program headers, none of which loads anything.
    pub headers: u64,
    /// Symbols, each with the name of a function that is probed.
    pub symbols: u64,
    /// Where the section headers are said to be; where they are, if none is given.
    pub sections_at: Option<u64>,
    /// The size that the string table is said to have, if it is not its own.
    pub strings: Option<u64>,
    /// The size that each function is said to have.
    pub function_bytes: u64,
}

impl Default for Made {
    fn default() -> Self {
        Self {
            headers: 1,
            symbols: 1,
            sections_at: None,
            strings: None,
            function_bytes: 64,
        }
    }
}

/// Names that the daemon looks for; the first is in every library.
const FUNCTION: &str = "cuMemAlloc_v2";
const STRINGS: &str = "\0libcuda.so.1\0cuMemAlloc_v2\0";

/// The whole file: 64-bit, little-endian, for this processor, with a dynamic section, its strings and symbols.
pub(crate) fn library(made: &Made) -> Vec<u8> {
    let counted_headers = u16::try_from(made.headers).unwrap_or(0xffff);
    let headers_at = 64_u64;
    let strings_at = headers_at + made.headers * 56;
    let dynamic_at = (strings_at + STRINGS.len() as u64).next_multiple_of(8);
    let symbols_at = dynamic_at + 2 * 16;
    let sections_at = symbols_at + made.symbols * 24;
    let mut file = Vec::new();
    let mut put = |bytes: &[u8]| file.extend_from_slice(bytes);
    put(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    put(&3_u16.to_le_bytes());
    put(&62_u16.to_le_bytes());
    put(&1_u32.to_le_bytes());
    put(&0_u64.to_le_bytes());
    put(&headers_at.to_le_bytes());
    put(&made.sections_at.unwrap_or(sections_at).to_le_bytes());
    put(&0_u32.to_le_bytes());
    for half in [64, 56, counted_headers, 64, 4, 1] {
        put(&u16::to_le_bytes(half));
    }
    for _ in 0..made.headers {
        // PT_NULL, so that each symbol's address is looked for in all of them.
        put(&[0; 56]);
    }
    put(STRINGS.as_bytes());
    put(&vec![0; (dynamic_at - strings_at) as usize - STRINGS.len()]);
    for (tag, value) in [(14_u64, 1_u64), (0, 0)] {
        put(&tag.to_le_bytes());
        put(&value.to_le_bytes());
    }
    let name = STRINGS.find(FUNCTION).unwrap_or_default() as u32;
    for number in 0..made.symbols {
        put(&name.to_le_bytes());
        // A global function of section 1.
        put(&[0x12, 0, 1, 0]);
        put(&(0x1000 + number).to_le_bytes());
        put(&made.function_bytes.to_le_bytes());
    }
    // More headers than fit their count are counted by the first section.
    let more = u32::try_from(made.headers).unwrap_or(u32::MAX);
    let strings = made.strings.unwrap_or(STRINGS.len() as u64);
    let sections: [(u32, u64, u64, u32, u32, u64); 4] = [
        (0, 0, 0, 0, more, 0),
        (3, strings_at, strings, 0, 0, 0),
        (6, dynamic_at, 32, 1, 0, 16),
        (11, symbols_at, made.symbols * 24, 1, 0, 24),
    ];
    for (kind, at, size, link, info, entry) in sections {
        put(&0_u32.to_le_bytes());
        put(&kind.to_le_bytes());
        put(&[0; 16]);
        put(&at.to_le_bytes());
        put(&size.to_le_bytes());
        put(&link.to_le_bytes());
        put(&info.to_le_bytes());
        put(&8_u64.to_le_bytes());
        put(&entry.to_le_bytes());
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_has_the_size_of_its_parts() {
        let one = library(&Made::default());
        assert_eq!(&one[..4], b"\x7fELF");
        let large = library(&Made {
            headers: 290_000,
            symbols: 65_536,
            ..Made::default()
        });
        assert!(
            (17_500_000..18_500_000).contains(&large.len()),
            "{}",
            large.len()
        );
        assert_eq!(one.len() + 289_999 * 56 + 65_535 * 24, large.len());
    }
}
