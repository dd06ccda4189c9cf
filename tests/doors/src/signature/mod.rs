//! How the driver's functions are called: the kind of each argument, as NVIDIA's headers declare it, and as the agent's
//! hooks take it. Calls go wrong silently where the two differ.
//!
//! - [`types`]: what a type's name stands for; [`declared`]: cudarc's declarations, in all their forms;
//! - [`former`]: prototypes that cudarc lacks; [`table`]: the `hooks!` tables of the agent.

pub mod declared;
pub mod former;
pub mod table;
pub mod types;

use std::fmt;

use anyhow::Result;

use types::Types;

/// How an argument is passed, and what it is: two kinds of one width are told apart where the hooks' types do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A pointer, a handle that is one, or a function.
    Pointer,
    /// An address in the GPU's memory, of 64 bits.
    Address,
    /// A `size_t`.
    Size,
    /// An integer or an enumeration.
    Integer {
        /// Its width.
        bytes: usize,
    },
    /// A floating-point number of 32 bits.
    Float,
    /// A structure, passed by value.
    Structure {
        /// Its size.
        bytes: usize,
    },
}

impl Kind {
    /// Whether a hook that takes `self` gets what a caller passes as `declared`.
    fn takes(self, declared: Self) -> bool {
        match (self, declared) {
            // So small a structure is passed as an integer of its size is.
            (Self::Integer { bytes }, Self::Structure { bytes: size }) => {
                bytes == size && size == 8
            }
            _ => self == declared,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pointer => f.write_str("a pointer"),
            Self::Address => f.write_str("an address"),
            Self::Size => f.write_str("a size_t"),
            Self::Float => f.write_str("a float"),
            Self::Integer { bytes } => write!(f, "an integer of {bytes} bytes"),
            Self::Structure { bytes } => write!(f, "a structure of {bytes} bytes"),
        }
    }
}

/// The kinds of a function's arguments, in their order. Each function returns a CUresult.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature(pub Vec<Kind>);

impl Signature {
    /// From parameters as Rust writes them: `NAME: TYPE, …`.
    ///
    /// # Errors
    /// A type that is not known.
    pub fn parse(parameters: &str, types: &Types) -> Result<Self> {
        let kinds = split(parameters, ',').map(|parameter| {
            let (_, named) = parameter.split_once(':').unwrap_or(("", parameter));
            types.kind(named.trim())
        });
        Ok(Self(kinds.collect::<Result<_>>()?))
    }

    /// Why a hook of this signature must not stand for a function that is declared so.
    pub fn difference(&self, declared: &Self) -> Option<String> {
        let (ours, theirs) = (&self.0, &declared.0);
        if ours.len() != theirs.len() {
            let (ours, theirs) = (ours.len(), theirs.len());
            return Some(format!("{ours} arguments, declared with {theirs}"));
        }
        let mut pairs = ours.iter().zip(theirs).enumerate();
        let (at, (ours, theirs)) = pairs.find(|(_, (ours, theirs))| !ours.takes(**theirs))?;
        Some(format!("argument {at} is {ours}, declared as {theirs}"))
    }
}

/// The parts between separators that stand in no brackets; the last may have one after it.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    let parts = text.split(move |c: char| {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == separator && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests;
