//! Moving chunks between the GPU and their slots. The copy of one chunk overlaps the unmapping or
//! mapping of its neighbour. Stops at any chunk; what is done is counted chunk by chunk.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rtswap_wire::page::{Direction, SwapOutcome};

use super::Memory;
use super::chunk::{ChunkId, Piece, Place};
use crate::cuda::{Access, Context, Event, Status};

/// How long a missing chunk of GPU memory is asked for again.
const CREATE_BOUND: Duration = Duration::from_millis(250);

/// What the one who asked says before each chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reins {
    /// Go on.
    Go,
    /// Stop here, for good.
    Abort,
    /// Stop here for now.
    Wait,
}

/// How far an operation came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Over.
    Over(Ended),
    /// Held by [`Reins::Wait`]; every chunk moved so far is settled.
    Held,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// For the daemon.
    pub outcome: SwapOutcome,
    /// The driver's code where it failed.
    pub fault: Status,
}

impl From<SwapOutcome> for Ended {
    fn from(outcome: SwapOutcome) -> Self {
        let fault = Status::SUCCESS;
        Self { outcome, fault }
    }
}

impl Ended {
    fn failed(fault: Status) -> Self {
        let outcome = SwapOutcome::Failed;
        Self { outcome, fault }
    }
}

/// A copy under way.
struct Flight {
    id: ChunkId,
    /// Nothing for a chunk whose slot holds its bytes already.
    done: Option<Event>,
}

impl Memory {
    /// Whether an operation to `target` bytes makes sense: whole chunks within the swap set.
    pub fn is_target(&self, target: u64) -> bool {
        target.is_multiple_of(self.chunk) && target <= self.backing_bytes()
    }

    /// Moves chunks until `target` bytes are in the backing store, the copies made in `context`,
    /// which is current. `reins` is told the swapped bytes that the next chunk would lead to;
    /// `moved` adds up the bytes copied.
    ///
    /// Swapping out: the gate is closed and drained.
    pub fn swap(
        &mut self,
        direction: Direction,
        target: u64,
        context: Context,
        moved: &mut u64,
        reins: &mut dyn FnMut(u64) -> Reins,
    ) -> Step {
        if let Err(fault) = self.prepare_engine(context) {
            return Step::Over(Ended::failed(fault));
        }
        match direction {
            Direction::Out => self.swap_out(target, moved, reins),
            Direction::In => self.swap_in(target, moved, reins),
        }
    }

    fn swap_out(
        &mut self,
        target: u64,
        moved: &mut u64,
        reins: &mut dyn FnMut(u64) -> Reins,
    ) -> Step {
        let mut flights = VecDeque::new();
        let mut over = None;
        let order: Vec<_> = self.set.taken().collect();
        for (slot, id) in order {
            if self.chunks[id].place != Place::Resident {
                continue;
            }
            let ahead = (self.swapped_chunks + flights.len() as u64 + 1) * self.chunk;
            if ahead > target {
                break;
            }
            match reins(ahead) {
                Reins::Go => {}
                Reins::Abort => {
                    over = Some(Step::Over(SwapOutcome::Aborted.into()));
                    break;
                }
                Reins::Wait => {
                    over = Some(Step::Held);
                    break;
                }
            }
            if flights.len() == 2
                && let Err(fault) = self.land_out(&mut flights, moved)
            {
                over = Some(Step::Over(Ended::failed(fault)));
                break;
            }
            if self.is_clean(id) {
                flights.push_back(Flight { id, done: None });
                continue;
            }
            self.overwrite_slot(id);
            let lent = self.lend_scratch(id, Access::READ, self.lane());
            match lent.and_then(|()| self.launch(Direction::Out, slot, id)) {
                Ok(flight) => flights.push_back(flight),
                Err(fault) => {
                    let fault = self.return_scratch(id).err().unwrap_or(fault);
                    over = Some(Step::Over(Ended::failed(fault)));
                    break;
                }
            }
        }
        while !flights.is_empty() {
            if let Err(fault) = self.land_out(&mut flights, moved) {
                over = Some(Step::Over(Ended::failed(fault)));
            }
        }
        over.unwrap_or(Step::Over(SwapOutcome::Done.into()))
    }

