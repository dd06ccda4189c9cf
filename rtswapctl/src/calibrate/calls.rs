//! What the driver's calls for a chunk take, by the packaged workload.

use std::time::Duration;

use rtswap_policy::units::Bytes;
use serde::{Deserialize, Serialize};

use crate::trial::TrialError;
use crate::trial::child::Program;
use crate::trial::interrupt::Interrupt;
use crate::trial::place::Place;

/// How long all of it may take.
const BOUND: Duration = Duration::from_secs(30);

/// What each call for one chunk takes, the median, in microseconds. A swap makes them beside copies, so that most of their
/// time is hidden.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "the names of the JSON keys")]
pub(super) struct Calls {
    pub(super) create_us: f64,
    pub(super) map_us: f64,
    pub(super) access_us: f64,
    pub(super) unmap_us: f64,
    pub(super) release_us: f64,
}

impl Calls {
    /// Each by its name, in the order of their use.
    pub(super) fn named(&self) -> [(&'static str, f64); 5] {
        [
            ("create", self.create_us),
            ("map", self.map_us),
            ("access", self.access_us),
            ("unmap", self.unmap_us),
            ("release", self.release_us),
        ]
    }
}

#[derive(Debug, Deserialize)]
struct Answer {
    chunks: Vec<Timed>,
}

#[derive(Debug, Deserialize)]
struct Timed {
    chunk_bytes: u64,
    #[serde(flatten)]
    calls: Calls,
}

/// Times the calls for chunks of each of these sizes.
pub(super) fn time(
    place: &Place,
    chunks: &[Bytes],
    interrupt: &Interrupt,
) -> Result<Vec<(Bytes, Calls)>, TrialError> {
    let sizes: Vec<_> = chunks.iter().map(|chunk| chunk.0.to_string()).collect();
    let mut command = place.workload()?;
    command
        .args(["--json", "--calls", &sizes.join(",")])
        .env_remove("LD_PRELOAD");
    let told = read(&Program::start(command)?.finish(BOUND, interrupt)?)?;
    if told.iter().map(|(chunk, _)| chunk).ne(chunks) {
        let text = "the workload timed other chunk sizes than it was asked for";
        return Err(std::io::Error::other(text).into());
    }
    Ok(told)
}

fn read(text: &str) -> Result<Vec<(Bytes, Calls)>, TrialError> {
    let answer: Answer = serde_json::from_str(text).map_err(std::io::Error::from)?;
    let told = answer.chunks.into_iter();
    Ok(told.map(|it| (Bytes(it.chunk_bytes), it.calls)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workload_s_report_is_read() {
        let text = r#"{"version":1,"name":"dnn","chunks":[{"chunk_bytes":2097152,"create_us":35.5,"map_us":10,
            "access_us":25,"unmap_us":30,"release_us":34}]}"#;
        let told = read(text).unwrap();
        let [(chunk, calls)] = told[..] else {
            panic!("{told:?}");
        };
        assert_eq!((chunk, calls.create_us), (Bytes(2 << 20), 35.5));
        assert_eq!(calls.named()[4], ("release", 34.0));
        assert!(read("{}").is_err());
    }
}
