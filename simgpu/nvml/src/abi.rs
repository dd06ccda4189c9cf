//! What crosses into C and back: checked pointers, handles, versions of structs.

use std::ffi::{CStr, c_char, c_uint};

use simgpu_core::Board;
use simgpu_core::config::MAX_GPUS;

use crate::status::{Result, Status};
use crate::view::View;

/// A place for one value, or for as many as another argument says.
///
/// A value comes only from C, whose side of the library's contract is that the
/// pointer is null or good for reads and writes of those values.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Out<T> {
    /// Puts a result there.
    pub(crate) fn set(self, value: T) -> Result<()> {
        self.set_at(0, value)
    }

    /// Puts a result at an index below the number that the program gave.
    pub(crate) fn set_at(self, index: usize, value: T) -> Result<()> {
        self.check()?;
        // SAFETY: not null, so good for a write (see the type).
        unsafe { self.0.wrapping_add(index).write_unaligned(value) };
        Ok(())
    }

    /// What is there.
    pub(crate) fn get(self) -> Result<T>
    where
        T: Copy,
    {
        self.get_at(0)
    }

    /// What is at an index below the number that the program gave.
    pub(crate) fn get_at(self, index: usize) -> Result<T>
    where
        T: Copy,
    {
        self.check()?;
        // SAFETY: not null, so good for a read (see the type).
        Ok(unsafe { self.0.wrapping_add(index).read_unaligned() })
    }

    /// Null is an invalid argument.
    pub(crate) fn check(self) -> Result<()> {
        if self.0.is_null() {
            Err(Status::InvalidArgument)
        } else {
            Ok(())
        }
    }

    /// The place that a pointer inside of a struct names.
    pub(crate) fn from_raw(pointer: *mut T) -> Self {
        Self(pointer)
    }

    /// Puts values there, with their number in `count`, where the program has
    /// put the number that there is room for.
    ///
    /// Without the room only the number is told.
    pub(crate) fn fill(self, count: Out<c_uint>, values: &[T]) -> Result<()>
    where
        T: Copy,
    {
        let room = count.get()? as usize;
        if room > 0 {
            self.check()?;
        }
        count.set(values.len() as c_uint)?;
        if values.len() > room {
            return Err(Status::InsufficientSize);
        }
        values
            .iter()
            .enumerate()
            .try_for_each(|(index, value)| self.set_at(index, *value))
    }
}

/// A C string; from C only, null or NUL-terminated.
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

impl Text {
    pub(crate) fn get(&self) -> Result<&str> {
        if self.0.is_null() {
            return Err(Status::InvalidArgument);
        }
        // SAFETY: not null, so a C string for the time of the call (see the type).
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map_err(|_| Status::InvalidArgument)
    }
}

/// A buffer for text of a given size; from C only, null or that large.
#[repr(transparent)]
pub(crate) struct Buffer(*mut c_char);

impl Buffer {
    /// Writes text and a NUL, or nothing if they do not fit.
    pub(crate) fn write(&self, size: c_uint, text: &str) -> Result<()> {
        if self.0.is_null() {
            return Err(Status::InvalidArgument);
        }
        if text.len() >= size as usize {
            return Err(Status::InsufficientSize);
        }
        // SAFETY: not null, so at least `size` bytes (see the type), which the
        // text and its NUL do not exceed.
        unsafe {
            self.0
                .cast::<u8>()
                .copy_from_nonoverlapping(text.as_ptr(), text.len());
            self.0.add(text.len()).write(0);
        }
        Ok(())
    }
}

/// Text in an array that has room for it and a NUL.
pub(crate) fn text_array<const N: usize>(text: &str) -> [c_char; N] {
    assert!(text.len() < N, "{text} is too long");
    let mut array = [0; N];
    for (to, from) in array.iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
    array
}

/// nvmlDevice_t: the place of a GPU or an instance in the configuration, or beyond them the number
/// of a GPU in MIG mode; and one more, so that none is null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Device(usize);

/// What a handle stands for.
pub(crate) enum Target {
    /// A GPU of its own, or one in MIG mode.
    Board(Board),
    /// A MIG instance, by its place in the configuration.
    Instance(usize),
}

impl Device {
    /// The handle of a board.
    pub(crate) fn of(board: &Board) -> Self {
        match board {
            Board::Whole(gpu) => Self(gpu + 1),
            Board::Divided { parent, .. } => Self(MAX_GPUS + *parent as usize + 1),
        }
    }

    /// The handle of an instance.
    pub(crate) fn of_instance(gpu: usize) -> Self {
        Self(gpu + 1)
    }

    /// What it stands for.
    pub(crate) fn target(self, view: &View) -> Result<Target> {
        let number = self.0.wrapping_sub(1);
        if number >= 2 * MAX_GPUS {
            return Err(Status::InvalidArgument);
        }
        let boards = view.config().boards();
        let board = boards.into_iter().find(|board| match board {
            Board::Whole(gpu) => *gpu == number,
            Board::Divided { parent, instances } => {
                instances.contains(&number) || *parent as usize + MAX_GPUS == number
            }
        });
        match board.ok_or(Status::GpuIsLost)? {
            Board::Divided { .. } if number < MAX_GPUS => Ok(Target::Instance(number)),
            board => Ok(Target::Board(board)),
        }
    }

    /// The places of what it stands for: all instances of a GPU in MIG mode.
    pub(crate) fn places(self, view: &View) -> Result<Vec<usize>> {
        Ok(match self.target(view)? {
            Target::Board(Board::Whole(gpu)) | Target::Instance(gpu) => vec![gpu],
            Target::Board(Board::Divided { instances, .. }) => instances,
        })
    }

    /// A place of it, for what is the same for all instances of a GPU.
    pub(crate) fn any(self, view: &View) -> Result<usize> {
        self.places(view).map(|places| places[0])
    }

    /// The place of a GPU of its own; nothing else is answered.
    pub(crate) fn whole(self, view: &View) -> Result<usize> {
        match self.target(view)? {
            Target::Board(Board::Whole(gpu)) => Ok(gpu),
            _ => Err(Status::NotSupported),
        }
    }

    /// The board that it is or is on.
    pub(crate) fn board(self, view: &View) -> Result<Board> {
        let place = self.any(view)?;
        let boards = view.config().boards();
        let board = boards.into_iter().find(|board| board.holds(place));
        board.ok_or(Status::GpuIsLost)
    }
}

/// NVML_STRUCT_VERSION: the size of a struct and its version in one word.
pub(crate) const fn version_of<T>(version: c_uint) -> c_uint {
    size_of::<T>() as c_uint | version << 24
}

/// Fails unless a program's struct is of the version that is known.
pub(crate) fn check_version(given: c_uint, known: c_uint) -> Result<()> {
    if given == known {
        Ok(())
    } else {
        Err(Status::ArgumentVersionMismatch)
    }
}
