//! The thread's life: wait, take what came in its order, look at the clock.

use rtswap_policy::units::Time;

use super::Dispatcher;
use super::token::Token;
use crate::sys::clock::now;

impl Dispatcher {
    /// Runs until told to stop, or until it cannot wait any more.
    pub(super) fn run(mut self) -> Result<(), rustix::io::Errno> {
        let mut ready = Vec::new();
        let mut tokens = Vec::new();
        loop {
            let until = self.next_wake();
            self.poll.wait(until, &mut ready)?;
            let now = now();
            tokens.clear();
            tokens.extend(ready.iter().filter_map(|token| Token::parse(*token)));
            // What died cannot have asked, and an agent waits for its grant: the order is Token's.
            tokens.sort_unstable();
            for token in &tokens {
                if !self.take(*token, now)? {
                    self.keeper.checkpoint(self.engine.saved());
                    return Ok(());
                }
            }
            self.look_at_clock(now);
        }
    }

    /// Takes what came. False if it is time to stop.
    fn take(&mut self, token: Token, now: Time) -> Result<bool, rustix::io::Errno> {
        match token {
            Token::Processes => self.take_deaths(now)?,
            Token::Lease(call) => self.lease_ended(call, now),
            Token::Bell(connection) => self.bell_rang(connection, now),
            Token::Socket(connection) => self.socket_ready(connection, now)?,
            Token::Listener => self.accept(now),
            Token::Wake => return Ok(self.take_messages(now)),
            Token::Timer => {}
        }
        Ok(true)
    }

    fn look_at_clock(&mut self, now: Time) {
        if self.engine.poll_timeout().is_some_and(|at| at <= now) {
            self.timer_rang(now);
        }
        self.agents.ring_again(now);
        for connection in self.agents.next_slice(now) {
            self.read_blocks(connection, now);
        }
        self.agents.listener.expire(now);
        let due = self.publisher.due(&mut self.engine);
        if due.is_some_and(|at| at <= now) {
            self.publisher.publish(&mut self.engine, now);
        }
    }

    /// When to look at the clock again.
    fn next_wake(&mut self) -> Option<Time> {
        let all = [
            self.engine.poll_timeout(),
            self.agents.next_timeout(),
            self.publisher.due(&mut self.engine),
        ];
        all.into_iter().flatten().min()
    }
}
