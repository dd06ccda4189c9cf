//! Pages under least-recently-used replacement, each touch in constant time.

/// No page.
const NONE: u32 = u32::MAX;

/// What a touch did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touch {
    /// The page was resident.
    Hit,
    /// It was brought in, to a free frame.
    Filled,
    /// It was brought in, and the least recently used page left for it.
    Replaced,
}

#[derive(Clone, Copy, Debug)]
struct Links {
    older: u32,
    newer: u32,
    resident: bool,
}

/// A fixed number of pages over a fixed number of frames.
#[derive(Clone, Debug)]
pub(super) struct Lru {
    pages: Vec<Links>,
    free: u32,
    oldest: u32,
    newest: u32,
}

impl Lru {
    /// `pages` of which none is resident, over `frames` > 0.
    pub(super) fn new(pages: u32, frames: u32) -> Self {
        let absent = Links {
            older: NONE,
            newer: NONE,
            resident: false,
        };
        Self {
            pages: vec![absent; pages as usize],
            free: frames,
            oldest: NONE,
            newest: NONE,
        }
    }

    /// Uses a page.
    pub(super) fn touch(&mut self, page: u32) -> Touch {
        let touch = if self.pages[page as usize].resident {
            self.unlink(page);
            Touch::Hit
        } else if self.free > 0 {
            self.free -= 1;
            Touch::Filled
        } else {
            let victim = self.oldest;
            self.unlink(victim);
            self.pages[victim as usize].resident = false;
            Touch::Replaced
        };
        let newest = self.newest;
        self.pages[page as usize] = Links {
            older: newest,
            newer: NONE,
            resident: true,
        };
        match newest {
            NONE => self.oldest = page,
            before => self.pages[before as usize].newer = page,
        }
        self.newest = page;
        touch
    }

    fn unlink(&mut self, page: u32) {
        let Links { older, newer, .. } = self.pages[page as usize];
        match older {
            NONE => self.oldest = newer,
            other => self.pages[other as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            other => self.pages[other as usize].older = older,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Touch::{Filled, Hit, Replaced};
    use super::*;

    #[test]
    fn the_least_recently_used_page_leaves() {
        let mut lru = Lru::new(5, 3);
        let touches: Vec<_> = [0, 1, 2, 0, 3, 1, 0, 4]
            .map(|page| lru.touch(page))
            .into_iter()
            .collect();
        // 0 is used again before 3 comes, so 1 leaves for 3, 2 for 1, and 3 for 4.
        let expected = [
            Filled, Filled, Filled, Hit, Replaced, Replaced, Hit, Replaced,
        ];
        assert_eq!(touches, expected);
        assert_eq!(lru.touch(3), Replaced);
        assert_eq!(lru.touch(0), Hit);
        assert_eq!(lru.touch(1), Replaced);
    }

    #[test]
    fn one_page_too_many_in_a_circle_misses_every_time() {
        let mut lru = Lru::new(4, 3);
        for round in 0..3 {
            for page in 0..4 {
                assert_ne!(lru.touch(page), Hit, "round {round}, page {page}");
            }
        }
        let mut fits = Lru::new(3, 3);
        (0..3).for_each(|page| assert_eq!(fits.touch(page), Filled));
        (0..3).for_each(|page| assert_eq!(fits.touch(page), Hit));
    }

    #[test]
    fn a_single_frame_serves_a_single_page() {
        let mut lru = Lru::new(2, 1);
        assert_eq!(lru.touch(0), Filled);
        assert_eq!(lru.touch(0), Hit);
        assert_eq!(lru.touch(1), Replaced);
        assert_eq!(lru.touch(0), Replaced);
    }
}
