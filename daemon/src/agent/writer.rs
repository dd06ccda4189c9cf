//! The engine's orders → the daemon's fields of a control page, with the wake-ups and doorbells that
//! they need. Nothing else writes pages.

use rtswap_engine::groups::Order;
use rtswap_engine::input::Direction;
use rtswap_engine::output::{BlockSetup, Welcome};
use rtswap_policy::units::{Bytes, Time};
use rtswap_wire::page::{self, SwapRequest};

use super::bells::Bells;
use super::connection::Connection;
use crate::sys::page::{PageMap, wake};

/// The rings that are heard after an order even while the agent's owner is paused: an agent may ring for other
/// reasons before it answers.
const HEARINGS: u8 = 4;

/// Marks a fresh page as one of this run of the daemon, and describes the GPUs.
pub fn begin(page: &PageMap, epoch: u64, welcome: &Welcome) {
    page.init(epoch);
    for (block, setup) in page.devices().iter().zip(&welcome.blocks) {
        let BlockSetup {
            uuid,
            chunk,
            capacity,
            granted,
        } = *setup;
        let daemon = &block.daemon;
        daemon.describe(uuid.bytes(), chunk.0, capacity.0);
        daemon.answer_size(0, capacity.0);
        if let Some(job) = granted {
            daemon.grant(job.0);
        }
    }
}

impl Connection {
    /// Writes an order into a GPU's block at `now`, and rings where the agent must see it. For an order
    /// that sets the budget, returns the budget in effect, which may be more: see
    /// [`page::DaemonDevice::set_budget`].
    pub fn write(
        &mut self,
        gpu: usize,
        order: &Order,
        now: Time,
        bells: &mut Bells,
    ) -> Option<Bytes> {
        let (block, device) = self.device(gpu)?;
        let (bell, awaited) = (&mut device.bell, &mut device.awaited);
        let (daemon, agent) = (&block.daemon, &block.agent);
        let direction = match *order {
            Order::Grant { job } => {
                daemon.grant(job.0);
                wake(daemon.grant_word());
                bell.record_grant();
                return None;
            }
            Order::SetBudget { bytes, answers } => {
                let held = daemon.set_budget(agent, bytes.0);
                if let Some(answer) = answers {
                    daemon.answer_want(answer.want.0, answer.granted);
                    wake(daemon.budget_word());
                }
                return Some(Bytes(held));
            }
            // Only a swap-out is rung as such; any other order rings as a swap-in does.
            Order::Revoke { job } => {
                bell.record_revoke(job.0);
                awaited.await_end(job);
                daemon.revoke(job.0);
                page::Direction::In
            }
            Order::Swap {
                op,
                direction,
                target,
                credit,
            } => {
                let direction = match direction {
                    Direction::Out => page::Direction::Out,
                    Direction::In => page::Direction::In,
                };
                let swapped = agent.usage().swapped_bytes;
                bell.record_swap(op.0, swapped);
                awaited.await_swap(op, target, Bytes(swapped));
                let request = SwapRequest {
                    seq: op.0,
                    direction,
                    target_bytes: target.0,
                };
                daemon.request_swap(request, credit.0);
                direction
            }
            Order::SetCredit { credit, .. } => {
                bell.record_change(daemon.set_credit(agent, credit.0));
                page::Direction::In
            }
            Order::Abort { op } => {
                bell.record_change(daemon.abort_swap(agent, op.0));
                page::Direction::In
            }
            Order::SetBackingStore { bytes } => {
                daemon.set_volume(bytes.0);
                if let Some((seq, _)) = daemon.volume() {
                    awaited.await_store(seq);
                }
                page::Direction::In
            }
        };
        self.promise_hearings(HEARINGS);
        self.ring(gpu, direction, now, bells);
        None
    }

    /// Answers a question for a size in a GPU's block.
    pub fn answer_size(&mut self, gpu: usize, question: u32, bytes: Bytes) {
        if let Some((block, _)) = self.device(gpu) {
            block.daemon.answer_size(question, bytes.0.max(1));
            wake(block.daemon.size_word());
        }
    }

