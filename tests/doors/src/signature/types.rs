//! What a type's name stands for, read from Rust source.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};

use super::{Kind, split};

/// The names of types, and what they were declared as. The last declaration of a name counts.
#[derive(Default)]
pub struct Types(BTreeMap<String, Declared>);

enum Declared {
    Alias(String),
    /// With `#[repr(u32)]`, as all enumerations of the driver.
    Enumeration,
    /// The types of its fields.
    Structure(Vec<String>),
    Union(Vec<String>),
}

/// A size and an alignment in bytes.
type Layout = (usize, usize);

impl Types {
    /// Reads the declarations in `source`: one line each, and one line a field.
    pub fn read(&mut self, source: &str) {
        let mut lines = source.lines().map(str::trim);
        while let Some(line) = lines.next() {
            let line = line.strip_prefix("pub(super) ").unwrap_or(line);
            let line = line.strip_prefix("pub ").unwrap_or(line);
            let Some((word, rest)) = line.split_once(' ') else {
                continue;
            };
            // `use self::NAME as OTHER;`
            if let Some((of, name)) = rest.split_once(" as ").filter(|_| word == "use") {
                let name = name.trim_end_matches(';').to_owned();
                self.0.insert(name, Declared::Alias(of.to_owned()));
                continue;
            }
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            let (name, rest) = rest.split_at(end.unwrap_or(rest.len()));
            let rest = rest.trim();
            let declared = match word {
                "type" => rest
                    .strip_prefix('=')
                    .map(|alias| Declared::Alias(alias.trim_matches([' ', ';']).to_owned())),
                "enum" => Some(Declared::Enumeration),
                "struct" if rest.starts_with('(') => {
                    let fields = rest.trim_matches(['(', ')', ';']);
                    Some(Declared::Structure(split(fields, ',').map(typed).collect()))
                }
                "struct" | "union" if rest == "{" => {
                    let fields = lines.by_ref().take_while(|line| *line != "}");
                    let fields = fields.filter(|line| line.ends_with(',') && line.contains(": "));
                    let fields = fields
                        .map(|line| typed(line.trim_end_matches(',')))
                        .collect();
                    Some(match word {
                        "struct" => Declared::Structure(fields),
                        _ => Declared::Union(fields),
                    })
                }
                _ => None,
            };
            if let Some(declared) = declared.filter(|_| !name.is_empty()) {
                self.0.insert(name.to_owned(), declared);
            }
        }
    }

    /// How a type is passed.
    ///
    /// # Errors
    /// A type that is not known.
    pub fn kind(&self, named: &str) -> Result<Kind> {
        if is_pointer(named) {
            return Ok(Kind::Pointer);
        }
        let name = last(named);
        match name {
            "CUdeviceptr" => return Ok(Kind::Address),
            "usize" => return Ok(Kind::Size),
            "f32" => return Ok(Kind::Float),
            _ => {}
        }
        if let Some(bytes) = integer(name) {
            return Ok(Kind::Integer { bytes });
        }
        match self.declared(name)? {
            Declared::Alias(alias) => self.kind(alias),
            Declared::Enumeration => Ok(Kind::Integer { bytes: 4 }),
            // An enumeration with values that have no names.
            Declared::Structure(fields)
                if fields.len() == 1 && integer(last(&fields[0])).is_some() =>
            {
                self.kind(&fields[0])
            }
            Declared::Structure(_) | Declared::Union(_) => {
                let (bytes, _) = self.layout(name)?;
                Ok(Kind::Structure { bytes })
            }
        }
    }

    fn declared(&self, name: &str) -> Result<&Declared> {
        self.0
            .get(name)
            .with_context(|| format!("the type {name} is not declared"))
    }

    fn layout(&self, named: &str) -> Result<Layout> {
        if let Some((of, count)) = named
            .strip_prefix('[')
            .and_then(|array| array.strip_suffix(']')?.split_once(';'))
        {
            let count: usize = count.trim().trim_end_matches("usize").parse()?;
            let (bytes, align) = self.layout(of.trim())?;
            return Ok((bytes * count, align));
        }
        if is_pointer(named) || last(named) == "usize" {
            return Ok((8, 8));
        }
        let name = last(named);
        if let Some(bytes) = integer(name) {
            return Ok((bytes, bytes));
        }
        let (mut bytes, mut align) = (0_usize, 1);
        match self.declared(name)? {
            Declared::Alias(alias) => return self.layout(alias),
            Declared::Enumeration => return Ok((4, 4)),
            Declared::Structure(fields) => {
                ensure!(!fields.is_empty(), "{name} has no fields");
                for field in fields {
                    let (size, aligned) = self.layout(field)?;
                    bytes = bytes.next_multiple_of(aligned) + size;
                    align = align.max(aligned);
                }
            }
            Declared::Union(fields) => {
                for field in fields {
                    let (size, aligned) = self.layout(field)?;
                    (bytes, align) = (bytes.max(size), align.max(aligned));
                }
            }
        }
        if bytes == 0 {
            bail!("{name} has no size");
        }
        Ok((bytes.next_multiple_of(align), align))
    }
}

/// The type of `NAME: TYPE`, or of a field without a name.
fn typed(field: &str) -> String {
    let field = field.strip_prefix("pub ").unwrap_or(field);
    let (_, named) = field.split_once(": ").unwrap_or(("", field));
    named.trim().to_owned()
}

fn is_pointer(named: &str) -> bool {
    named.starts_with('*') || last(named.split('<').next().unwrap_or("")) == "Option"
}

/// The last part of a path.
fn last(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

/// The bytes of an integer type.
fn integer(name: &str) -> Option<usize> {
    Some(match name {
        "c_char" | "c_uchar" | "u8" | "i8" => 1,
        "c_ushort" | "c_short" | "u16" | "i16" => 2,
        "c_int" | "c_uint" | "u32" | "i32" => 4,
        "c_long" | "c_ulong" | "c_longlong" | "c_ulonglong" | "u64" | "i64" => 8,
        _ => return None,
    })
}
