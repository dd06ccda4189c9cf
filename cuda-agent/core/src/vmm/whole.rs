//! From pieces to one allocation: what another process or device is to be given needs the very
//! allocation that the program asked for. It is made, filled, and mapped wherever the pieces were,
//! with this GPU's gate closed meanwhile if they were mapped at all; from then on it stays.
//!
//! This waits for the first export, because a handle type only allows one: PyTorch, vLLM and NCCL ask
//! for exportable memory throughout, whether they export it or not. The exchange needs as much budget
//! again as the handle has bytes, for a moment; memory that was never mapped needs neither a copy nor
//! a closed gate. Where the GPU's work does not end within the drain bound nothing has changed, and
//! the program gets CUDA_ERROR_NOT_PERMITTED, which the driver documents for the call.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Result;
use super::book::{Book, Bundle, What, Whole};
use crate::agent::Agent;
use crate::cuda::{Handle, Status, Stream};
use crate::device::Device;
use crate::enter::Clue;
use crate::log::{debug, say};
use crate::memory::KeptFor;
use crate::work::{in_context, relaxed};

/// The driver's handle of the new allocation, and who else will use it.
type Made = (Handle, KeptFor);

/// Between two tries to pause a job, when one had just ended or captured.
const PAUSE: Duration = Duration::from_millis(1);

impl Agent {
    /// cuMemExportToShareableHandle of a handle of ours, by `call` with the driver's; nothing for a
    /// handle of the driver's. Errors: INVALID_VALUE for a kind of handle that was not asked for
    /// when the memory was created, NOT_PERMITTED where the GPU is not drained within the drain
    /// bound, else the driver's.
    pub fn export_physical(
        &self,
        handle: u64,
        kind: u32,
        flags: u64,
        call: impl FnOnce(u64) -> Result<()>,
    ) -> Option<Result<()>> {
        Book::is_ours(handle).then(|| {
            let asked = self.physical_prop(handle).ok_or(Status::INVALID_VALUE)??;
            if asked.handle_types & kind == 0 || !kind.is_power_of_two() || flags != 0 {
                return Err(Status::INVALID_VALUE);
            }
            let whole = self.whole(handle, KeptFor::Processes)?;
            // Released by another thread, it would be no one's.
            let book = self.book();
            book.held(handle)?;
            call(whole.handle.0)
        })
    }

    /// The one allocation behind a handle of ours, made now if it is not there yet.
    pub(super) fn whole(&self, handle: u64, why: KeptFor) -> Result<Whole> {
        loop {
            let bundle = match self.book().held(handle)? {
                What::Pieces(bundle) => Arc::clone(bundle),
                What::Whole(whole) => return Ok(*whole),
                What::Alone { .. } => return Err(Status::INVALID_VALUE),
            };
            self.make_whole(&bundle, why)?;
        }
    }

    /// Puts memory of ours into one allocation as it was asked for. No call of this thread is under
    /// way.
    pub(super) fn make_whole(&self, bundle: &Bundle, why: KeptFor) -> Result<()> {
        let device = self.owner(bundle)?;
        // A context made unseen has a gate from now on.
        self.current_known();
        let bytes = bundle.bytes;
        self.under_pressure(device, || Ok(device.reserve(bytes)?))?;
        let made = device.insist(|| Ok(self.driver.create_as(&bundle.prop, bytes)?));
        let Err(status) = made.and_then(|made| self.put_whole(bundle, device, (made, why))) else {
            debug(format_args!(
                "{bytes} bytes stay on the GPU: they are shared"
            ));
            return Ok(());
        };
        device.memory().discount_outside(bytes);
        // Another thread may have been faster.
        match self.book().now(bundle)? {
            What::Whole(_) => Ok(()),
            _ => Err(status),
        }
    }

    /// Lets one allocation take the place of the pieces, or releases it.
    fn put_whole(&self, bundle: &Bundle, device: &Device, made: Made) -> Result<()> {
        let put = self.try_whole(bundle, device, made);
        if put.is_err() {
            // What cannot be released is the driver's own fault, as after any error of a context.
            let _ = self.driver.release(made.0);
        }
        put
    }

    /// NOT_READY where another thread was faster.
    fn try_whole(&self, bundle: &Bundle, device: &Device, made: Made) -> Result<()> {
        let bound = self.session().drain_bound;
        // Of the bound; the turn of this program is waited for as long as it takes.
        let mut spent = Duration::ZERO;
        loop {
            // Within work of this GPU all its memory is there.
            let call = self.enter_on(Stream::LEGACY, &|clue| clue(Clue::Gate(device.bit)));
            let mut book = self.book();
            if let What::Whole(_) = book.now(bundle)? {
                return Err(Status::NOT_READY);
            }
            if book.is_blank(bundle) || !device.is_armed() {
                // Nothing to copy, and nobody works on it.
                return exchange(&mut book, bundle, device, made);
            }
            drop(book);
            drop(call);
            let start = Instant::now();
            let mut moved = None;
            device.pause(&self.work, bound.saturating_sub(spent), || {
                moved = Some(self.move_whole(bundle, device, made));
                device.memory().swapped_bytes() == 0
            });
            match moved {
                Some(moved) if moved != Err(Status::NOT_READY) => return moved,
                _ if spent < bound => std::thread::sleep(PAUSE),
                _ => {
                    say(format_args!(
                        "memory was not shared: the GPU's work did not end within {} ms, or a stream \
                         captures",
                        bound.as_millis()
                    ));
                    return Err(Status::NOT_PERMITTED);
                }
            }
            spent += start.elapsed();
        }
    }

    /// Nothing works on the pieces. NOT_READY if some are not on the GPU, or the context that would
    /// copy them has just ended.
    fn move_whole(&self, bundle: &Bundle, device: &Device, made: Made) -> Result<()> {
        let mut book = self.book();
        if let What::Whole(_) = book.now(bundle)? {
            return Err(Status::NOT_READY);
        }
        let context = self.work.context_on(device.ordinal);
        let context = context.ok_or(Status::INVALID_CONTEXT)?;
        // A capture that another thread begins has nothing to do with it.
        relaxed(self.driver, || {
            in_context(self.driver, context, || {
                let mut memory = device.memory();
                if self.work.device_of(context) != Some(device.ordinal) {
                    return Err(Status::NOT_READY);
                }
                memory.copy_to(&bundle.pieces, made.0, context)
            })
        })?;
        exchange(&mut book, bundle, device, made)
    }
}

/// One allocation instead of the pieces, wherever they are mapped.
fn exchange(book: &mut Book, bundle: &Bundle, device: &Device, made: Made) -> Result<()> {
    let mappings = book.mappings_of(bundle).into_iter();
    let mapped: Vec<_> = mappings
        .map(|(at, bytes)| bundle.placed(at, bytes))
        .collect();
    let (handle, why) = made;
    let mut memory = device.memory();
    memory.replace(&bundle.pieces, &mapped, handle)?;
    memory.keep_outside(bundle.bytes, why);
    book.put_whole(bundle, handle, why);
    Ok(())
}
