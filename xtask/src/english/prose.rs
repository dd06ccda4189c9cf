//! Tells the words of a Rust source from its code.

/// What one line says to people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// The text of its comments and strings, without their marks.
    pub(super) prose: String,
    /// The mark of its doc comment, if the line is one: `///` or `//!`.
    pub(super) doc: Option<&'static str>,
}

/// What a line goes on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Code,
    /// A comment in `/* */`, so deep.
    Block(usize),
    Text,
    /// A raw string with so many `#`.
    Raw(usize),
}

/// All lines of a source.
pub(super) fn lines(source: &str) -> Vec<Line> {
    let mut state = State::Code;
    let lines = source.lines();
    lines.map(|line| read(line, &mut state)).collect()
}

fn read(line: &str, state: &mut State) -> Line {
    let chars: Vec<char> = line.chars().collect();
    let mut said = Line::default();
    let mut at = 0;
    while at < chars.len() {
        let rest = &chars[at..];
        let is = |mark: &str| {
            let mark: Vec<_> = mark.chars().collect();
            rest.starts_with(&mark)
        };
        at += match *state {
            State::Code if is("//") => {
                let begins = chars[..at].iter().all(|it| it.is_whitespace());
                said.doc = ["///", "//!"].into_iter().find(|mark| begins && is(mark));
                said.doc = said.doc.filter(|_| !is("////"));
                let mark = said.doc.map_or(2, str::len);
                said.prose.extend(&rest[mark..]);
                break;
            }
            State::Code if is("/*") => {
                *state = State::Block(1);
                2
            }
            State::Code if is("\"") => {
                *state = begun(&chars[..at]);
                1
            }
            State::Code if is("'\\") => {
                // The character after the backslash may be a quote.
                let end = rest.iter().skip(3).position(|it| *it == '\'');
                end.map_or(2, |end| end + 4)
            }
            State::Code if rest[0] == '\'' && rest.get(2) == Some(&'\'') => 3,
            State::Code => 1,
            State::Block(depth) if is("*/") => {
                *state = match depth {
                    1 => State::Code,
                    depth => State::Block(depth - 1),
                };
                2
            }
            State::Block(depth) if is("/*") => {
                *state = State::Block(depth + 1);
                2
            }
            State::Text if is("\\") => {
                said.prose.push(' ');
                2
            }
            State::Text if is("\"") => {
                *state = State::Code;
                said.prose.push(' ');
                1
            }
            State::Raw(hashes) if is(&format!("\"{}", "#".repeat(hashes))) => {
                *state = State::Code;
                said.prose.push(' ');
                1 + hashes
            }
            State::Block(_) | State::Text | State::Raw(_) => {
                said.prose.push(rest[0]);
                1
            }
        };
    }
    said
}

/// The kind of string that begins with a quote after `before`.
fn begun(before: &[char]) -> State {
    let hashes = before.iter().rev().take_while(|it| **it == '#').count();
    let mut before = before[..before.len() - hashes].iter().rev();
    let is_raw = before.next() == Some(&'r');
    // The r may also end a name, in a macro's arguments.
    let is_name = |it: &char| it.is_alphanumeric() && !"bc".contains(*it) || *it == '_';
    if is_raw && !before.next().is_some_and(is_name) {
        State::Raw(hashes)
    } else {
        State::Text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of each line, one space between them.
    fn words(source: &str) -> Vec<String> {
        let words = |line: Line| line.prose.split_whitespace().collect::<Vec<_>>().join(" ");
        lines(source).into_iter().map(words).collect()
    }

    #[test]
    fn comments_and_strings_are_words_and_code_is_not() {
        assert_eq!(words("let who = 1; // whom"), ["whom"]);
        assert_eq!(
            words(r#"log("a // b", who, "c\"d\ne"); who"#),
            ["a // b c d e"]
        );
        assert_eq!(
            words("f('\"', '\\'', '\\u{7f}', 'a', \"b\"); fn g<'a>(who: &'a u8)"),
            ["b"]
        );
        assert_eq!(
            words(r##"f(r#"a "b" c"#, br"d\", for"e")"##),
            ["a \"b\" c d\\ e"]
        );
    }

    #[test]
    fn comments_and_strings_go_on_over_lines() {
        assert_eq!(words("x /* a /* b */\nc */ y\nz"), ["a b", "c", ""]);
        assert_eq!(words("\"a \\\n b\" c\n// d"), ["a", "b", "d"]);
        assert_eq!(words("r\"\n/// a\n\" b"), ["", "/// a", ""]);
    }

    #[test]
    fn only_a_line_of_its_own_is_a_doc_comment() {
        let doc = |source| lines(source)[0].doc;
        assert_eq!(doc("    /// a"), Some("///"));
        assert_eq!(doc("//! a"), Some("//!"));
        assert_eq!(doc("// a"), None);
        assert_eq!(doc("//// a"), None);
        assert_eq!(doc("x /// a"), None);
        assert_eq!(lines("r\"\n/// a\n\"")[1].doc, None);
    }
}
