//! What the page of one GPU asks of the agent: volumes, revocations, swap operations. Page fields
//! are hostile: each is loaded once and checked.
//!
//! The daemon publishes a credit with each swap-in: the number of swapped bytes at which the agent
//! pauses until its budget grows. A pause at the credit is not a failure. A lack of budget within the
//! credit is one, because a thread of the program has taken what was meant for the swap-in; the daemon
//! then tries again without pipelining. While an operation pauses, the swap thread serves its other
//! GPUs: otherwise two processes on two GPUs could wait for each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rtswap_wire::page::{Direction, SwapOutcome, SwapReport, SwapRequest};

use super::detached::spawn_detached;
use crate::agent::{Agent, exit};
use crate::cuda::Status;
use crate::device::Device;
use crate::driver::Driver;
use crate::gate;
use crate::log::debug;
use crate::memory::{Backing, Ended, Reins, Step};
use crate::session::View;
use crate::work::in_context;

/// What was dealt with already, for one GPU and one session.
#[derive(Debug, Default)]
pub struct Requests {
    swap: u32,
    open: Option<Operation>,
    volume: u32,
    pinning: Arc<AtomicBool>,
}

/// A swap operation that is not over: what is left of it waits for credit.
#[derive(Debug)]
struct Operation {
    request: SwapRequest,
    since: Instant,
    moved_bytes: u64,
}

impl Requests {
    /// Another session's page starts anew.
    pub fn reset(&mut self) {
        self.swap = 0;
        self.open = None;
        self.volume = 0;
    }

    /// Reads the page of `device` and does what it asks.
    pub fn serve(&mut self, agent: &'static Agent, device: &'static Device) {
        let view = device.view();
        self.serve_volume(agent, device, &view);
        if device.is_revoked() {
            device.end_job(&agent.work, view.session.drain_bound);
        }
        if device.runs_undeclared() {
            device.end_if_idle(&agent.work, view.session.idle_gap);
        }
        if let Some(request) = view.daemon().swap_request()
            && request.seq != self.swap
        {
            self.swap = request.seq;
            self.open = Some(Operation {
                request,
                since: Instant::now(),
                moved_bytes: 0,
            });
        }
        if let Some(mut open) = self.open.take() {
            match swap(agent, device, &view, open.request, &mut open.moved_bytes) {
                // The bell tells of more credit, and other devices are served meanwhile: what this
                // one waits for may wait for them.
                Step::Held => self.open = Some(open),
                Step::Over(ended) => end(&view, &open, ended),
            }
        }
    }

    /// Pins what is asked for, or unpins what is not, in a thread of its own, because it takes long, once there is
    /// a context to pin in.
    fn serve_volume(&mut self, agent: &'static Agent, device: &'static Device, view: &View) {
        let Some((seq, bytes)) = view.daemon().volume() else {
            return;
        };
        if device.backing_lost.swap(false, Ordering::AcqRel) {
            self.volume = 0;
        }
        if seq == 0 || seq == self.volume || self.pinning.load(Ordering::Acquire) {
            return;
        }
        let (chunk, have, most) = {
            let memory = device.memory();
            (
                memory.chunk_bytes(),
                memory.backing_bytes(),
                memory.device_bytes(),
            )
        };
        let lacking = bytes.min(most).saturating_sub(have) / chunk;
        let changes = lacking > 0 || bytes < have;
        let context = agent.work.context_on(device.ordinal);
        if changes && context.is_none() {
            return;
        }
        self.volume = seq;
        let (view, pinning) = (view.clone(), Arc::clone(&self.pinning));
        let pin = move || {
            // A context that ends waits for this lock, and so does the end of the process.
            let locked = gate::lock(&device.pinning);
            if exit::must_stop() {
                return;
            }
            // Pinning may break a capture of the program otherwise, as in the swap thread.
            let _ = agent.driver.relax_capture_mode();
            if let Some(context) = agent.work.context_on(device.ordinal).filter(|_| changes) {
                let done = in_context(agent.driver, context, || {
                    if lacking == 0 {
                        return shrink(agent.driver, device, bytes);
                    }
                    let (segments, result) = Backing::pin(agent.driver, chunk, lacking as usize);
                    device.memory().grow_backing(segments, context);
                    result
                });
                if let Err(status) = done {
                    view.agent().set_fault(status.0);
                }
            }
            view.agent()
                .confirm_volume(seq, device.memory().backing_bytes());
            view.session.tell();
            pinning.store(false, Ordering::Release);
            drop(locked);
            device.prepare_fingerprints();
        };
        self.pinning.store(true, Ordering::Release);
        if let Err(error) = spawn_detached(c"rtswap-pin", pin) {
            debug(format_args!(
                "no thread to pin the backing store in: {error}"
            ));
            self.pinning.store(false, Ordering::Release);
            self.volume = 0;
        }
    }
}

