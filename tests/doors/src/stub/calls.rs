//! What the program printed of its calls.

use anyhow::{Context, Result, ensure};

/// A function, and its arguments as bytes in hexadecimal digits, one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The function.
    pub name: String,
    /// Its arguments.
    pub arguments: String,
}

/// A call of the program.
#[derive(Debug)]
pub struct Made {
    /// What the program called, and passed.
    pub passed: Call,
    /// What it got back.
    pub result: u32,
    /// What the driver was called with meanwhile, by the same thread.
    pub received: Vec<Call>,
}

impl Made {
    /// Reads a line of the program's; nothing where it says something else.
    ///
    /// # Errors
    /// A line that is cut off.
    pub fn read(line: &str) -> Result<Option<Self>> {
        let Some(rest) = line.strip_prefix("call ") else {
            return Ok(None);
        };
        let words: Vec<&str> = rest.split(' ').collect();
        let [name, arguments, result, received @ ..] = words.as_slice() else {
            anyhow::bail!("cut off: {line}");
        };
        ensure!(received.len() % 2 == 0, "cut off: {line}");
        let call = |name: &str, arguments: &str| Call {
            name: name.to_owned(),
            arguments: arguments.trim_end_matches('.').to_owned(),
        };
        let received = received.chunks(2).map(|pair| call(pair[0], pair[1]));
        Ok(Some(Self {
            passed: call(name, arguments),
            result: result.parse().with_context(|| line.to_owned())?,
            received: received.collect(),
        }))
    }

    /// Why the hook did more or less than to hand the call on, for a driver that answers with `result`.
    pub fn difference(&self, result: u32) -> Option<String> {
        let (passed, received) = (&self.passed, self.received.as_slice());
        if received != std::slice::from_ref(passed) {
            return Some(format!("{passed:?} reached the driver as {received:?}"));
        }
        let got = self.result;
        (got != result).then(|| format!("{} returned {got}, the driver {result}", passed.name))
    }
}
