//! User objects: what a program wants to keep for as long as a graph, or what is made from it, may
//! need it.

use std::ffi::c_void;
use std::sync::{Arc, Mutex};

use super::Graph;
use crate::driver::table::handle_of;
use crate::driver::{Driver, lock};
use crate::{Error, Result};

/// What ends a program's object.
pub type UserEnd = unsafe extern "C" fn(*mut c_void);

/// A program's object; the last reference to go ends it by the program's own function. That is
/// called by whoever gave that reference back, in whose call the driver promises nothing of the kind
/// and excludes nothing.
pub struct UserObject {
    end: UserEnd,
    data: usize,
    /// References of the program itself.
    own: Mutex<u32>,
}

impl Drop for UserObject {
    fn drop(&mut self) {
        // SAFETY: the program gave both for this one call.
        unsafe { (self.end)(std::ptr::with_exposed_provenance_mut(self.data)) };
    }
}

/// A graph's references to an object.
#[derive(Clone)]
pub(super) struct Kept {
    object: Arc<UserObject>,
    count: u32,
}

impl Graph {
    fn keep(&self, object: &Arc<UserObject>, count: u32) {
        let mut kept = lock(&self.kept);
        match kept.iter_mut().find(|it| Arc::ptr_eq(&it.object, object)) {
            Some(known) => known.count += count,
            None => kept.push(Kept {
                object: object.clone(),
                count,
            }),
        }
    }

    /// Gives references back. What may be the last of them ends without a lock.
    fn give_up(&self, object: usize, count: u32) -> Result<()> {
        let mut kept = lock(&self.kept);
        let known = kept.iter().position(|it| handle_of(&it.object) == object);
        let known = known.ok_or(Error::InvalidValue)?;
        let left = kept[known].count.checked_sub(count);
        let left = left.ok_or(Error::InvalidValue)?;
        kept[known].count = left;
        let gone = (left == 0).then(|| kept.swap_remove(known));
        drop(kept);
        drop(gone);
        Ok(())
    }

    /// All that it keeps, for what is made from it.
    pub(super) fn kept(&self) -> Vec<Kept> {
        lock(&self.kept).clone()
    }
}

impl Driver {
    /// cuUserObjectCreate: its handle.
    pub fn create_user_object(&self, end: UserEnd, data: usize, references: u32) -> Result<usize> {
        if references == 0 {
            return Err(Error::InvalidValue);
        }
        let own = Mutex::new(references);
        let object = Arc::new(UserObject { end, data, own });
        Ok(self.user_objects.insert(&object))
    }

    /// cuUserObjectRetain.
    pub fn retain_user_object(&self, handle: usize, count: u32) -> Result<()> {
        let object = self.user_object(handle, count)?;
        let mut own = lock(&object.own);
        *own = own.checked_add(count).ok_or(Error::InvalidValue)?;
        Ok(())
    }

    /// cuUserObjectRelease.
    pub fn release_user_object(&self, handle: usize, count: u32) -> Result<()> {
        let object = self.user_object(handle, count)?;
        let left = {
            let mut own = lock(&object.own);
            *own = own.checked_sub(count).ok_or(Error::InvalidValue)?;
            *own
        };
        if left == 0 {
            self.user_objects.remove(handle);
        }
        Ok(())
    }

    /// cuGraphRetainUserObject; `moved` if the references are the program's own so far.
    pub fn keep_in_graph(
        &self,
        graph: usize,
        handle: usize,
        count: u32,
        moved: bool,
    ) -> Result<()> {
        let graph = self.graph(graph)?;
        let object = self.user_object(handle, count)?;
        if moved {
            self.release_user_object(handle, count)?;
        }
        graph.keep(&object, count);
        Ok(())
    }

    /// cuGraphReleaseUserObject.
    pub fn give_up_in_graph(&self, graph: usize, handle: usize, count: u32) -> Result<()> {
        self.graph(graph)?.give_up(handle, count)
    }

    fn user_object(&self, handle: usize, count: u32) -> Result<Arc<UserObject>> {
        let known = self.user_objects.get(handle);
        known.filter(|_| count > 0).ok_or(Error::InvalidValue)
    }
}
