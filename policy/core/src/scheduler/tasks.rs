//! The tasks by id, in one piece of memory. Each task that was touched is noted for the books.

use alloc::vec::Vec;
use core::ops::Index;

use crate::scheduler::record::Task;
use crate::task::TaskId;

#[derive(Clone, Debug, Default)]
pub(crate) struct Tasks {
    /// Ascending, beside `records`: ids are given in ascending order, so that a new one is the last.
    ids: Vec<TaskId>,
    records: Vec<Task>,
    /// The tasks that may have changed since the books were brought up to date.
    touched: Vec<TaskId>,
}

impl Tasks {
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn reserve(&mut self, len: usize) {
        let more = len.saturating_sub(self.len());
        self.ids.reserve(more);
        self.records.reserve(more);
        self.touched.reserve(len);
    }

    /// Where a task stands in the order of ids.
    pub(crate) fn place(&self, id: TaskId) -> Option<usize> {
        self.ids.binary_search(&id).ok()
    }

    pub(crate) fn contains(&self, id: TaskId) -> bool {
        self.place(id).is_some()
    }

    pub(crate) fn get(&self, id: TaskId) -> Option<&Task> {
        Some(&self.records[self.place(id)?])
    }

    pub(crate) fn get_mut(&mut self, id: TaskId) -> Option<&mut Task> {
        let place = self.place(id)?;
        let task = &mut self.records[place];
        if !task.touched {
            task.touched = true;
            self.touched.push(id);
        }
        Some(task)
    }

    /// One that was touched, which is so no more, and its place.
    pub(crate) fn next_touched(&mut self) -> Option<(usize, TaskId, &Task)> {
        while let Some(id) = self.touched.pop() {
            if let Some(place) = self.place(id) {
                let task = &mut self.records[place];
                task.touched = false;
                return Some((place, id, task));
            }
        }
        None
    }

    /// Inserts a task and returns its index; none if the id is known already.
    pub(crate) fn insert(&mut self, id: TaskId, task: Task) -> Option<usize> {
        let place = self.ids.binary_search(&id).err()?;
        self.ids.insert(place, id);
        self.records.insert(place, task);
        self.get_mut(id);
        Some(place)
    }

    /// Forgets a task, and returns where it stood.
    pub(crate) fn remove(&mut self, id: TaskId) -> Option<usize> {
        let place = self.place(id)?;
        self.ids.remove(place);
        self.records.remove(place);
        Some(place)
    }

    pub(crate) fn ids(&self) -> impl DoubleEndedIterator<Item = TaskId> + ExactSizeIterator + '_ {
        self.ids.iter().copied()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Task> {
        self.records.iter()
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (TaskId, &Task)> + '_ {
        self.ids().zip(&self.records)
    }
}

impl Index<TaskId> for Tasks {
    type Output = Task;
    fn index(&self, id: TaskId) -> &Task {
        self.get(id).expect("ids in the queues name known tasks")
    }
}
