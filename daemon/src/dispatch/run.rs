//! The thread's loop: wait, take the events of one wake-up in their order, do what is due.

use rtswap_engine::input::Input;
use rtswap_policy::units::Time;

use super::Dispatcher;
use super::token::Token;
use crate::sys::clock::now;

/// Hellos that are taken before others have their turn. Those that are left wake the thread again.
const HELLOS_AT_ONCE: u32 = 4;

impl Dispatcher {
    /// Runs until told to stop, or until it cannot wait any more.
    pub(super) fn run(mut self) -> Result<(), rustix::io::Errno> {
        let mut ready = Vec::new();
        let mut tokens = Vec::new();
        loop {
            let until = self.next_wake();
            self.poll.wait(until, &mut ready)?;
            let now = now();
            // Before anything at this time is handed in: that judges the bounds that are over.
            self.read_answers(now);
            tokens.clear();
            tokens.extend(ready.iter().filter_map(|token| Token::parse(*token)));
            // In Token's order: deaths first, since a dead process asks for nothing, then agents, which
            // wait for their grants.
            tokens.sort_unstable();
            self.agents.hellos_left = HELLOS_AT_ONCE;
            for token in &tokens {
                if !self.take(*token, now)? {
                    self.keeper.checkpoint(self.engine.saved());
                    return Ok(());
                }
            }
            self.accept_again(now)?;
            self.resume_bells(now);
            self.run_due(now);
        }
    }

    /// Takes one event. False if it is time to stop.
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

    /// Does everything that is due at `now`.
    pub(super) fn run_due(&mut self, now: Time) {
        // The pages first: what the engine doubts may have been put right.
        for connection in self.agents.next_slice(now) {
            self.read_charged(connection, now);
        }
        if self.engine.poll_timeout().is_some_and(|at| at <= now) {
            self.handle(Input::Timer, now);
        }
        self.inspect(now);
        self.agents.ring_again(now);
        self.agents.prepare_blank();
        self.agents.listener.expire(now);
        let due = self.publisher.due(&mut self.engine);
        if due.is_some_and(|at| at <= now) {
            self.publisher.publish(&mut self.engine, now);
        }
    }

    /// The next time at which something is due.
    fn next_wake(&mut self) -> Option<Time> {
        let all = [
            self.engine.poll_timeout(),
            self.agents.next_timeout(),
            self.publisher.due(&mut self.engine),
        ];
        all.into_iter().flatten().min()
    }
}