    /// Waits for the oldest copy out, and only then lets the GPU's copy go.
    fn land_out(&mut self, flights: &mut VecDeque<Flight>, moved: &mut u64) -> Result<(), Status> {
        let Some(flight) = flights.pop_front() else {
            return Ok(());
        };
        if let Some(done) = flight.done {
            let landed = self.driver.wait_event(done);
            landed.and(self.return_scratch(flight.id))?;
            self.copied_out(flight.id);
            *moved += self.chunks[flight.id].bytes();
        }
        self.unmap_chunk(flight.id)?;
        self.chunks[flight.id].place = Place::Swapped;
        self.swapped_chunks += 1;
        // What cannot be freed stays counted: it is still there.
        let released = self.release(flight.id);
        if released.is_ok() {
            self.give_back(self.chunk);
        }
        self.publish();
        self.view.session.tell();
        released
    }

    fn swap_in(
        &mut self,
        target: u64,
        moved: &mut u64,
        reins: &mut dyn FnMut(u64) -> Reins,
    ) -> Step {
        let mut flights = VecDeque::new();
        let mut over = None;
        let order: Vec<_> = self.set.taken().collect();
        for (slot, id) in order.into_iter().rev() {
            if self.chunks[id].place != Place::Swapped {
                continue;
            }
            let left = (self.swapped_chunks - flights.len() as u64) * self.chunk;
            if left <= target {
                break;
            }
            let mut word = reins(left - self.chunk);
            // Who sees one of these land takes it that every word until then was heard.
            if word == Reins::Wait && !flights.is_empty() {
                if let Err(fault) = self.land_all_in(&mut flights, moved) {
                    over = Some(Step::Over(Ended::failed(fault)));
                    break;
                }
                word = reins(left - self.chunk);
            }
            match word {
                Reins::Go => {}
                Reins::Abort => {
                    over = Some(Step::Over(SwapOutcome::Aborted.into()));
                    break;
                }
                Reins::Wait => {
                    over = Some(Step::Held);
                    break;
                }
            }
            if flights.len() == 2
                && let Err(fault) = self.land_in(&mut flights, moved)
            {
                over = Some(Step::Over(Ended::failed(fault)));
                break;
            }
            let flight = self.bring(id).and_then(|()| {
                self.launch(Direction::In, slot, id).map_err(|fault| {
                    self.take_down(id);
                    Ended::failed(fault)
                })
            });
            match flight {
                Ok(flight) => flights.push_back(flight),
                Err(ended) => {
                    over = Some(Step::Over(ended));
                    break;
                }
            }
        }
        if let Err(fault) = self.land_all_in(&mut flights, moved) {
            over = Some(Step::Over(Ended::failed(fault)));
        }
        over.unwrap_or(Step::Over(SwapOutcome::Done.into()))
    }

    /// Waits for all copies in; of their failures it tells the last.
    fn land_all_in(
        &mut self,
        flights: &mut VecDeque<Flight>,
        moved: &mut u64,
    ) -> Result<(), Status> {
        let mut landed = Ok(());
        while !flights.is_empty() {
            if let Err(fault) = self.land_in(flights, moved) {
                landed = Err(fault);
            }
        }
        landed
    }

    /// Waits for the oldest copy in: only then the chunk is resident. A chunk whose copy failed
    /// stays in its slot.
    fn land_in(&mut self, flights: &mut VecDeque<Flight>, moved: &mut u64) -> Result<(), Status> {
        let Some(flight) = flights.pop_front() else {
            return Ok(());
        };
        if let Some(Err(fault)) = flight.done.map(|done| self.driver.wait_event(done)) {
            self.take_down(flight.id);
            return Err(fault);
        }
        self.copied_in(flight.id);
        self.chunks[flight.id].place = Place::Resident;
        self.swapped_chunks -= 1;
        *moved += self.chunks[flight.id].bytes();
        self.publish();
        self.view.session.tell();
        self.return_scratch(flight.id)
    }

