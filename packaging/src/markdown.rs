//! A manual page from a page of Markdown, as docs/ has them.
//!
//! The title's text becomes the name line, headings sections, the rest what man(7) has for it.

use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// A whole page: the text before the first heading below the title is its description.
pub(crate) fn page(name: &str, section: &str, text: &str) -> String {
    let mut roff = Roff::new();
    roff.control("TH", [&name.to_uppercase(), section]);
    roff.control("SH", ["NAME"]);
    let (title, text) = text
        .split_once('\n')
        .expect("a page has a title and a text");
    let title = title.trim_start_matches(['#', ' ']);
    let summary = title.split_once(": ").map_or(title, |(_, summary)| summary);
    roff.text([roman(format!("{name} - {}", summary.to_lowercase()))]);
    roff.control("SH", ["DESCRIPTION"]);
    append(&mut roff, text);
    roff.render()
}

/// The sections of `text` alone, for the end of a page that something else began.
pub(crate) fn sections(text: &str) -> String {
    let mut roff = Roff::new();
    append(&mut roff, text);
    roff.render()
}

fn append(roff: &mut Roff, text: &str) {
    let mut writer = Writer::new(roff);
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        writer.take(event);
    }
}

/// What is open while the events pass.
struct Writer<'roff> {
    roff: &'roff mut Roff,
    line: Vec<Inline>,
    strong: bool,
    emphasis: bool,
    verbatim: bool,
    /// Inside a list's item, whose tag is already written.
    item: bool,
    /// Cells of this row so far; none in the head.
    cells: Option<u8>,
}

impl<'roff> Writer<'roff> {
    fn new(roff: &'roff mut Roff) -> Self {
        Self {
            roff,
            line: Vec::new(),
            strong: false,
            emphasis: false,
            verbatim: false,
            item: false,
            cells: None,
        }
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(&tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.verbatim => {
                for line in text.lines() {
                    self.roff.text([roman(line)]);
                }
            }
            Event::Text(text) if self.strong => self.line.push(bold(text.as_ref())),
            Event::Text(text) if self.emphasis => self.line.push(italic(text.as_ref())),
            Event::Text(text) => self.line.push(roman(text.as_ref())),
            Event::Code(text) => self.line.push(bold(text.as_ref())),
            Event::SoftBreak | Event::HardBreak => self.line.push(roman(" ")),
            // Nothing else is in docs/: rules, HTML, footnotes.
            _ => {}
        }
    }

    fn start(&mut self, tag: &Tag<'_>) {
        match tag {
            Tag::Strong => self.strong = true,
            Tag::Emphasis => self.emphasis = true,
            Tag::Paragraph if !self.item => {
                self.roff.control("PP", []);
            }
            Tag::CodeBlock(_) => {
                self.flush();
                self.verbatim = true;
                self.roff.control("PP", []);
                self.roff.control("RS", ["4"]);
                self.roff.control("nf", []);
            }
            Tag::Item => {
                self.item = true;
                self.roff.control("IP", ["\\(bu", "2"]);
            }
            Tag::TableHead => self.cells = None,
            Tag::TableRow => self.cells = Some(0),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Strong => self.strong = false,
            TagEnd::Emphasis => self.emphasis = false,
            TagEnd::Heading(_) => {
                let heading: String = self.line.drain(..).map(|inline| plain(&inline)).collect();
                self.roff.control("SH", [heading.to_uppercase().as_str()]);
            }
            TagEnd::Paragraph => self.flush(),
            TagEnd::Item => {
                self.flush();
                self.item = false;
            }
            TagEnd::CodeBlock => {
                self.verbatim = false;
                self.roff.control("fi", []);
                self.roff.control("RE", []);
            }
            // A manual needs no names of columns: the first is the tag, the others explain it.
            TagEnd::TableCell => match &mut self.cells {
                None => self.line.clear(),
                Some(cells @ 0) => {
                    *cells = 1;
                    let tag = std::mem::take(&mut self.line);
                    self.roff.control("TP", []);
                    self.roff.text(tag);
                }
                Some(_) => self.line.push(roman(". ")),
            },
            TagEnd::TableRow => {
                self.line.pop();
                self.flush();
            }
            _ => {}
        }
    }

    fn flush(&mut self) {
        if !self.line.is_empty() {
            self.roff.text(std::mem::take(&mut self.line));
        }
    }
}

fn plain(inline: &Inline) -> String {
    match inline {
        Inline::Roman(text) | Inline::Italic(text) | Inline::Bold(text) => text.clone(),
        Inline::LineBreak => " ".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_names_the_page() {
        let page = page("a", "5", "# The file: what it says\n\nText with `code`.\n");
        assert!(page.contains(".TH A 5"), "{page}");
        assert!(page.contains("a \\- what it says"), "{page}");
        assert!(page.contains("Text with \\fBcode\\fR."), "{page}");
    }

    #[test]
    fn lists_tables_and_verbatim_text_are_kept() {
        let text = "\n## Next\n\n- one\n- two\n\n| name | meaning |\n|---|---|\n| `A` | first |\n\n```toml\nkey = 1\n.dot = 2\n```\n";
        let sections = sections(text);
        for wanted in [
            ".SH NEXT",
            ".IP \\(bu 2\none",
            ".TP\n\\fBA\\fR\nfirst\n",
            ".nf\nkey = 1\n\\&.dot = 2\n.fi",
        ] {
            assert!(sections.contains(wanted), "{wanted:?} is not in {sections}");
        }
        for head in ["name", "meaning"] {
            assert!(!sections.contains(head), "{sections}");
        }
    }
}
