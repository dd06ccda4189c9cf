//! The word that was perhaps meant. Our own few lines: strsim needs std.

/// The known word with the fewest edits from `word`, if they are few for its length; what only
/// lacks its end, as `wcet` for `wcet_ms`, counts as one edit.
pub(super) fn nearest(word: &str, known: &[&'static str]) -> Option<&'static str> {
    known
        .iter()
        .map(|known| match edits(word, known) {
            edits if known.starts_with(word) && !word.is_empty() => (edits.min(1), *known),
            edits => (edits, *known),
        })
        .filter(|(edits, known)| *edits <= known.len().div_ceil(4))
        .min()
        .map(|(_, known)| known)
}

/// The least number of characters to insert, remove or replace (Levenshtein), upper and lower case
/// being equal.
fn edits(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().flat_map(char::to_lowercase).collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, here) in one.chars().flat_map(char::to_lowercase).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], line + 1);
        for (column, there) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(here != *there);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_understood_and_another_word_is_not() {
        let known = ["memory", "chunk", "duplex", "drain_ms"];
        assert_eq!(nearest("memroy", &known), Some("memory"));
        assert_eq!(nearest("Chunk", &known), Some("chunk"));
        assert_eq!(nearest("drain", &known), Some("drain_ms"));
        for other in ["colour", "", "ram_s"] {
            assert_eq!(nearest(other, &known), None, "{other}");
        }
        assert_eq!((edits("kitten", "sitting"), edits("", "abc")), (3, 3));
    }
}
