//! Which context is current to a thread, and the thread's own default streams.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::{Context, Stream, driver};
use crate::{Error, Result};

thread_local! {
    /// Never dropped, so that it is there for destructors of the program's own thread-locals, which
    /// may use the GPU; what a thread leaves behind is a few words.
    static STACK: RefCell<ManuallyDrop<Vec<Arc<Context>>>> =
        const { RefCell::new(ManuallyDrop::new(Vec::new())) };
    static STREAMS: RefCell<Vec<ThreadStream>> = const { RefCell::new(Vec::new()) };
}

/// A thread's default stream in one context; it ends with the thread.
struct ThreadStream {
    context_id: u64,
    stream: Arc<Stream>,
}

impl Drop for ThreadStream {
    fn drop(&mut self) {
        if let Ok(context) = self.stream.context() {
            context.destroy_stream(&self.stream);
        }
    }
}

/// The context current to the calling thread; fails if there is none, or it is
/// destroyed.
pub fn current() -> Result<Arc<Context>> {
    driver()?;
    let top = STACK.with_borrow(|stack| stack.last().cloned());
    let context = top.ok_or(Error::InvalidContext)?;
    match context.check() {
        Err(Error::ContextIsDestroyed) => Err(Error::ContextIsDestroyed),
        _ => Ok(context),
    }
}

/// cuCtxPushCurrent.
pub fn push_current(context: Arc<Context>) {
    STACK.with_borrow_mut(|stack| stack.push(context));
}

/// cuCtxPopCurrent.
pub fn pop_current() -> Result<Arc<Context>> {
    driver()?;
    STACK
        .with_borrow_mut(|stack| stack.pop())
        .ok_or(Error::InvalidContext)
}

/// cuCtxSetCurrent: replaces the top of the stack, or takes it away.
pub fn set_current(context: Option<Arc<Context>>) {
    STACK.with_borrow_mut(|stack| {
        stack.pop();
        stack.extend(context);
    });
}

/// The calling thread's default stream in a context.
pub fn thread_stream(context: &Arc<Context>) -> Result<Arc<Stream>> {
    STREAMS.with_borrow_mut(|streams| {
        let of_context = |own: &&ThreadStream| own.context_id == context.id;
        let own = streams.iter().find(of_context);
        // A reset of the context has taken it.
        if let Some(own) = own.filter(|own| context.has_stream(&own.stream)) {
            return Ok(own.stream.clone());
        }
        let stream = context.create_stream(0, 0)?;
        let context_id = context.id;
        streams.retain(|own| own.context_id != context_id && own.stream.context().is_ok());
        streams.push(ThreadStream {
            context_id,
            stream: stream.clone(),
        });
        Ok(stream)
    })
}
