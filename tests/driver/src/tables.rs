//! Private tables of functions that cuGetExportTable hands out by UUID. Only by asking can it be known whether a driver has one.

/// A table.
#[derive(Debug)]
pub struct Table {
    /// Its UUID, in hexadecimal digits in the order of the bytes.
    pub uuid: &'static str,
    /// The oldest branch that was seen to answer.
    pub since: u32,
}

const fn table(uuid: &'static str, since: u32) -> Table {
    Table { uuid, since }
}

/// The tables that docs/doors.md names: those that reach what allocates, and those that libcudart 12.9.79 embeds.
pub const TABLES: &[Table] = &[
    table("5b618f5a1202684781e4a7765ac9f359", 470),
    table("62b97de8236ff24f998d90bd60149318", 470),
    table("a259cffb1846e8488957bfc72ceb58b8", 470),
    table("6bd5fb6c5bf4e74a8987d93912fd9df9", 470),
    table("c693336e1121df11a8c368f355d89593", 470),
    table("42d85a8123f6cb478298f6e78a3aecdc", 470),
    table("a094798c2e742e7493f20800200c0a66", 470),
    table("d4082055bde6704b8d34ba123c66e1f2", 470),
    table("263e88607cd2614392f6bbd5006dfa7e", 550),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A UUID as docs/doors.md has it.
    fn dashed(uuid: &str) -> String {
        let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|range| &uuid[range]);
        parts.join("-")
    }

    #[test]
    fn the_documentation_names_these_tables_and_no_other() {
        let documentation = include_str!("../../../docs/doors.md");
        let mut seen = BTreeSet::new();
        for table in TABLES {
            assert!(
                seen.insert(dashed(table.uuid)),
                "{} is there twice",
                table.uuid
            );
        }
        let is_uuid = |word: &&str| word.len() == 36 && word.matches('-').count() == 4;
        let words = documentation.split(|c: char| !c.is_ascii_hexdigit() && c != '-');
        let named: BTreeSet<String> = words.filter(is_uuid).map(str::to_owned).collect();
        assert_eq!(named, seen);
    }
}
