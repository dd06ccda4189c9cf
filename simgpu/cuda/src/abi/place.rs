//! Pointers that C gives.

use std::ffi::{CStr, c_char, c_int};

use simgpu_core::{Error, Result};

/// Where a function puts a result.
///
/// A value comes only from C, as an argument or in what an argument points to: that is where the
/// driver's contract makes sure that the pointer is null or good for one read and write of a `T`.
/// Whatever else is made of it, another index or another type, is up to the function, which knows
/// what its documentation promises: those methods are unsafe.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// The place that a list of such names.
    ///
    /// # Safety
    /// The program gave the address: null, or room for a `T`.
    pub(crate) unsafe fn named(place: *mut T) -> Self {
        Self(place)
    }

    /// A place that is not wanted.
    pub(crate) fn null() -> Self {
        Self(std::ptr::null_mut())
    }

    /// Puts the result there; null is an invalid argument.
    pub(crate) fn set(&self, value: T) -> Result<()> {
        if self.0.is_null() {
            return Err(Error::InvalidValue);
        }
        // SAFETY: not null, so good for a write (see the type).
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Puts a result at an index.
    ///
    /// # Safety
    /// The program has room for more values than `index`.
    pub(crate) unsafe fn set_at(&self, index: usize, value: T) -> Result<()> {
        self.check()?;
        // By the caller's promise there is room for it.
        Self(self.0.wrapping_add(index)).set(value)
    }

    /// Puts the result there unless the program does not want it.
    pub(crate) fn set_if_wanted(&self, value: T) {
        let _ = self.set(value);
    }

    /// Zeroes what is there, if the program wants the result: some functions do before they look at anything else.
    pub(crate) fn clear(&self)
    where
        T: Default,
    {
        self.set_if_wanted(T::default());
    }

    /// Fails on null, before the function does anything.
    pub(crate) fn check(&self) -> Result<()> {
        if self.0.is_null() {
            Err(Error::InvalidValue)
        } else {
            Ok(())
        }
    }

    /// What is there: for arguments that are exchanged.
    pub(crate) fn value(&self) -> Result<T>
    where
        T: Copy,
    {
        self.as_in().get()
    }

    /// The same place, for a function that only reads there.
    pub(crate) fn as_in(&self) -> In<T> {
        In(self.0.cast_const())
    }

    /// What lies at so many bytes from here.
    ///
    /// # Safety
    /// As for [`Self::cast`], of that place.
    pub(crate) unsafe fn within<U>(&self, bytes: usize) -> Out<U> {
        Out(self.0.wrapping_byte_add(bytes).cast())
    }

    /// The pointer itself, for results whose type an argument decides.
    ///
    /// # Safety
    /// The program has room for a `U` there, and any bytes that it may have there are one.
    pub(crate) unsafe fn cast<U>(&self) -> Out<U> {
        Out(self.0.cast())
    }
}

/// A value that a function reads, or the first of several.
///
/// It comes only from C, as [`Out`] does: null, or good for one read of a `T`. That there are more
/// of them, or something else, the function has to know.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct In<T>(*const T);

impl<T: Copy> In<T> {
    pub(crate) fn null() -> Self {
        Self(std::ptr::null())
    }

    pub(crate) fn get(self) -> Result<T> {
        // SAFETY: one value is there (see the type).
        unsafe { self.at(0) }
    }

    /// The value at an index.
    ///
    /// # Safety
    /// Null, or the program gives more values than `index`.
    pub(crate) unsafe fn at(self, index: usize) -> Result<T> {
        if self.0.is_null() {
            return Err(Error::InvalidValue);
        }
        // SAFETY: not null, so good for this read by the caller's promise.
        Ok(unsafe { self.0.wrapping_add(index).read_unaligned() })
    }

    /// All values of a list, each read when it is its turn; its pointer may be null where it has none.
    ///
    /// # Safety
    /// Null, or the program gives `count` values.
    pub(crate) unsafe fn list(self, count: usize) -> impl Iterator<Item = Result<T>> {
        // SAFETY: by the caller's promise.
        (0..count).map(move |index| unsafe { self.at(index) })
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// # Safety
    /// Null, or the program gives a `U` there.
    pub(crate) unsafe fn cast<U>(self) -> In<U> {
        In(self.0.cast())
    }

    /// # Safety
    /// The program gives a value at so many bytes from here.
    pub(crate) unsafe fn add_bytes(self, bytes: usize) -> Self {
        Self(self.0.wrapping_byte_add(bytes))
    }
}

/// A C string; from C only, null or NUL-terminated.
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

impl Text {
    pub(crate) fn get(&self) -> Result<&CStr> {
        if self.0.is_null() {
            return Err(Error::InvalidValue);
        }
        // SAFETY: not null, so a C string for the time of the call (see the type).
        Ok(unsafe { CStr::from_ptr(self.0) })
    }
}

/// A buffer for text of a given size; from C only, null or that large.
#[repr(transparent)]
pub(crate) struct Buffer(*mut c_char);

impl Buffer {
    /// Writes text and a NUL, cut to `size`.
    pub(crate) fn write(&self, size: c_int, text: &str) -> Result<()> {
        let size = usize::try_from(size).ok().filter(|size| *size > 0);
        let size = size
            .filter(|_| !self.0.is_null())
            .ok_or(Error::InvalidValue)?;
        let len = text.len().min(size - 1);
        // SAFETY: not null, so at least `size` bytes (see the type).
        unsafe {
            self.0
                .cast::<u8>()
                .copy_from_nonoverlapping(text.as_ptr(), len);
            self.0.add(len).write(0);
        }
        Ok(())
    }
}
