//! Variables of modules: device memory that comes and goes with them.

use crate::driver::space::Access;
use crate::driver::{Context, Driver, lock};
use crate::{Error, Result};

/// A `.global` variable as PTX declares it; such variables start as zeros.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Global {
    pub(super) name: String,
    pub(super) bytes: u64,
}

/// The variables that a text without comments declares outside of functions.
/// One with initial values is not there: they are not read here, and zeros would be wrong.
pub(super) fn declared(text: &str) -> Result<Vec<Global>> {
    let mut depth = 0_usize;
    let mut globals = Vec::new();
    for statement in text.split_inclusive([';', '{', '}']) {
        let words: Vec<_> = statement.split_ascii_whitespace().collect();
        let at = words.iter().position(|word| *word == ".global");
        let is_plain = depth == 0 && !statement.contains('=');
        if let Some(at) = at.filter(|_| is_plain) {
            globals.push(variable(&words[at + 1..]).ok_or(Error::InvalidImage)?);
        }
        if statement.ends_with('{') {
            depth += 1;
        } else if statement.ends_with('}') {
            depth = depth.saturating_sub(1);
        }
    }
    Ok(globals)
}

/// What follows `.global`: perhaps an alignment, a vector size, a type, a name
/// with dimensions.
fn variable(words: &[&str]) -> Option<Global> {
    let mut bytes = 1_u64;
    let mut words = words.iter();
    loop {
        let word = words.next()?;
        match *word {
            ".align" => drop(words.next()?),
            ".v2" => bytes *= 2,
            ".v4" => bytes *= 4,
            word if word.starts_with('.') => {
                let bits = word.trim_start_matches(|c: char| !c.is_ascii_digit());
                bytes *= bits.parse::<u64>().ok()? / 8;
            }
            name => {
                // Blanks may be anywhere in the dimensions.
                let rest: String = words.copied().collect();
                let whole = format!("{name}{rest}");
                let mut parts = whole.trim_end_matches(';').split('[');
                let name = parts.next().filter(|name| !name.is_empty())?.to_owned();
                for part in parts {
                    bytes = bytes.checked_mul(part.trim_end_matches(']').parse().ok()?)?;
                }
                return Some(Global { name, bytes });
            }
        }
    }
}

impl Driver {
    /// Puts a module's variables into a context, if they are nowhere yet.
    pub fn place_globals(&self, context: &Context, module: usize) -> Result<()> {
        let image = self.modules.get(module).ok_or(Error::InvalidHandle)?;
        let mut placed = lock(&image.placed);
        for global in &image.globals {
            // A reset of its context takes it along.
            let is_there = |(address, _): &(u64, u64)| self.pointer(*address).is_ok();
            if placed.get(&global.name).is_some_and(is_there) {
                continue;
            }
            let address = context.alloc(global.bytes.max(1))?;
            let executor = &context.executor;
            for segment in executor.device(address, global.bytes as usize, Access::ReadWrite)? {
                segment.clear();
            }
            placed.insert(global.name.clone(), (address, global.bytes));
        }
        Ok(())
    }

    /// cuModuleGetGlobal: address and size.
    pub fn global(&self, module: usize, name: &str) -> Result<(u64, u64)> {
        let image = self.modules.get(module).ok_or(Error::InvalidHandle)?;
        let placed = lock(&image.placed);
        placed.get(name).copied().ok_or(Error::NotFound)
    }

    /// Variables end with their module.
    pub(in crate::driver) fn take_globals(&self, module: &super::Module) {
        for (address, _) in std::mem::take(&mut *lock(&module.placed)).into_values() {
            // Its context may have taken it along.
            let _ = self.free(address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_have_the_size_that_they_are_declared_with() {
        let text = ".visible .global .align 4 .u32 one;\n.global .align 16 .v4 .f32 many[3] [2];\n\
                    .visible .entry fill(.param .u64 a) { ld.global.u32 x; { .global .u32 no; } }\n\
                    .extern .global .b8 bytes[100];";
        let named = |name: &str, bytes| Global {
            name: name.into(),
            bytes,
        };
        let expected = [named("one", 4), named("many", 96), named("bytes", 100)];
        assert_eq!(declared(text).unwrap(), expected);
        assert_eq!(declared(".global .u32 x = 5;").unwrap(), []);
        let list = ".global .u32 x[2] = {1, 2};\n.global .u32 y;";
        assert_eq!(declared(list).unwrap(), [named("y", 4)]);
        assert!(declared(".global .u32 ;").is_err());
    }
}
