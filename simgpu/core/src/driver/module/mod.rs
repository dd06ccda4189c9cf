//! Modules: images, of which only the entries' names and the variables
//! (`globals`) matter. Those are read from PTX text; binary images are taken as
//! they are, and have every entry that they are asked for.

mod globals;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};
use std::sync::{Arc, Mutex};

use super::kernel::Kernel;
use crate::{Error, Result};
use globals::Global;

/// How binary images begin: ELF, a fat binary, and the runtime's description of one.
const BINARIES: [&[u8]; 3] = [
    b"\x7fELF",
    &[0x50, 0xed, 0x55, 0xba],
    &[0xb1, 0x43, 0x62, 0x46],
];

/// A loaded image.
#[derive(Debug)]
pub struct Module {
    /// None of a binary image, which nothing here could read.
    entries: Option<BTreeSet<String>>,
    globals: Vec<Global>,
    /// Address and size of each variable that is in device memory.
    placed: Mutex<BTreeMap<String, (u64, u64)>>,
}

/// An entry of a module.
#[derive(Debug)]
pub struct Function {
    /// What it computes; none if it is not one of the kernels that are computed here.
    pub kernel: Option<Kernel>,
    /// Its name in the image.
    pub name: CString,
    /// Handle of the module it is from.
    pub module: usize,
}

impl Module {
    /// Loads PTX text or a binary image, of which the first bytes are enough.
    pub fn load(image: &[u8]) -> Result<Arc<Self>> {
        if BINARIES.iter().any(|magic| image.starts_with(magic)) {
            return Ok(Arc::new(Self {
                entries: None,
                globals: Vec::new(),
                placed: Mutex::default(),
            }));
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
            entries: Some(entries),
            globals: globals::declared(&text)?,
            placed: Mutex::default(),
        }))
    }

    /// cuModuleGetFunction: an entry that the image declares. `module` is this module's handle.
    pub fn function(&self, name: &CStr, module: usize) -> Result<Arc<Function>> {
        let text = name.to_str().map_err(|_| Error::NotFound)?;
        let is_there = match &self.entries {
            Some(entries) => entries.contains(text),
            None => !text.is_empty(),
        };
        if !is_there {
            return Err(Error::NotFound);
        }
        // A binary's kernel may have the name of one that is computed here, but not its code.
        let kernel = self.entries.as_ref().and_then(|_| Kernel::by_name(text));
        let name = name.to_owned();
        Ok(Arc::new(Function {
            kernel,
            name,
            module,
        }))
    }

    /// How many entries the image declares; 0 for a binary one.
    pub fn entry_count(&self) -> usize {
        self.entries.as_ref().map_or(0, BTreeSet::len)
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
    fn only_declared_entries_are_found() {
        let module = Module::load(PTX).unwrap();
        assert_eq!(module.entry_count(), 3);
        let kernel = |name: &CStr| module.function(name, 1).unwrap().kernel;
        assert_eq!(kernel(c"fill"), Some(Kernel::Fill));
        assert_eq!(kernel(c"layer"), Some(Kernel::Layer));
        assert_eq!(kernel(c"other"), None);
        for name in [c"spin", c"axpy", c"checksum", c""] {
            assert_eq!(
                module.function(name, 1).unwrap_err(),
                Error::NotFound,
                "{name:?}"
            );
        }
    }

    #[test]
    fn binaries_have_every_entry_and_none_that_is_computed() {
        let module = Module::load(b"\x7fELF\x02").unwrap();
        for name in [c"fill", c"_Z6kernelv"] {
            assert_eq!(module.function(name, 1).unwrap().kernel, None);
        }
        assert_eq!(module.function(c"", 1).unwrap_err(), Error::NotFound);
        assert_eq!(module.entry_count(), 0);
    }

    #[test]
    fn what_is_no_ptx_is_refused() {
        for text in ["", "this is no program", ".entry fill() { ret; }"] {
            let refused = Module::load(text.as_bytes()).unwrap_err();
            assert_eq!(refused, Error::InvalidImage, "{text}");
        }
    }
}