/// Unpins what of the backing store holds nothing, beyond `bytes`.
fn shrink(driver: &dyn Driver, device: &Device, bytes: u64) -> Result<(), Status> {
    let cut = device.memory().shrink_backing(bytes).into_iter();
    cut.map(|segment| segment.unpin(driver))
        .fold(Ok(()), Result::and)
}

/// Says how an operation ended.
fn end(view: &View, operation: &Operation, ended: Ended) {
    let Operation {
        request,
        since,
        moved_bytes,
    } = *operation;
    let ns = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
    debug(format_args!(
        "swap {:?} to {} bytes: {:?}, {moved_bytes} bytes moved in {ns} ns",
        request.direction, request.target_bytes, ended.outcome
    ));
    if ended.fault != Status::SUCCESS {
        view.agent().set_fault(ended.fault.0);
    }
    view.agent().end_swap(SwapReport {
        seq: request.seq,
        outcome: ended.outcome,
        ns,
        moved_bytes,
    });
    view.session.tell();
}

/// Goes on with an operation until it is over or has no more credit.
fn swap(
    agent: &'static Agent,
    device: &'static Device,
    view: &View,
    request: SwapRequest,
    moved: &mut u64,
) -> Step {
    let refused = |fault| {
        let outcome = SwapOutcome::Failed;
        Step::Over(Ended { outcome, fault })
    };
    if !device.memory().is_target(request.target_bytes) {
        return refused(Status::INVALID_VALUE);
    }
    // A job that still runs ends first: nothing leaves under its feet.
    if request.direction == Direction::Out && !device.end_job(&agent.work, view.session.drain_bound)
    {
        return Step::Over(SwapOutcome::Undrainable.into());
    }
    let Some(context) = agent.work.context_on(device.ordinal) else {
        return if device.memory().swapped_bytes() == request.target_bytes {
            Step::Over(SwapOutcome::Done.into())
        } else {
            refused(Status::INVALID_CONTEXT)
        };
    };
    let daemon = view.daemon();
    let mut reins = |next: u64| {
        if daemon.aborted_swap() == request.seq {
            Reins::Abort
        } else if exit::must_stop()
            || request.direction == Direction::In && next < daemon.credit_bytes()
        {
            Reins::Wait
        } else {
            Reins::Go
        }
    };
    // The lock is held as long as chunks fly, and not while the operation waits for credit.
    let step = in_context(agent.driver, context, || {
        let (direction, target) = (request.direction, request.target_bytes);
        let mut memory = device.memory();
        // It may have ended while the lock was waited for.
        if agent.work.device_of(context).is_none() {
            return Err(Status::INVALID_CONTEXT);
        }
        Ok(memory.swap(direction, target, context, moved, &mut reins))
    });
    step.unwrap_or_else(refused)
}

/// Swaps everything in, as far as there is memory. Whether all is resident.
pub(super) fn bring_all(agent: &'static Agent, device: &'static Device) -> bool {
    let Some(context) = agent.work.context_on(device.ordinal) else {
        return device.memory().swapped_bytes() == 0;
    };
    let step = in_context(agent.driver, context, || {
        let mut go_on = |_| {
            if exit::must_stop() {
                Reins::Wait
            } else {
                Reins::Go
            }
        };
        Ok(device
            .memory()
            .swap(Direction::In, 0, context, &mut 0, &mut go_on))
    });
    if step.is_err() {
        std::thread::sleep(Duration::from_millis(1));
    }
    device.memory().swapped_bytes() == 0
}
