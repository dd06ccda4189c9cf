//! Contexts: which GPU a thread allocates on, and what dies together.

use aya_ebpf::macros::{uprobe, uretprobe};
use aya_ebpf::programs::{ProbeContext, RetProbeContext};
use rtswap_probe_abi::records::{
    Account, CURRENT_DEPTH, Context, Current, NO_DEVICE, Process, SEVERAL_DEVICES, Share,
};

use crate::account::end_context;
use crate::frame::{Entry, Frame};
use crate::maps::{CONTEXTS, CURRENT, PRIMARIES, add, count};
use crate::process::{Caller, NEW_ONLY, now};
use crate::share::{give, give_to, name, put};
use crate::user::{argument, read, succeeded};

/// Where memory lies: a GPU, and the context that it dies with, 0 if none.
pub struct Place {
    pub context: u64,
    pub context_since: u64,
    pub device: u32,
}

impl Place {
    /// Where the calling thread allocates now.
    #[inline(always)]
    pub fn of(caller: &Caller) -> Self {
        let context = current(caller.thread);
        // SAFETY: a copy is taken; contexts are made and destroyed by this process alone.
        let known = unsafe { CONTEXTS.get(caller.object(context)) }.copied();
        if let Some(known) = known {
            return Self {
                context,
                context_since: known.since,
                device: known.device,
            };
        }
        // SAFETY: the map's value.
        let device = unsafe { (&raw const (*caller.process).device).read_volatile() };
        Self::on(if device == SEVERAL_DEVICES {
            NO_DEVICE
        } else {
            device
        })
    }

    /// On a GPU, in no context.
    #[inline(always)]
    pub fn on(device: u32) -> Self {
        Self {
            context: 0,
            context_since: 0,
            device,
        }
    }

    /// Whose bytes these are.
    #[inline(always)]
    pub fn account(&self, caller: &Caller) -> Account {
        Account {
            since: caller.since,
            context: self.context,
            process: caller.id(),
            device: self.device,
        }
    }

    /// Whether its context still is: else all in it died with it, and was taken off already.
    #[inline(always)]
    pub fn is_live(&self, caller: &Caller) -> bool {
        if self.context == 0 {
            return true;
        }
        // SAFETY: as in `of`.
        let now = unsafe { CONTEXTS.get(caller.object(self.context)) };
        now.is_some_and(|context| context.since == self.context_since)
    }
}

/// The calling thread's context, 0: none or not known.
#[inline(always)]
fn current(thread: u64) -> u64 {
    // SAFETY: only this thread changes its entry.
    let Some(stack) = (unsafe { CURRENT.get(thread) }) else {
        return 0;
    };
    match stack.depth.wrapping_sub(1) {
        top if top < CURRENT_DEPTH as u64 => stack.contexts[top as usize],
        _ => 0,
    }
}

/// Changes the calling thread's stack. Without room its context is not known.
#[inline(always)]
fn with_current(caller: &Caller, change: impl FnOnce(&mut Current)) {
    const NONE: Current = Current {
        contexts: [0; CURRENT_DEPTH],
        depth: 0,
    };
    let thread = caller.thread;
    if CURRENT.get_ptr_mut(thread).is_none()
        && !put(caller, Share::Threads, &CURRENT, thread, NONE, NEW_ONLY)
    {
        caller.unnamed();
    }
    if let Some(stack) = CURRENT.get_ptr_mut(thread) {
        // SAFETY: only this thread changes its entry.
        change(unsafe { &mut *stack });
    }
}

#[inline(always)]
fn push(stack: &mut Current, context: u64) {
    if stack.depth < CURRENT_DEPTH as u64 {
        stack.contexts[stack.depth as usize] = context;
    }
    stack.depth = stack.depth.wrapping_add(1);
}

#[inline(always)]
fn pop(stack: &mut Current) {
    stack.depth = stack.depth.saturating_sub(1);
}

#[inline(always)]
fn set(stack: &mut Current, context: u64) {
    match stack.depth.wrapping_sub(1) {
        top if top < CURRENT_DEPTH as u64 => stack.contexts[top as usize] = context,
        u64::MAX => push(stack, context),
        _ => {}
    }
}

/// What a thread's stack becomes when a call succeeds.
mod step {
    pub const SET: u64 = 0;
    pub const PUSH: u64 = 1;
    pub const POP: u64 = 2;
}

/// The thread ends.
#[inline(always)]
pub fn thread_ends(process: *mut Process, thread: u64) {
    if CURRENT.remove(thread).is_ok() {
        give_to(process, Share::Threads);
    }
}

#[inline(always)]
fn step(ctx: &ProbeContext, context: u64, step: u64) -> u32 {
    if let Some(entry) = Entry::outermost(ctx) {
        entry.keep(0, false, [context, step, 0, 0, 0]);
    }
    0
}

#[uprobe]
fn enter_set(ctx: ProbeContext) -> u32 {
    step(&ctx, argument(&ctx, 0), step::SET)
}

#[uprobe]
fn enter_push(ctx: ProbeContext) -> u32 {
    step(&ctx, argument(&ctx, 0), step::PUSH)
}

#[uprobe]
fn enter_pop(ctx: ProbeContext) -> u32 {
    step(&ctx, 0, step::POP)
}

