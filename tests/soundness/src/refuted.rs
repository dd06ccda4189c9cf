//! The rules that are refuted: each looks plausible, and each lets an admitted set miss.

use rtswap_policy::admission::Test;

use crate::model::{Compute, Early, Mode, Opens, Rules, Transition};
use crate::search::{Goal, Kind};
use crate::verdict::{Admission, Bases, Demand, Leaving, Range, Terms};

/// One refuted rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refuted {
    /// Its name.
    pub name: &'static str,
    /// What it says.
    pub says: &'static str,
    /// How to attack it.
    pub goal: Goal,
}

const SWAPS: Kind = Kind {
    least: 1,
    ..Kind::PLAIN
};
const BASES: Kind = Kind {
    base: true,
    tasks: 3,
    ..SWAPS
};
const SHORT: Kind = Kind {
    swaps: false,
    constrained: true,
    tasks: 24,
    crowd: true,
    ..SWAPS
};

const fn rules(rules: Rules) -> Goal {
    Goal {
        rules,
        admission: Admission::Own(Demand::right(matches!(rules.mode, Mode::Pipelined))),
        kind: SWAPS,
    }
}

const STRICT: Rules = Rules {
    mode: Mode::Sequential,
    early: Early::Head,
    compute: Compute::RegionOrHead,
    regions: 1,
    opens: Opens::WhenAvailable,
    transition: Transition::TwoPhase,
};
const PIPELINED: Rules = Rules {
    mode: Mode::Pipelined,
    ..STRICT
};

const fn test(rules: Rules, kind: Kind, demand: Demand) -> Goal {
    Goal {
        rules,
        admission: Admission::Own(demand),
        kind,
    }
}

/// All of them.
pub const ALL: [Refuted; 17] = [
    Refuted {
        name: "literal",
        says: "rule 1 for swap-ins only, rule 2 only while the head is swapped, many regions",
        goal: rules(Rules {
            early: Early::EvictionsForAny,
            compute: Compute::UnlessHeadIsSwapped,
            regions: usize::MAX,
            ..STRICT
        }),
    },
    Refuted {
        name: "head-swapped",
        says: "rule 2 only while the head is swapped",
        goal: rules(Rules {
            compute: Compute::UnlessHeadIsSwapped,
            ..STRICT
        }),
    },
    Refuted {
        name: "work-conserving",
        says: "whoever has its memory may compute",
        goal: rules(Rules {
            compute: Compute::Anybody,
            ..STRICT
        }),
    },
    Refuted {
        name: "two-regions",
        says: "two regions may wait to execute",
        goal: rules(Rules {
            regions: 2,
            ..STRICT
        }),
    },
    Refuted {
        name: "region-without-memory",
        says: "a pipelined region opens before its chunks can leave",
        goal: rules(Rules {
            opens: Opens::AtOnce,
            ..PIPELINED
        }),
    },
    Refuted {
        name: "smaller-volume-at-once",
        says: "a smaller x holds from the next swap-in on",
        goal: Goal {
            kind: Kind {
                change: true,
                volumes_alone: true,
                ..SWAPS
            },
            ..rules(Rules {
                transition: Transition::AtOnce,
                ..STRICT
            })
        },
    },
    Refuted {
        name: "pipelined-region-alone",
        says: "pipelined blocking is the longest region, without C + C'",
        goal: test(
            PIPELINED,
            SWAPS,
            Demand {
                terms: Terms {
                    two_runs: false,
                    run_and_drain: true,
                },
                ..Demand::right(true)
            },
        ),
    },
    Refuted {
        name: "base-once",
        says: "the base of an eviction is charged once per job",
        goal: test(
            STRICT,
            BASES,
            Demand {
                bases: Bases::Once,
                ..Demand::right(false)
            },
        ),
    },
    Refuted {
        name: "base-per-victim-2",
        says: "two tasks: the base is charged min(n-1, k) times per job",
        goal: test(
            STRICT,
            Kind {
                least: 2,
                tasks: 2,
                ..BASES
            },
            Demand {
                bases: Bases::PerVictim,
                ..Demand::right(false)
            },
        ),
    },
    Refuted {
        name: "base-per-victim-3",
        says: "three tasks: the base is charged min(n-1, k) times per job",
        goal: test(
            STRICT,
            Kind { least: 3, ..BASES },
            Demand {
                bases: Bases::PerVictim,
                ..Demand::right(false)
            },
        ),
    },
    Refuted {
        name: "below-longest-period",
        says: "D < T: only deadlines below the longest period count",
        goal: test(
            STRICT,
            SHORT,
            Demand {
                range: Range::BelowLongestPeriod,
                ..Demand::right(false)
            },
        ),
    },
    Refuted {
        name: "below-longest-period-with-drain",
        says: "D = T beside best-effort: only deadlines below the longest period count",
        goal: test(
            STRICT,
            Kind {
                best_effort: true,
                swaps: false,
                least: 1,
                tasks: 1,
                ..SWAPS
            },
            Demand {
                range: Range::BelowLongestPeriod,
                ..Demand::right(false)
            },
        ),
    },
    Refuted {
        name: "drain-as-maximum",
        says: "best-effort's drain is another maximum in the blocking, without C + drain",
        goal: test(
            STRICT,
            Kind {
                best_effort: true,
                ..SWAPS
            },
            Demand {
                terms: Terms {
                    two_runs: true,
                    run_and_drain: false,
                },
                ..Demand::right(false)
            },
        ),
    },
    Refuted {
        name: "obedient-best-effort",
        says: "what obedient best-effort takes to leave is charged, where others wait longer for one that ignores it",
        goal: test(
            STRICT,
            Kind {
                best_effort: true,
                ..SWAPS
            },
            Demand {
                leaving: Leaving::Obedient,
                ..Demand::right(false)
            },
        ),
    },
    Refuted {
        name: "realtime-victims-alone",
        says: "beside best-effort the bases of evictions are charged as if only realtime left",
        goal: test(
            STRICT,
            Kind {
                best_effort: true,
                ..BASES
            },
            Demand {
                bases: Bases::RealtimeVictims,
                ..Demand::right(false)
            },
        ),
    },
    Refuted {
        name: "pipelined-realtime-victims-alone",
        says: "the same, pipelined: min(n-1, k) with n the realtime tasks",
        goal: test(
            PIPELINED,
            Kind {
                best_effort: true,
                ..BASES
            },
            Demand {
                bases: Bases::RealtimeVictims,
                ..Demand::right(true)
            },
        ),
    },
    Refuted {
        name: "departed-until-deadline",
        says: "who has departed counts until its last deadline",
        goal: Goal {
            kind: Kind {
                change: true,
                ..SWAPS
            },
            ..rules(Rules {
                transition: Transition::LastDeadline,
                ..STRICT
            })
        },
    },
];

/// What must never miss: the rules of the scheduler under each test of the product.
pub fn sound(test: Test, kind: Kind) -> Goal {
    let mode = match test {
        Test::Theorem1 | Test::Demand => Mode::Sequential,
        Test::Pipelined => Mode::Pipelined,
    };
    Goal {
        rules: Rules::strict(mode),
        admission: Admission::Sound(test),
        kind,
    }
}
