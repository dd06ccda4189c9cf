//! The names of descriptors in the epoll set.

use rtswap_engine::{CallId, ConnectionId};

use crate::sys::poll::{PROCESSES, TIMER};

/// What a descriptor is. In one wake-up the kinds are taken in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Token {
    /// The nested epoll set of pidfds: at least one process has ended.
    Processes,
    /// The lease of the task that a call registered.
    Lease(CallId),
    /// The eventfd of an agent.
    Bell(ConnectionId),
    /// The socket of an agent's connection, with a session or without.
    Socket(ConnectionId),
    /// The listening socket.
    Listener,
    /// The eventfd of [`super::Handle`].
    Wake,
    /// The timerfd that wakes the thread when the engine or the shell is due.
    Timer,
}

const NUMBER_BITS: u32 = 56;

impl From<Token> for u64 {
    fn from(token: Token) -> Self {
        let (kind, number) = match token {
            Token::Processes => return PROCESSES,
            Token::Timer => return TIMER,
            Token::Lease(CallId(number)) => (0, number),
            Token::Bell(ConnectionId(number)) => (1, number),
            Token::Socket(ConnectionId(number)) => (2, number),
            Token::Listener => (3, 0),
            Token::Wake => (4, 0),
        };
        kind << NUMBER_BITS | number
    }
}

impl Token {
    pub(super) fn parse(token: u64) -> Option<Self> {
        let number = token & ((1 << NUMBER_BITS) - 1);
        Some(match (token, token >> NUMBER_BITS) {
            (PROCESSES, _) => Self::Processes,
            (TIMER, _) => Self::Timer,
            (_, 0) => Self::Lease(CallId(number)),
            (_, 1) => Self::Bell(ConnectionId(number)),
            (_, 2) => Self::Socket(ConnectionId(number)),
            (_, 3) => Self::Listener,
            (_, 4) => Self::Wake,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_in_the_order_in_which_they_are_taken() {
        let most = (1 << NUMBER_BITS) - 1;
        let all = [
            Token::Processes,
            Token::Lease(CallId(most)),
            Token::Bell(ConnectionId(2)),
            Token::Socket(ConnectionId(1)),
            Token::Listener,
            Token::Wake,
            Token::Timer,
        ];
        assert!(all.is_sorted());
        for token in all {
            assert_eq!(Token::parse(token.into()), Some(token));
        }
        assert_eq!(Token::parse(9 << NUMBER_BITS), None);
    }
}
