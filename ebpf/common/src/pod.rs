//! The records as aya's plain old data.
#![allow(unsafe_code)]

use crate::records::{
    Account, Allocation, Bytes, Config, Context, Current, Mapping, Object, Physical, Process,
    Subordinates, Taken,
};

macro_rules! pod {
    ($($record:ty),+ $(,)?) => {
        $(
            // SAFETY: `record!` makes it `repr(C)` of integers without padding, valid for any bits.
            unsafe impl aya::Pod for $record {}
        )+
    };
}

pod!(
    Account,
    Allocation,
    Bytes,
    Config,
    Context,
    Current,
    Mapping,
    Object,
    Physical,
    Process,
    Subordinates,
    Taken,
);
