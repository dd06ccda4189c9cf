//! Handles that C programs hold, checked before they are believed.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Objects by handle. A handle is the object's address, used as a number only:
/// a stale or invented one finds nothing.
#[derive(Debug)]
pub struct Table<T> {
    objects: RwLock<HashMap<usize, Arc<T>>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            objects: RwLock::default(),
        }
    }
}

impl<T> Table<T> {
    /// Keeps an object; returns its handle.
    pub fn insert(&self, object: &Arc<T>) -> usize {
        let handle = handle_of(object);
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        objects.insert(handle, object.clone());
        handle
    }

    /// The object with this handle.
    pub fn get(&self, handle: usize) -> Option<Arc<T>> {
        self.objects
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&handle)
            .cloned()
    }

    /// Takes an object out.
    pub fn remove(&self, handle: usize) -> Option<Arc<T>> {
        self.objects
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&handle)
    }

    /// Keeps only what `keep` agrees to.
    pub fn retain(&self, keep: impl Fn(&T) -> bool) {
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        objects.retain(|_, object| keep(object));
    }

    /// All objects.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects.values().cloned().collect()
    }

    /// Any object that `wanted` agrees to.
    pub fn find(&self, wanted: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects.values().find(|object| wanted(object)).cloned()
    }
}

/// The handle under which an object is kept.
pub(crate) fn handle_of<T>(object: &Arc<T>) -> usize {
    Arc::as_ptr(object) as usize
}
