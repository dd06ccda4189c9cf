//! Modules: images of PTX text, of which only the entries' names and the
//! variables (`globals`) matter.

mod globals;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use super::kernel::Kernel;
use crate::{Error, Result};
use globals::Global;

/// A loaded image.
#[derive(Debug)]
pub struct Module {
    entries: BTreeSet<String>,
    globals: Vec<Global>,
    /// Address and size of each variable that is in device memory.
    placed: Mutex<BTreeMap<String, (u64, u64)>>,
}

/// An entry of a module.
#[derive(Debug)]
pub struct Function {
    /// What it computes.
    pub kernel: Kernel,
    /// Handle of the module it is from.
    pub module: usize,
}

impl Module {
    /// Loads PTX text. Binary images are refused: nothing here could read them.
    pub fn load(image: &[u8]) -> Result<Arc<Self>> {
        if image.starts_with(b"\x7fELF") || image.starts_with(&[0x50, 0xed, 0x55, 0xba]) {
            return Err(Error::InvalidImage);
        }
        let text = without_comments(&String::from_utf8_lossy(image));
        let between = |c: char| c.is_ascii_whitespace() || "(){};,".contains(c);
        let mut words = text.split(between).filter(|word| !word.is_empty());
        let mut entries = BTreeSet::new();
        // With this all PTX begins.
        if words.next() != Some(".version") {
            return Err(Error::InvalidImage);
        }
        while let Some(word) = words.next() {
            if word == ".entry" {
                let name = words.next().ok_or(Error::InvalidImage)?;
                entries.insert(name.to_owned());
            }
        }
        Ok(Arc::new(Self {
            entries,
            globals: globals::declared(&text)?,
            placed: Mutex::default(),
        }))
    }

    /// cuModuleGetFunction: an entry that the image declares and that is known
    /// here. `module` is this module's handle.
    pub fn function(&self, name: &str, module: usize) -> Result<Arc<Function>> {
        let declared = self.entries.contains(name);
        let kernel = Kernel::by_name(name)
            .filter(|_| declared)
            .ok_or(Error::NotFound)?;
        Ok(Arc::new(Function { kernel, module }))
    }

    /// How many entries the image declares.
    pub fn entry_count(&self) -> usize {
        self.entries.len()
    }
}

fn without_comments(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("//").into_iter().chain(rest.find("/*")).min() {
        clean.push_str(&rest[..at]);
        clean.push(' ');
        let end = if rest[at..].starts_with("//") {
            "\n"
        } else {
            "*/"
        };
        rest = rest[at + 2..].split_once(end).map_or("", |(_, rest)| rest);
        if end == "\n" {
            clean.push('\n');
        }
    }
    clean + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &[u8] = b".version 7.0\n// .entry spin(\n/* .entry axpy( */\n\
        .visible .entry fill(\n .param .u64 a)\n{ ret; }\n.entry layer\n(.param .u64 a)\n\
        { ret;}.entry other()\n";

    #[test]
    fn only_declared_and_known_entries_are_found() {
        let module = Module::load(PTX).unwrap();
        assert_eq!(module.entry_count(), 3);
        assert_eq!(module.function("fill", 1).unwrap().kernel, Kernel::Fill);
        assert_eq!(module.function("layer", 1).unwrap().kernel, Kernel::Layer);
        for name in ["spin", "axpy", "other", "checksum", ""] {
            assert_eq!(
                module.function(name, 1).unwrap_err(),
                Error::NotFound,
                "{name}"
            );
        }
    }

    #[test]
    fn binaries_are_refused() {
        assert_eq!(
            Module::load(b"\x7fELF\x02").unwrap_err(),
            Error::InvalidImage
        );
    }

    #[test]
    fn what_is_no_ptx_is_refused() {
        for text in ["", "this is no program", ".entry fill() { ret; }"] {
            let refused = Module::load(text.as_bytes()).unwrap_err();
            assert_eq!(refused, Error::InvalidImage, "{text}");
        }
    }
}