    /// Budget, memory and mapping for a chunk that comes back.
    fn bring(&mut self, id: ChunkId) -> Result<(), Ended> {
        self.take(self.chunk)
            .map_err(|_| Ended::failed(Status::OUT_OF_MEMORY))?;
        let lent = self.lend_scratch(id, Access::READ_WRITE, self.lane());
        let start = Instant::now();
        loop {
            match lent.and_then(|()| self.raise(id)) {
                Ok(()) => return Ok(()),
                Err(Status::OUT_OF_MEMORY) if start.elapsed() < CREATE_BOUND => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(fault) => {
                    let fault = self.return_scratch(id).err().unwrap_or(fault);
                    self.give_back(self.chunk);
                    let outcome = if fault == Status::OUT_OF_MEMORY {
                        SwapOutcome::OutOfMemory
                    } else {
                        SwapOutcome::Failed
                    };
                    return Err(Ended { outcome, fault });
                }
            }
        }
    }

    fn take_down(&mut self, id: ChunkId) {
        // What cannot be unmapped stays counted: it is still there.
        let lowered = self.lower(id);
        if lowered.and(self.return_scratch(id)).is_ok() {
            self.give_back(self.chunk);
        }
    }

    /// Which scratch addresses the next copy may use.
    fn lane(&self) -> u64 {
        self.engine.map_or(0, |engine| engine.turn as u64)
    }

    fn launch(&mut self, direction: Direction, slot: usize, id: ChunkId) -> Result<Flight, Status> {
        let engine = self
            .engine
            .as_mut()
            .expect("prepared before the first chunk");
        let (driver, stream) = (self.driver, engine.stream);
        let rights = match direction {
            Direction::Out => Access::READ,
            Direction::In => Access::READ_WRITE,
        };
        let reachable = |piece: &Piece| piece.reachable(self.device, rights);
        let mut runs = self.chunks[id].copied(reachable).into_iter();
        let launched = runs.try_for_each(|run| {
            let host = self.backing.slot(slot, self.chunk) + run.tag as usize;
            // SAFETY: the run lies in the slot, which is δ bytes of the backing store, belongs to
            // this chunk alone, and stays until the backing store is dropped, which no operation
            // outlives.
            unsafe {
                match direction {
                    Direction::Out => driver.copy_out(host, run.at, run.bytes, stream),
                    Direction::In => driver.copy_in(run.at, host, run.bytes, stream),
                }
            }
        });
        let done = engine.events[engine.turn];
        engine.turn ^= 1;
        if let Err(status) = driver.record(done, stream) {
            // Nothing else tells when the copies are over, and the chunk is about to be unmapped.
            let _ = driver.synchronize();
            return Err(status);
        }
        if launched.is_err() {
            // Some of the chunk may be under way, and is about to be unmapped.
            driver.wait_event(done)?;
        }
        launched.map(|()| Flight {
            id,
            done: Some(done),
        })
    }

    pub(super) fn prepare_engine(&mut self, context: Context) -> Result<(), Status> {
        if self.engine.is_some_and(|engine| engine.context == context) {
            return Ok(());
        }
        let driver = self.driver;
        let stream = driver.create_stream()?;
        let events = driver.create_event().and_then(|first| {
            let second = driver.create_event();
            if second.is_err() {
                let _ = driver.destroy_event(first);
            }
            Ok([first, second?])
        });
        let events = events.inspect_err(|_| {
            let _ = driver.destroy_stream(stream);
        })?;
        self.engine = Some(super::Engine {
            context,
            stream,
            events,
            turn: 0,
        });
        Ok(())
    }
}
