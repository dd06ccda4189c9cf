//! What the daemon itself knows of a managed process.

use rtswap_policy::units::Bytes;

/// What the daemon knows of a managed process on one GPU when a sample arrives: the sample is
/// compared with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The bytes that the agent reports; none once the process is dead.
    pub agent: Option<Bytes>,
    /// The bytes that the scheduler counts for the process: its budget, or its dying memory.
    pub held: Bytes,
}

impl Claim {
    /// Adds the claim of another process or session with the same pid: the driver shows both as one
    /// process.
    pub fn add(&mut self, other: Self) {
        self.held += other.held;
        self.agent = match (self.agent, other.agent) {
            (Some(one), Some(another)) => Some(one + another),
            (one, another) => one.or(another),
        };
    }
}

/// `bytes`, or zero where a difference of so much may be noise.
pub(super) fn beyond_noise(bytes: Bytes, tolerance: Bytes) -> Bytes {
    if bytes > tolerance {
        bytes
    } else {
        Bytes::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_of_one_pid_add_up() {
        let claim = |agent: Option<u64>, held| Claim {
            agent: agent.map(Bytes),
            held: Bytes(held),
        };
        let mut all = claim(None, 8);
        all.add(claim(Some(3), 4));
        all.add(claim(Some(1), 2));
        assert_eq!(all, claim(Some(4), 14), "a dead process has no agent");
    }
}
