//! What is told of a calibration: for people, and as JSON.

use std::fmt::Write as _;
use std::path::Path;

use rtswap_policy::cost::DirectionCost;
use rtswap_policy::units::{Nanos, Ppm};
use serde::Serialize;

use super::calls::Calls;
use super::model::Way;
use super::{Findings, Size};
use crate::table::table;
use crate::trial::place::Place;

/// The JSON of `calibrate`, version 1.
#[derive(Debug, Serialize)]
pub(super) struct Answer<'a> {
    version: u32,
    uuid: &'a str,
    name: &'a str,
    chunk_bytes: u64,
    duplex: f64,
    out: Direction,
    #[serde(rename = "in")]
    into: Direction,
    sizes: Vec<OfSize>,
    swaps: usize,
    host_stalls: u64,
    /// Whether the daemon uses it at once; none where it was not told.
    used: Option<bool>,
}

#[derive(Debug, Serialize)]
struct Direction {
    base_us: f64,
    per_chunk_us: f64,
    bytes_per_second: u64,
    /// The part of the base by which the slowest swap is beyond the medians.
    slowest_us: f64,
}

/// What each chunk size costs.
#[derive(Debug, Serialize)]
struct OfSize {
    chunk_bytes: u64,
    out: Direction,
    #[serde(rename = "in")]
    into: Direction,
    calls: Calls,
}

impl OfSize {
    fn of(size: &Size) -> Self {
        Self {
            chunk_bytes: size.chunk.0,
            out: Direction::of(&size.out),
            into: Direction::of(&size.into),
            calls: size.calls,
        }
    }
}

impl Direction {
    fn of(way: &Way) -> Self {
        let micros = |nanos: u64| nanos as f64 / 1e3;
        Self {
            base_us: micros(way.cost.base.0),
            per_chunk_us: micros(way.cost.per_chunk.0),
            bytes_per_second: way.cost.bytes_per_second,
            slowest_us: micros(way.slowest.0),
        }
    }
}

impl<'a> Answer<'a> {
    pub(super) fn new(place: &'a Place, found: &Findings, used: Option<bool>) -> Self {
        Self {
            version: 1,
            uuid: &place.uuid,
            name: &place.name,
            chunk_bytes: found.chunk.0,
            duplex: share(found.duplex),
            out: Direction::of(&found.out),
            into: Direction::of(&found.into),
            sizes: found.sizes.iter().map(OfSize::of).collect(),
            swaps: found.swaps,
            host_stalls: found.stalls,
            used,
        }
    }
}

fn share(duplex: Ppm) -> f64 {
    f64::from(duplex.0) / f64::from(Ppm::ONE.0)
}

/// What a chunk takes by its size: in a swap, and each of the driver's calls.
fn by_size(sizes: &[Size]) -> String {
    let named = sizes.first().map(|size| size.calls.named());
    let calls = named.iter().flatten().map(|(call, _)| *call);
    let heads: Vec<_> = ["a chunk", "out", "in"].into_iter().chain(calls).collect();
    let rows = sizes.iter().map(|size| {
        let cost = size.typical();
        let swaps = [cost.out, cost.in_].map(|way| way.chunk_time(size.chunk));
        let calls = size.calls.named().map(|(_, us)| Nanos((us * 1e3) as u64));
        let times = swaps.into_iter().chain(calls);
        let times = times.map(|time| time.to_string());
        [size.chunk.to_string()].into_iter().chain(times).collect()
    });
    table(&heads, &[], &rows.collect::<Vec<_>>())
}

/// The same for people, with the next command to type.
pub(super) fn told(
    place: &Place,
    found: &Findings,
    used: Option<bool>,
    export: Option<&Path>,
) -> String {
    let name = [": ", &place.name].concat();
    let name = if place.name.is_empty() { "" } else { &name };
    let mut text = format!("GPU {}{name}, by {} swaps\n\n", place.index, found.swaps);
    text += &by_size(&found.sizes);
    let _ = writeln!(text, "\nchunks of {} are best:", found.chunk);
    for (what, way) in [("out", &found.out), ("in", &found.into)] {
        let DirectionCost {
            base,
            per_chunk,
            bytes_per_second,
        } = way.cost;
        let gib = bytes_per_second as f64 / f64::from(1 << 30);
        let _ = writeln!(
            text,
            "  {what:<4} {gib:.3} GiB/s, {per_chunk} a chunk, {base} a swap",
        );
        let _ = writeln!(text, "       ({} of that by the slowest one)", way.slowest);
    }
    let _ = writeln!(
        text,
        "  while the other copy engine works: {:.2} of that speed",
        share(found.duplex),
    );
    if found.stalls > 0 {
        let _ = writeln!(
            text,
            "  the host stood still {} times; swaps that it held up were measured again",
            found.stalls
        );
    }
    if let Some(export) = export {
        let _ = writeln!(text, "written to {}", export.display());
    }
    text += match used {
        Some(true) => "rtswapd uses this from now on\n",
        Some(false) => "rtswapd uses this once no task is on the GPU, or after its restart\n",
        None => "no rtswapd was told\n",
    };
    let next = match (used, export) {
        (None, Some(export)) => format!("rtswapctl plan --on {} TASKSET", export.display()),
        _ => "rtswapctl profile --name NAME -- COMMAND".to_owned(),
    };
    let _ = writeln!(text, "next: {next}");
    text
}

#[cfg(test)]
mod tests {
    use rtswap_policy::units::{Bytes, Nanos};

    use super::*;

    #[test]
    fn people_read_what_it_rests_on_and_what_comes_next() {
        let place = Place {
            index: 0,
            uuid: "GPU-a".into(),
            name: "H".into(),
            driver: "580".into(),
            memory: 8 << 30,
        };
        let way = Way {
            cost: DirectionCost {
                base: Nanos(450_000),
                per_chunk: Nanos(73_000),
                bytes_per_second: 12 << 30,
            },
            slowest: Nanos(210_000),
        };
        let size = |mib: u64| Size {
            chunk: Bytes(mib << 20),
            out: way,
            into: way,
            calls: Calls {
                create_us: 111.1,
                map_us: 2.5,
                access_us: 1234.5,
                unmap_us: 21.0,
                release_us: 36.0,
            },
        };
        let mut found = Findings {
            sizes: vec![size(2), size(256)],
            out: way,
            into: way,
            duplex: Ppm(930_000),
            chunk: Bytes(16 << 20),
            swaps: 196,
            stalls: 0,
        };
        let text = told(&place, &found, Some(true), None);
        let expected = "GPU 0: H, by 196 swaps\n\n  \
            a chunk        out         in    create      map    access    unmap  release\n  \
            2.0 MiB   235.8 µs   235.8 µs\n\
            chunks of 16.0 MiB are best:\n  \
            out  12.000 GiB/s, 73.0 µs a chunk, 450.0 µs a swap\n       (210.0 µs of that by the slowest one)\n";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.ends_with(
            "rtswapd uses this from now on\nnext: rtswapctl profile --name NAME -- COMMAND\n"
        ));
        found.stalls = 3;
        let text = told(&place, &found, None, Some(Path::new("a.toml")));
        assert!(text.contains("stood still 3 times") && text.contains("written to a.toml"));
        assert!(
            text.ends_with("next: rtswapctl plan --on a.toml TASKSET\n"),
            "{text}"
        );
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        let json = serde_json::to_value(Answer::new(&place, &found, None)).unwrap();
        assert_eq!(
            (&json["duplex"], &json["used"]),
            (&0.93.into(), &serde_json::Value::Null)
        );
    }
}