#[uretprobe]
fn leave_current(ctx: RetProbeContext) -> u32 {
    let Some(frame) = Frame::close(&ctx) else {
        return 0;
    };
    if !succeeded(&ctx) {
        return 0;
    }
    let Some(caller) = Caller::find(0) else {
        return 0;
    };
    let [context, step, ..] = frame.kept;
    if context != 0 {
        // Made before the probes were attached: how often it is retained is not known, nor where it is.
        let unknown = Context {
            since: now(),
            holds: 0,
            device: NO_DEVICE,
            primary: 0,
        };
        name(
            &caller,
            &CONTEXTS,
            caller.object(context),
            unknown,
            NEW_ONLY,
        );
    }
    with_current(&caller, |stack| match step {
        step::PUSH => push(stack, context),
        step::POP => pop(stack),
        _ => set(stack, context),
    });
    0
}

/// kept: where the context goes, its GPU, whether it is the primary one.
#[inline(always)]
fn made(ctx: &ProbeContext, device: u64, primary: u64) -> u32 {
    if let Some(entry) = Entry::outermost(ctx) {
        let found = argument(ctx, 0);
        entry.keep(0, false, [found, device, primary, 0, 0]);
    }
    0
}

#[uprobe]
fn enter_context(ctx: ProbeContext) -> u32 {
    made(&ctx, argument(&ctx, 2), 0)
}

#[uprobe]
fn enter_context_v3(ctx: ProbeContext) -> u32 {
    made(&ctx, argument(&ctx, 4), 0)
}

#[uprobe]
fn enter_context_v4(ctx: ProbeContext) -> u32 {
    made(&ctx, argument(&ctx, 3), 0)
}

#[uprobe]
fn enter_primary(ctx: ProbeContext) -> u32 {
    made(&ctx, argument(&ctx, 1), 1)
}

#[uretprobe]
fn leave_context(ctx: RetProbeContext) -> u32 {
    let Some(frame) = Frame::close(&ctx) else {
        return 0;
    };
    if !succeeded(&ctx) {
        return 0;
    }
    let [found, device, primary, ..] = frame.kept;
    let (Some(context), Some(caller)) = (read::<u64>(found), Caller::find(0)) else {
        return 0;
    };
    let device = device as u32;
    on_device(&caller, device);
    let key = caller.object(context);
    if primary != 0 {
        let gpu = caller.object(u64::from(device));
        name(&caller, &PRIMARIES, gpu, context, 0);
        if let Some(known) = CONTEXTS.get_ptr_mut(key) {
            // SAFETY: the map's value.
            unsafe {
                (&raw mut (*known).device).write_volatile(device);
                if (*known).primary != 0 {
                    count(&raw mut (*known).holds, 1);
                }
            }
            return 0;
        }
    } else {
        with_current(&caller, |stack| push(stack, context));
    }
    let new = Context {
        since: now(),
        holds: 1,
        device,
        primary: primary as u32,
    };
    name(&caller, &CONTEXTS, key, new, 0);
    0
}

/// Notes the GPU of the process, while it has only one.
#[inline(always)]
fn on_device(caller: &Caller, device: u32) {
    // SAFETY: the map's value; threads that come here at once agree, or there are several GPUs.
    unsafe {
        let known = &raw mut (*caller.process).device;
        let before = known.read_volatile();
        if before == NO_DEVICE {
            known.write_volatile(device);
        } else if before != device {
            known.write_volatile(SEVERAL_DEVICES);
        }
    }
}

/// How a context may end.
mod end {
    pub const DESTROYED: u64 = 0;
    pub const RELEASED: u64 = 1;
    pub const RESET: u64 = 2;
}

/// kept: the context or the GPU, how.
#[inline(always)]
fn ending(ctx: &ProbeContext, how: u64) -> u32 {
    if let Some(entry) = Entry::outermost(ctx) {
        entry.keep(0, true, [argument(ctx, 0), how, 0, 0, 0]);
    }
    0
}

#[uprobe]
fn enter_destroy(ctx: ProbeContext) -> u32 {
    ending(&ctx, end::DESTROYED)
}

#[uprobe]
fn enter_primary_release(ctx: ProbeContext) -> u32 {
    ending(&ctx, end::RELEASED)
}

#[uprobe]
fn enter_primary_reset(ctx: ProbeContext) -> u32 {
    ending(&ctx, end::RESET)
}

#[uretprobe]
fn leave_destroy(ctx: RetProbeContext) -> u32 {
    let Some(frame) = Frame::close(&ctx) else {
        return 0;
    };
    if !succeeded(&ctx) {
        return 0;
    }
    let Some(caller) = Caller::find(0) else {
        return 0;
    };
    let [name, how, ..] = frame.kept;
    let mut context = name;
    if how != end::DESTROYED {
        let device = caller.object(u64::from(name as u32));
        // SAFETY: a copy is taken.
        let Some(primary) = (unsafe { PRIMARIES.get(device) }).copied() else {
            return 0;
        };
        context = primary;
    }
    let key = caller.object(context);
    let Some(known) = CONTEXTS.get_ptr_mut(key) else {
        return 0;
    };
    // SAFETY: the map's value.
    let (device, is_primary) = unsafe { ((*known).device, (*known).primary) };
    if how == end::RELEASED {
        // How often it was retained before the probes came is not known: then it may live on.
        if is_primary == 0 {
            return 0;
        }
        // SAFETY: the map's value.
        if unsafe { add((&raw mut (*known).holds).cast(), -1) } > 1 {
            return 0;
        }
    }
    if CONTEXTS.remove(key).is_ok() {
        give(&caller, Share::Names);
    }
    end_context(&caller, context, device);
    if how == end::DESTROYED && current(caller.thread) == context {
        with_current(&caller, pop);
    }
    0
}
