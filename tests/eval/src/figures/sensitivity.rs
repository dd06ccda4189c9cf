//! What hangs on the readings that the paper leaves open.

use rtswap_policy::units::{Bytes, Nanos};

use super::approach::{Assumptions, ObjectUnit, PagedVolume};
use super::workload::Reading;
use crate::baselines::link::{PINNED, pinned_with_swap_in, scaled};

/// One thing assumed otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// What, in words.
    pub name: &'static str,
    /// All assumptions.
    pub assumptions: Assumptions,
}

const fn case(name: &'static str, assumptions: Assumptions) -> Case {
    Case { name, assumptions }
}

/// The assumptions as they are, and each changed alone.
pub fn cases() -> [Case; 9] {
    let usual = Assumptions::default();
    let decimal = Bytes(1_000_000_000);
    let read = |gigabyte, capacity| Assumptions {
        reading: Reading { gigabyte, capacity },
        ..usual
    };
    [
        case("as assumed", usual),
        case("GB = 10^9 everywhere", read(decimal, Bytes(24 * decimal.0))),
        case(
            "GB = 10^9, GPU 24 GiB",
            read(decimal, usual.reading.capacity),
        ),
        case(
            "pinned swapping 15 % slower",
            Assumptions {
                pinned: scaled(PINNED, 115),
                ..usual
            },
        ),
        // kvcached reports 193 us to create and 36 us to set access, per chunk of 2 MiB.
        case(
            "229 us per chunk in, same 28.3 ms",
            Assumptions {
                pinned: pinned_with_swap_in(Nanos(229_000)),
                ..usual
            },
        ),
        case(
            "no time per chunk in, same 28.3 ms",
            Assumptions {
                pinned: pinned_with_swap_in(Nanos::ZERO),
                ..usual
            },
        ),
        case(
            "MO-VMM swaps units of 2 MiB",
            Assumptions {
                object: ObjectUnit::Smallest,
                ..usual
            },
        ),
        // Fig. 8: 2172 ms at worst for a task that computes 63 ms and has 4.5 GB swappable,
        // 1.87 times what PINNED says of that in and out in chunks of 2 MiB.
        case(
            "Base pages 87 % slower",
            Assumptions {
                paging: scaled(PINNED, 187),
                ..usual
            },
        ),
        case(
            "Base counted by its mean volumes",
            Assumptions {
                paged: PagedVolume::Mean,
                ..usual
            },
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_changes_something_and_one_thing() {
        let cases = cases();
        let usual = cases[0].assumptions;
        assert_eq!(usual, Assumptions::default());
        for case in &cases[1..] {
            let other = case.assumptions;
            let changed = [
                other.reading != usual.reading,
                other.pinned != usual.pinned,
                other.pageable != usual.pageable,
                other.paging != usual.paging,
                other.object != usual.object,
                other.paged != usual.paged,
            ];
            assert_eq!(changed.iter().filter(|c| **c).count(), 1, "{}", case.name);
        }
    }

    #[test]
    fn the_speed_of_base_is_that_of_figure_8() {
        let page = Bytes(2 << 20);
        let moved = Bytes(4_608 << 20);
        let time = PINNED.in_.bound(moved, page) + PINNED.out.bound(moved, page);
        let seen = (2_172.0 - 63.0) * 1e6;
        assert!((seen / time.0 as f64 - 1.87).abs() < 0.01);
    }
}
