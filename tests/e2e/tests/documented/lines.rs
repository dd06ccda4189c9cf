//! The command lines in a document.

use std::fmt;
use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag};

const PROGRAMS: [&str; 5] = [
    "rtswapctl",
    "rtswapd",
    "rtswap-dnn",
    "rtswap-simgpu",
    "busctl",
];

/// One command line, joined where a backslash continues it, without its prompt.
#[derive(Debug)]
pub(crate) struct Line {
    place: String,
    pub(crate) text: String,
    /// What the document shows below is an error.
    pub(crate) is_refused: bool,
    /// What it shows below is an error of polkit, which refuses some users and not root.
    pub(crate) is_forbidden: bool,
    /// The TOML that the document shows above.
    pub(crate) file: String,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

impl Line {
    /// The program that is started, without the folder that it is in.
    pub(crate) fn program(&self) -> &str {
        program(&self.text)
    }
}

fn program(text: &str) -> &str {
    let word = text.split(' ').next().unwrap_or_default();
    word.rsplit('/').next().unwrap_or_default()
}

/// Whether `text` begins with one of our programs, or with busctl.
fn is_ours(text: &str) -> bool {
    PROGRAMS.contains(&program(text)) || text.starts_with("cargo xtask ")
}

/// Where the documents are.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Those in blocks for a shell.
pub(crate) fn in_blocks(document: &str, text: &str) -> Vec<Line> {
    let mut found = Vec::new();
    let mut language = None;
    let mut file = String::new();
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(of))) => language = Some(of),
            Event::Text(block) => match language.as_deref() {
                Some("" | "sh" | "bash" | "console") => {
                    let first = text[..range.start].matches('\n').count() + 1;
                    found.extend(in_block(document, first, &block, &file));
                }
                Some("toml") => file = block.into_string(),
                _ => {}
            },
            Event::End(_) => language = None,
            _ => {}
        }
    }
    found
}

fn in_block(document: &str, first: usize, block: &str, file: &str) -> Vec<Line> {
    let mut found: Vec<Line> = Vec::new();
    let mut lines = block.lines().zip(first..).peekable();
    while let Some((line, number)) = lines.next() {
        let typed = ["$ ", "# "]
            .iter()
            .find_map(|prompt| line.strip_prefix(prompt));
        let typed = typed.unwrap_or(line);
        let mut text = typed.strip_prefix("sudo ").unwrap_or(typed).to_owned();
        if !is_ours(&text) {
            continue;
        }
        while text.ends_with('\\')
            && let Some((more, _)) = lines.next()
        {
            text.pop();
            text.push_str(more.trim_start());
        }
        let shown = lines.peek().map_or("", |(shown, _)| *shown);
        let errors = ["rtswapctl: ", "Call failed: ", "? 1"];
        let is_forbidden = shown.contains("polkit says no");
        found.push(Line {
            place: format!("{document}:{number}"),
            text,
            is_refused: errors.iter().any(|error| shown.starts_with(error)) && !is_forbidden,
            is_forbidden,
            file: file.to_owned(),
        });
    }
    found
}

/// Those in the text itself, which may leave out what is not spoken of.
pub(crate) fn in_text(document: &str, text: &str) -> Vec<Line> {
    let mut found = Vec::new();
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        if let Event::Code(code) = event
            && is_ours(&code)
            && code.contains(' ')
        {
            let number = text[..range.start].matches('\n').count() + 1;
            found.push(Line {
                place: format!("{document}:{number}"),
                text: code.replace('\n', " "),
                is_refused: false,
                is_forbidden: false,
                file: String::new(),
            });
        }
    }
    found
}
