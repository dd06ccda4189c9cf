//! What is told of a calibration: for people, and as JSON.

use std::fmt::Write as _;
use std::path::Path;

use rtswap_policy::cost::DirectionCost;
use rtswap_policy::units::{Nanos, Ppm};
use serde::Serialize;

use super::calls::Calls;
use super::holder::AGAIN;
use super::model::Way;
use super::{Findings, Size, Taken};
use crate::table::{Widths, bytes, lines};
use crate::trial::place::Place;

/// The columns of the table.
const WIDTH: Option<usize> = Some(80);

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
    stalled_swaps: usize,
    /// Whether the daemon uses it at once; none where it did not take it.
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
    pub(super) fn new(place: &'a Place, found: &Findings, taken: &Taken) -> Self {
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
            stalled_swaps: found.stalled,
            used: match taken {
                Taken::Now => Some(true),
                Taken::Later => Some(false),
                Taken::Refused(_) | Taken::Untold => None,
            },
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
        [bytes(size.chunk.0)].into_iter().chain(times).collect()
    });
    let widths = Widths {
        most: WIDTH,
        // map, release, unmap, create, access: what they take is in out and in, too.
        first_to_go: &[4, 7, 6, 3, 5],
    };
    lines(&heads, &[], &rows.collect::<Vec<_>>(), widths).concat()
}

/// The same for people, with the next command to type.
pub(super) fn told(
    place: &Place,
    found: &Findings,
    taken: &Taken,
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
    if found.stalled > 0 {
        let _ = writeln!(
            text,
            "  swaps that it held up in all {} tries, which count as measured: {}",
            AGAIN + 1,
            found.stalled
        );
    }
    if let Some(export) = export {
        let _ = writeln!(text, "written to {}", export.display());
    }
    text += match taken {
        Taken::Now => "rtswapd uses this from now on\n",
        // Chunks of sessions on any GPU outlive the daemon: its restart does not help.
        Taken::Later => "rtswapd uses this once no program has a session, and this GPU no task\n",
        Taken::Refused(_) => "rtswapd did not take this\n",
        Taken::Untold => "no rtswapd was told\n",
    };
    let next = match (taken, export) {
        (Taken::Now | Taken::Later, _) => "rtswapctl profile --name NAME -- COMMAND".to_owned(),
        (_, Some(export)) => format!("rtswapctl plan --on {} TASKSET", export.display()),
        // The failure that follows says what to do.
        (_, None) => return text,
    };
    let _ = writeln!(text, "next: {next}");
    text
}

#[cfg(test)]
mod tests {
    use rtswap_policy::units::{Bytes, Nanos};

    use super::*;
    use crate::color::render;
    use crate::failure::Failure;

    fn place() -> Place {
        Place {
            index: 0,
            uuid: "GPU-a".into(),
            name: "H".into(),
            driver: "580".into(),
            memory: 8 << 30,
        }
    }

    /// By two chunk sizes, on a link of so many bytes a second.
    fn found(bytes_per_second: u64) -> Findings {
        let way = Way {
            cost: DirectionCost {
                base: Nanos(450_000),
                per_chunk: Nanos(73_000),
                bytes_per_second,
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
        Findings {
            sizes: vec![size(2), size(256)],
            out: way,
            into: way,
            duplex: Ppm(930_000),
            chunk: Bytes(16 << 20),
            swaps: 196,
            stalls: 0,
            stalled: 0,
        }
    }

    fn shown(found: &Findings, taken: &Taken, export: Option<&str>) -> String {
        let text = render(&told(&place(), found, taken, export.map(Path::new)), false);
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        text
    }

    #[test]
    fn people_read_what_it_rests_on_and_what_comes_next() {
        let mut found = found(12 << 30);
        let text = shown(&found, &Taken::Now, None);
        let expected = "GPU 0: H, by 196 swaps\n\n\
            a chunk        out         in    create      map    access    unmap  release\n  \
            2 MiB   235.8 µs   235.8 µs  111.1 µs  2500 ns  1.234 ms  21.0 µs  36.0 µs\n\
            256 MiB  20.906 ms  20.906 ms  111.1 µs  2500 ns  1.234 ms  21.0 µs  36.0 µs\n\n\
            chunks of 16.0 MiB are best:\n  \
            out  12.000 GiB/s, 73.0 µs a chunk, 450.0 µs a swap\n       (210.0 µs of that by the slowest one)\n";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.ends_with(
            "rtswapd uses this from now on\nnext: rtswapctl profile --name NAME -- COMMAND\n"
        ));
        (found.stalls, found.stalled) = (3, 0);
        let text = shown(&found, &Taken::Untold, Some("a.toml"));
        assert!(text.contains("stood still 3 times") && text.contains("written to a.toml"));
        assert!(!text.contains("count as measured"), "{text}");
        assert!(
            text.ends_with("next: rtswapctl plan --on a.toml TASKSET\n"),
            "{text}"
        );
        found.stalled = 2;
        let text = shown(&found, &Taken::Later, None);
        assert!(
            text.contains("  swaps that it held up in all 11 tries, which count as measured: 2\n"),
            "{text}"
        );
        assert!(
            text.contains("once no program has a session, and this GPU no task\n"),
            "{text}"
        );
        let json = serde_json::to_value(Answer::new(&place(), &found, &Taken::Later)).unwrap();
        assert_eq!(json["duplex"], 0.93);
        assert_eq!(
            (&json["used"], &json["stalled_swaps"]),
            (&false.into(), &2.into())
        );
    }

    #[test]
    fn what_the_daemon_did_not_take_is_told_as_such() {
        let (found, refused) = (found(12 << 30), Taken::Refused(Failure::NoHome));
        let text = shown(&found, &refused, None);
        assert!(text.contains("chunks of 16.0 MiB are best"), "{text}");
        assert!(text.ends_with("\nrtswapd did not take this\n"), "{text}");
        let text = shown(&found, &refused, Some("a.toml"));
        assert!(text.ends_with("next: rtswapctl plan --on a.toml TASKSET\n"));
        let json = serde_json::to_value(Answer::new(&place(), &found, &refused)).unwrap();
        assert!(json["used"].is_null() && json["chunk_bytes"] == 16 << 20);
    }

    #[test]
    fn a_slow_link_makes_the_table_no_wider() {
        let text = shown(&found(20 << 20), &Taken::Now, None);
        let heads = "a chunk           out            in    create    access    unmap  release\n";
        assert!(text.contains(heads), "{text}");
    }
}
