//! The subordinate user ids of /etc/subuid, for the programs: a user with such ids is still one owner of entries.

use std::fs;

use aya::Ebpf;
use aya::maps::Array;
use rtswap_probe_abi::maps::{MOST_SUBORDINATES, SUBORDINATES};
use rtswap_probe_abi::records::Subordinates;

use super::problem::Problem;

/// The ranges of this machine. Without the file there are none, and each user id is an owner.
pub(super) fn read() -> Vec<Subordinates> {
    parse(&fs::read_to_string("/etc/subuid").unwrap_or_default())
}

/// Puts the ranges into the programs' map.
pub(super) fn put(ebpf: &mut Ebpf, ranges: &[Subordinates]) -> Result<(), Problem> {
    let map = ebpf
        .map_mut(SUBORDINATES)
        .ok_or(Problem::Object { what: SUBORDINATES })?;
    let mut map: Array<_, Subordinates> = Array::try_from(map)?;
    for (index, range) in (0..).zip(ranges) {
        map.set(index, range, 0)?;
    }
    Ok(())
}

/// Lines of `USER:FIRST:COUNT` (subuid(5)) → ranges by ascending ids, apart from each other: what overlaps becomes
/// one.
fn parse(text: &str) -> Vec<Subordinates> {
    let line = |line: &str| {
        let mut fields = line.trim().split(':').skip(1);
        let first: u32 = fields.next()?.parse().ok()?;
        let count: u32 = fields.next()?.parse().ok()?;
        let last = first.saturating_add(count.checked_sub(1)?);
        Some(Subordinates { first, last })
    };
    let mut all: Vec<_> = text.lines().filter_map(line).collect();
    all.sort_unstable();
    let mut apart: Vec<Subordinates> = Vec::new();
    for range in all {
        match apart.last_mut() {
            Some(before) if range.first <= before.last => before.last = before.last.max(range.last),
            _ => apart.push(range),
        }
    }
    apart.truncate(MOST_SUBORDINATES as usize);
    apart
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_apart_and_in_order() {
        let text = "b:165536:65536\n# none\na:100000:65536\nc:170000:10\n\nd:x:1\ne:5:0\n\
                    f:4294967295:2\n";
        let range = |first, last| Subordinates { first, last };
        let expected = [
            range(100_000, 165_535),
            range(165_536, 231_071),
            range(u32::MAX, u32::MAX),
        ];
        assert_eq!(parse(text), expected);
    }
}
