//! Doorbells: SIGUSR1 (swap out) and SIGUSR2 (swap in) to the agent's swap thread, queued with the
//! session's cookie as the signal's value.
//!
//! A signal with any other value is the program's own. A value that the program queues equals the 64
//! random bits of the cookie with probability 2⁻⁶⁴, and such a collision costs only a wake-up.

/// The random number of a session, known to its two ends only.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Cookie(pub u64);

impl Cookie {
    /// Whether a signal with the code `si_code` and the 64-bit value `si_value` is a doorbell.
    /// Only queued signals (SI_QUEUE, −1) carry a value.
    pub fn rings(self, si_code: i32, si_value: u64) -> bool {
        const SI_QUEUE: i32 = -1;
        si_code == SI_QUEUE && si_value == self.0
    }
}

impl core::fmt::Debug for Cookie {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Cookie(..)")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_a_queued_cookie_rings() {
        let cookie = Cookie(0xfeed_beef_0123_4567);
        assert!(cookie.rings(-1, 0xfeed_beef_0123_4567));
        assert!(
            !cookie.rings(0, 0xfeed_beef_0123_4567),
            "kill(2) carries no value"
        );
        assert!(
            !cookie.rings(-6, 0xfeed_beef_0123_4567),
            "tgkill carries no value"
        );
        assert!(!cookie.rings(-1, 0x0123_4567), "half a cookie is none");
    }
}
