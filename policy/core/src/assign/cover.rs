//! The cheapest volumes in a box, charges for swapping at all included: branch and bound over
//! which tasks swap, the best bound first. Without charges the first
//! relaxation is the answer.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cell::Cell;
use core::cmp::{Ordering, Reverse};

use super::price::Price;
use super::problem::Problem;

/// Relaxations solved times tasks, in one assignment, before the best that was found is given with
/// its bound.
const MOST_WORK: u64 = 1 << 15;

/// What may still be spent on proofs, and from where on more is of no use.
pub(super) struct Effort {
    left: Cell<u64>,
    /// Nothing that costs more can pass.
    pub(super) limit: u128,
}

impl Effort {
    pub(super) fn new(limit: u128) -> Self {
        Self {
            left: Cell::new(MOST_WORK),
            limit,
        }
    }

    fn spend(&self, work: u64) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(work));
        left >= work
    }
}

/// The best that was found.
pub(super) struct Found {
    pub(super) volumes: Vec<u64>,
    /// Nothing costs less. It is the price of `volumes` where the search came to its end.
    pub(super) bound: u128,
}

/// Whether a task pays its charge.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Open,
    Pays,
    StaysIn,
}

struct Node {
    fates: Vec<Fate>,
    relaxed: Relaxed,
}

/// With the charge of an open task spread over all chunks that it may give.
struct Relaxed {
    bound: u128,
    volumes: Vec<u64>,
    caps: Vec<u64>,
}

/// The cheapest volumes within `caps` with M in `range`, which the box must hold for some M; or
/// any that are `enough`.
pub(super) fn cheapest(
    problem: &Problem<'_>,
    price: &Price,
    caps: &[u64],
    range: (u64, u64),
    effort: &Effort,
    enough: impl Fn(&[u64]) -> bool,
) -> Option<Found> {
    let fates = alloc::vec![Fate::Open; caps.len()];
    let relaxed = relax(problem, price, caps, range, &fates)?;
    let mut best = (price.of(&relaxed.volumes), relaxed.volumes.clone());
    let mut bound = relaxed.bound;
    if bound >= best.0 || enough(&best.1) {
        let volumes = best.1;
        return Some(Found { volumes, bound });
    }
    let mut open = BinaryHeap::from([Reverse(Node { fates, relaxed })]);
    while let Some(Reverse(node)) = open.pop() {
        bound = node.relaxed.bound.min(best.0);
        let open_ended = bound < best.0 && bound <= effort.limit;
        if !open_ended || !effort.spend(2 * caps.len() as u64) {
            let volumes = best.1;
            return Some(Found { volumes, bound });
        }
        for fates in branches(price, &node) {
            let Some(relaxed) = relax(problem, price, caps, range, &fates) else {
                continue;
            };
            let cost = price.of(&relaxed.volumes);
            if cost < best.0 {
                best = (cost, relaxed.volumes.clone());
                if enough(&best.1) {
                    let volumes = best.1;
                    return Some(Found { volumes, bound });
                }
            }
            if relaxed.bound < best.0 {
                open.push(Reverse(Node { fates, relaxed }));
            }
        }
    }
    let (bound, volumes) = best;
    Some(Found { volumes, bound })
}

/// Splits where the relaxation spares most of a charge.
fn branches(price: &Price, node: &Node) -> Vec<Vec<Fate>> {
    let Relaxed { volumes, caps, .. } = &node.relaxed;
    let spared = |&place: &usize| {
        let (given, cap) = (volumes[place], caps[place]);
        price.charges[place] / u128::from(cap.max(1)) * u128::from(cap - given)
    };
    let Some(place) = (0..volumes.len())
        .filter(|&place| node.fates[place] == Fate::Open && volumes[place] > 0)
        .max_by_key(spared)
        .filter(|place| spared(place) > 0)
    else {
        return Vec::new();
    };
    let with = |fate| {
        let mut fates = node.fates.clone();
        fates[place] = fate;
        fates
    };
    alloc::vec![with(Fate::Pays), with(Fate::StaysIn)]
}

fn relax(
    problem: &Problem<'_>,
    price: &Price,
    caps: &[u64],
    range: (u64, u64),
    fates: &[Fate],
) -> Option<Relaxed> {
    let cap = |(&cap, fate): (&u64, &Fate)| match fate {
        Fate::StaysIn => 0,
        _ => cap.min(range.1),
    };
    let caps: Vec<u64> = caps.iter().zip(fates).map(cap).collect();
    let (least, most) = problem.range(&caps)?;
    let range = (least.max(range.0), most.min(range.1));
    if range.0 > range.1 {
        return None;
    }
    let mut paid = 0_u128;
    let mut rates = price.rates.clone();
    for (place, rate) in rates.iter_mut().enumerate() {
        match fates[place] {
            Fate::Open if caps[place] > 0 => {
                *rate = rate.saturating_add(price.charges[place] / u128::from(caps[place]));
            }
            Fate::Pays => paid = paid.saturating_add(price.charges[place]),
            _ => {}
        }
    }
    let spread = Price::new(rates, Vec::new());
    let most = spread.best_most(problem, &caps, range);
    Some(Relaxed {
        bound: paid.saturating_add(spread.moving(problem, &caps, most)),
        volumes: spread.fill(problem, &caps, most),
        caps,
    })
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Node {}

impl PartialOrd for Node {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Node {
    fn cmp(&self, other: &Self) -> Ordering {
        self.relaxed.bound.cmp(&other.relaxed.bound)
    }
}
