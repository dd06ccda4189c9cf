//! User objects, which graphs keep for programs.

use std::ffi::c_uint;

use simgpu_core::Error;
use simgpu_core::driver::{UserEnd, driver};

use crate::abi::{Out, nonzero};

/// CU_USER_OBJECT_NO_DESTRUCTOR_SYNC, without which none is made.
const NO_SYNC: c_uint = 1;
/// CU_GRAPH_USER_OBJECT_MOVE; 0 is new references.
const MOVE: c_uint = 1;

api! {
    11030 early fn cuUserObjectCreate(
        object: Out<usize>,
        data: usize,
        end: Option<UserEnd>,
        references: c_uint,
        flags: c_uint,
    ) {
        object.check()?;
        let end = end.filter(|_| flags == NO_SYNC).ok_or(Error::InvalidValue)?;
        object.set(driver()?.create_user_object(end, data, references)?)
    }

    11030 early fn cuUserObjectRetain(object: usize, count: c_uint) {
        nonzero(object)?;
        driver()?.retain_user_object(object, count)
    }

    11030 early fn cuUserObjectRelease(object: usize, count: c_uint) {
        nonzero(object)?;
        driver()?.release_user_object(object, count)
    }

    11030 early fn cuGraphRetainUserObject(
        graph: usize, object: usize, count: c_uint, flags: c_uint,
    ) {
        nonzero(graph)?;
        if flags > MOVE {
            return Err(Error::InvalidValue);
        }
        driver()?.keep_in_graph(graph, object, count, flags == MOVE)
    }

    11030 early fn cuGraphReleaseUserObject(graph: usize, object: usize, count: c_uint) {
        nonzero(graph)?;
        driver()?.give_up_in_graph(graph, object, count)
    }
}