    /// Rings a GPU's doorbell again, if that was due at `at` and the agent has not followed it.
    pub fn ring_again(&mut self, gpu: usize, at: Time, now: Time, bells: &mut Bells) {
        let Some((block, device)) = self.device(gpu) else {
            return;
        };
        if let Some(direction) = device.bell.take_due(at, block) {
            self.ring(gpu, direction, now, bells);
        }
    }

    fn ring(&mut self, gpu: usize, direction: page::Direction, now: Time, bells: &mut Bells) {
        let Some((block, device)) = self.device(gpu) else {
            return;
        };
        let former = device.bell.record_ring(direction, now);
        block.daemon.ring();
        wake(block.daemon.bell_word());
        bells.schedule(now, former, self.id, gpu);
        let signal = match direction {
            page::Direction::Out => libc::SIGUSR1,
            page::Direction::In => libc::SIGUSR2,
        };
        self.signal(signal);
    }
}

#[cfg(test)]
mod tests {
    use rtswap_engine::input::{JobSeq, SwapSeq};
    use rtswap_engine::{ConnectionId, Cookie, RegistrationId, Uuid};

    use super::*;
    use crate::agent::connection::Blank;
    use crate::sys::peer::open_process;

    fn connection() -> Connection {
        let process = open_process(std::process::id()).unwrap();
        let (socket, _) = rustix::pipe::pipe().unwrap();
        let blank = Blank::new().unwrap();
        let block = BlockSetup {
            uuid: Uuid::of([1; 16]),
            chunk: Bytes(2 << 20),
            capacity: Bytes(1 << 30),
            granted: None,
        };
        let welcome = Welcome {
            connection: ConnectionId(1),
            former: None,
            registration: RegistrationId(1),
            cookie: Cookie(5),
            blocks: vec![block],
        };
        Connection::greeted(process, socket, 0, &welcome, blank)
    }

    #[test]
    fn a_grant_rings_no_bell() {
        let (mut connection, mut bells) = (connection(), Bells::default());
        let grant = Order::Grant { job: JobSeq(4) };
        assert_eq!(connection.write(0, &grant, Time(1), &mut bells), None);
        let (block, _) = connection.device(0).unwrap();
        assert_eq!(block.daemon.granted(), 4);
        assert_eq!(bells.next(), None);
        assert_eq!(
            connection.write(1, &grant, Time(1), &mut bells),
            None,
            "no such GPU"
        );
    }

    #[test]
    fn a_budget_is_answered_by_what_the_page_holds() {
        let (mut connection, mut bells) = (connection(), Bells::default());
        let order = |bytes| Order::SetBudget {
            bytes: Bytes(bytes),
            answers: None,
        };
        let mut write = |connection: &mut Connection, bytes| {
            connection.write(0, &order(bytes), Time(1), &mut bells)
        };
        assert_eq!(write(&mut connection, 100), Some(Bytes(100)));
        let (block, _) = connection.device(0).unwrap();
        block.agent.take(&block.daemon, 60).unwrap();
        assert_eq!(write(&mut connection, 10), Some(Bytes(60)));
    }

    #[test]
    fn a_swap_is_rung_until_it_is_heard() {
        let (mut connection, mut bells) = (connection(), Bells::default());
        let order = Order::Swap {
            op: SwapSeq(3),
            direction: Direction::Out,
            target: Bytes(8),
            credit: Bytes(8),
        };
        for now in [1, 2] {
            connection.write(0, &order, Time(now), &mut bells);
        }
        let again = bells.next();
        assert_eq!(again, Some(Time(20_000_002)), "no void wake-up");
        for heard in [false, true] {
            let now = bells.next().unwrap();
            let (at, id, gpu) = bells.pop(now).unwrap();
            assert_eq!((id, gpu), (ConnectionId(1), 0));
            if heard {
                connection.device(0).unwrap().0.agent.set_arena(8, 8);
            }
            connection.ring_again(gpu, at, now, &mut bells);
            assert_eq!(bells.next().is_none(), heard);
        }
        let (block, _) = connection.device(0).unwrap();
        let request = block.daemon.swap_request().unwrap();
        assert_eq!((request.seq, request.target_bytes), (3, 8));
    }
}
