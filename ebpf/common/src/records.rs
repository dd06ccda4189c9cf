//! What lies in the maps and rings: integers in the machine's order, without padding.
//!
//! Processes and threads are named by their ids in the initial PID namespace, times are
//! `CLOCK_MONOTONIC` in ns, sizes bytes.

/// A record of integers, and how to read it from a ring.
macro_rules! record {
    (
        $(#[$about:meta])*
        pub struct $name:ident { $($(#[$doc:meta])* pub $field:ident: $kind:ty,)+ }
    ) => {
        $(#[$about])*
        #[repr(C)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name { $($(#[$doc])* pub $field: $kind,)+ }

        // No padding: all that the kernel copies has been written.
        const _: () = assert!(size_of::<$name>() == 0 $(+ size_of::<$kind>())+);

        impl $name {
            /// Reads one from the bytes of a ring's record; `None` where their number is another.
            pub fn read(bytes: &[u8]) -> Option<Self> {
                if bytes.len() != size_of::<Self>() {
                    return None;
                }
                let mut at = 0;
                $(
                    let field = bytes.get(at..at + size_of::<$kind>())?;
                    let $field = <$kind as Field>::read(field)?;
                    at += size_of::<$kind>();
                )+
                let _ = at;
                Some(Self { $($field,)+ })
            }
        }
    };
}

/// A field of a record: an integer or an array of them.
trait Field: Sized {
    fn read(bytes: &[u8]) -> Option<Self>;
}

macro_rules! field {
    ($($integer:ty)+) => {
        $(
            impl Field for $integer {
                fn read(bytes: &[u8]) -> Option<Self> {
                    Some(Self::from_ne_bytes(bytes.try_into().ok()?))
                }
            }

            impl<const N: usize> Field for [$integer; N] {
                fn read(bytes: &[u8]) -> Option<Self> {
                    let mut found = [0; N];
                    let each = bytes.chunks_exact(size_of::<$integer>());
                    for (slot, bytes) in found.iter_mut().zip(each) {
                        *slot = <$integer as Field>::read(bytes)?;
                    }
                    Some(found)
                }
            }
        )+
    };
}

field!(u8 u32 i32 u64 i64);

/// No GPU is known: the context was made before the probes were attached, or there is none.
pub const NO_DEVICE: u32 = u32::MAX;

/// Where a pool of the host's lies: what it gives takes nothing of a GPU.
pub const HOST: u32 = u32::MAX - 2;

/// [`Process::device`] of a process with contexts on several GPUs.
pub const SEVERAL_DEVICES: u32 = u32::MAX - 1;

/// How a memory object was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum Kind {
    /// `cuMemAlloc`, `cuMemAllocPitch`.
    Plain = 0,
    /// `cuMemCreate` on a GPU; lives until it is neither held nor mapped.
    Physical = 1,
    /// In a stream's order, from a pool: `cuMemAllocAsync`, `cuMemAllocFromPoolAsync`. What is asked for;
    /// a pool may keep more.
    Ordered = 2,
    /// `cuMemAllocManaged`: may lie in host memory.
    Managed = 3,
    /// Arrays, by their extent: the driver's layout may take more.
    Array = 4,
}

/// How many [`Kind`]s there is room for: a power of two, so that an index is bounded by a mask, which the
/// kernel's verifier follows.
pub const KINDS: usize = 8;

record! {
    /// What the loader tells the programs.
    pub struct Config {
        /// Device number of the reader's PID namespace (`stat` of `/proc/self/ns/pid`).
        pub namespace_device: u64,
        /// Inode number of the reader's PID namespace; 0: the initial one.
        pub namespace_inode: u64,
        /// A record in [`NEWS`](crate::maps::NEWS) wakes its reader only where an account's bytes pass a
        /// multiple of this many; 0: never.
        pub watermark_bytes: u64,
        /// Offset of `group_dead` in the tracepoint `sched_process_exit`, from its format; 0: it has none.
        pub group_dead_at: u32,
        /// [`TELL_CALLS`], [`TELL_HANDED`].
        pub flags: u32,
        /// How many entries there are to share, by [`Share`].
        pub capacities: [u32; SHARES],
        /// How many entries [`SUBORDINATES`](crate::maps::SUBORDINATES) has.
        pub subordinates: u32,
        /// 0.
        pub zero: u32,
    }
}

/// What the owners of processes share: entries of maps.
///
/// An owner takes entries in batches, and no more than half of what the others leave. What finds no room is
/// counted in its [`Process`] as not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum Share {
    /// Of [`PROCESSES`](crate::maps::PROCESSES).
    Processes = 0,
    /// Of [`BYTES`](crate::maps::BYTES).
    Accounts = 1,
    /// Of [`ALLOCATIONS`](crate::maps::ALLOCATIONS).
    Allocations = 2,
    /// Of [`PHYSICAL`](crate::maps::PHYSICAL).
    Physical = 3,
    /// Of [`MAPPINGS`](crate::maps::MAPPINGS).
    Mappings = 4,
    /// Of [`CONTEXTS`](crate::maps::CONTEXTS), [`PRIMARIES`](crate::maps::PRIMARIES),
    /// [`POOLS`](crate::maps::POOLS) and [`DEVICES`](crate::maps::DEVICES), of each as many.
    Names = 5,
    /// Of [`IN_FLIGHT`](crate::maps::IN_FLIGHT).
    Calls = 6,
    /// Of [`CURRENT`](crate::maps::CURRENT).
    Threads = 7,
}

/// How many [`Share`]s there are.
pub const SHARES: usize = 8;

/// The entries that an owner takes at a time of so many.
pub const fn batch(capacity: u32) -> u32 {
    let batch = capacity / 4096;
    if batch == 0 { 1 } else { batch }
}

record! {
    /// The entries taken by an owner, or by all.
    pub struct Taken {
        /// By [`Share`].
        pub entries: [u32; SHARES],
    }
}

record! {
    /// Users that count as one owner, which is named by the first: the subordinate ids of a user, who could
    /// otherwise pass for as many.
    pub struct Subordinates {
        /// The first user id.
        pub first: u32,
        /// The last user id.
        pub last: u32,
    }
}

/// Added to the cookies of a driver that does not belong to root.
pub const FOREIGN: u64 = 1 << 32;

/// Flag of [`Config::flags`]: a [`News`] for each counted call.
pub const TELL_CALLS: u32 = 1;
/// Flag of [`Config::flags`]: a [`Handed`] for each address that `cuGetProcAddress` gives.
pub const TELL_HANDED: u32 = 2;

record! {
    /// One process since it was first seen, or since it last executed a program.
    ///
    /// With `sure` the sum of its [`Bytes`], the bytes that it holds through calls seen since are between
    /// `sure - unfreed_bytes` and `sure + unseen_bytes`.
    pub struct Process {
        /// When it was first seen; with its id a name that is never given twice.
        pub since: u64,
        /// Calls that succeeded and were counted.
        pub calls: u64,
        /// Calls that the driver refused.
        pub failures: u64,
        /// Calls that were not followed to their return or whose account had no room.
        pub unseen_calls: u64,
        /// Bytes asked for in those: held perhaps, and in no counter.
        pub unseen_bytes: u64,
        /// Memory objects that are counted and had no room in the maps by which they are found again.
        pub unfreed_objects: u64,
        /// Bytes of those: counted perhaps after they were freed.
        pub unfreed_bytes: u64,
        /// Frees of what is not known: made before the probes were attached, or one of `unfreed_objects`.
        pub unknown_frees: u64,
        /// Records that found [`NEWS`](crate::maps::NEWS) full.
        pub lost_news: u64,
        /// Process id in the reader's PID namespace; 0: it is not in it.
        pub id_here: u32,
        /// The GPU of all contexts seen so far, [`NO_DEVICE`] or [`SEVERAL_DEVICES`].
        pub device: u32,
        /// The owner of its entries: its user when it was first seen, or the first of that one's
        /// [`Subordinates`].
        pub owner: u32,
        /// Names that found no room: where its memory lies may be wrong.
        pub unnamed: u32,
        /// 1: it called a driver that was attached to as [`FOREIGN`]; what it counts may be made up.
        pub foreign: u32,
        /// 0.
        pub zero: u32,
        /// Entries that it uses, by [`Share`].
        pub used: [u32; SHARES],
        /// Entries that it may use, which its owner has taken for it.
        pub taken: [u32; SHARES],
    }
}

record! {
    /// Whose bytes, where.
    pub struct Account {
        /// [`Process::since`].
        pub since: u64,
        /// The context that they die with; 0: none, or not known.
        pub context: u64,
        /// Process id.
        pub process: u32,
        /// The GPU's number in the process (as `CUDA_VISIBLE_DEVICES` leaves it), or [`NO_DEVICE`].
        pub device: u32,
    }
}

record! {
    /// Live bytes of an account. Signed: frees and allocations of several threads may be added in any order.
    pub struct Bytes {
        /// By [`Kind`].
        pub live: [i64; KINDS],
    }
}

impl Bytes {
    /// Nothing.
    pub const ZERO: Self = Self { live: [0; KINDS] };

    /// All kinds together. A stranger's own driver makes up what sizes it likes: nothing is worth a panic.
    pub fn total(&self) -> i64 {
        self.live.iter().copied().fold(0, i64::wrapping_add)
    }
}

record! {
    /// Something that the driver named for one process: an address, a handle, a context, a pool, a GPU.
    pub struct Object {
        /// [`Process::since`].
        pub since: u64,
        /// The driver's name for it.
        pub name: u64,
        /// Process id.
        pub process: u32,
        /// 0.
        pub zero: u32,
    }
}

record! {
    /// A live memory object with an address.
    pub struct Allocation {
        /// Its size.
        pub bytes: u64,
        /// [`Account::context`].
        pub context: u64,
        /// [`Context::since`] of that context, 0 without one: objects of an earlier one of the same name
        /// died with it.
        pub context_since: u64,
        /// [`Account::device`].
        pub device: u32,
        /// [`Kind`].
        pub kind: u32,
    }
}

record! {
    /// Physical memory.
    pub struct Physical {
        /// Its size; 0 where it is another process's, imported, or host memory.
        pub bytes: u64,
        /// When it was created: a mapping belongs to the one of the same time.
        pub since: u64,
        /// Handles and mappings that keep it.
        pub holds: u64,
        /// [`Account::device`].
        pub device: u32,
        /// 0.
        pub zero: u32,
    }
}

record! {
    /// Physical memory at an address.
    pub struct Mapping {
        /// Its length.
        pub bytes: u64,
        /// The handle it was made by.
        pub handle: u64,
        /// [`Physical::since`].
        pub since: u64,
    }
}

record! {
    /// A context.
    pub struct Context {
        /// When it was made, or its GPU's primary one first retained.
        pub since: u64,
        /// How often a primary context is retained; 0 for one that was made before the probes were attached.
        pub holds: u64,
        /// [`Account::device`].
        pub device: u32,
        /// 1: a GPU's primary context, with its holds known.
        pub primary: u32,
    }
}

/// Contexts of one thread that are followed.
pub const CURRENT_DEPTH: usize = 8;

record! {
    /// The contexts of one thread, the current one last.
    pub struct Current {
        /// The stack; 0: none, or not known.
        pub contexts: [u64; CURRENT_DEPTH],
        /// How many there are; those beyond [`CURRENT_DEPTH`] are not kept.
        pub depth: u64,
    }
}

record! {
    /// A counted call.
    pub struct News {
        /// When it returned.
        pub at: u64,
        /// [`Process::since`].
        pub since: u64,
        /// Address or handle.
        pub name: u64,
        /// What the call added to the account, negative for a free.
        pub bytes: i64,
        /// What the account then held of that kind. Between threads news and their order may differ.
        pub live: i64,
        /// [`Account::context`].
        pub context: u64,
        /// Process id.
        pub process: u32,
        /// Thread id.
        pub thread: u32,
        /// [`Account::device`].
        pub device: u32,
        /// [`Kind`].
        pub kind: u32,
    }
}

/// Bytes of a symbol's name that [`Handed`] keeps, the final 0 included.
pub const SYMBOL_BYTES: usize = 48;

record! {
    /// An address that `cuGetProcAddress` gave for one of the driver's memory or context functions.
    pub struct Handed {
        /// [`Process::since`].
        pub since: u64,
        /// Where the function is, in the process.
        pub address: u64,
        /// Process id.
        pub process: u32,
        /// The version of CUDA that was asked for, as 12080.
        pub version: u32,
        /// The name that was asked for, ended by 0.
        pub symbol: [u8; SYMBOL_BYTES],
    }
}

record! {
    /// A process that ended.
    pub struct Exit {
        /// When.
        pub at: u64,
        /// [`Process::since`]; [`PROCESSES`](crate::maps::PROCESSES) has it no longer.
        pub since: u64,
        /// Process id.
        pub process: u32,
        /// Process id in the reader's PID namespace; 0: it is not in it.
        pub id_here: u32,
        /// [`End`].
        pub end: u32,
        /// 0.
        pub zero: u32,
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum End {
    /// Its last thread exited.
    Exited = 0,
    /// It executed another program; what it held is gone with its old memory.
    Executed = 1,
    /// Its first thread exited, and the kernel does not say whether others go on: the process is still in
    /// [`PROCESSES`](crate::maps::PROCESSES), for the reader to remove when it has ended.
    FirstThread = 2,
}

/// What is lost for all processes together: the index into [`LOST`](crate::maps::LOST).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum Lost {
    /// Records that found [`NEWS`](crate::maps::NEWS) full.
    News = 0,
    /// Records that found [`EXITS`](crate::maps::EXITS) full. No byte is lost: see [`crate::maps`].
    Exits = 1,
    /// Calls of processes for which [`PROCESSES`](crate::maps::PROCESSES) had no room.
    Calls = 2,
    /// Bytes asked for in those.
    Bytes = 3,
    /// Returns whose call was not seen, or calls whose return never came.
    Unpaired = 4,
}

/// How many [`Lost`] there are.
pub const LOSSES: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_as_both_sides_compiled_them() {
        let sizes = [
            size_of::<Config>(),
            size_of::<Process>(),
            size_of::<Account>(),
            size_of::<Bytes>(),
            size_of::<Object>(),
            size_of::<Allocation>(),
            size_of::<Physical>(),
            size_of::<Mapping>(),
            size_of::<Context>(),
            size_of::<Current>(),
            size_of::<News>(),
            size_of::<Handed>(),
            size_of::<Exit>(),
            size_of::<Taken>(),
        ];
        assert_eq!(
            sizes,
            [72, 160, 24, 64, 24, 32, 32, 24, 24, 72, 64, 72, 32, 32]
        );
        assert_eq!(core::mem::offset_of!(Process, id_here), 72);
        assert_eq!(core::mem::offset_of!(News, process), 48);
        assert_eq!(core::mem::offset_of!(Handed, symbol), 24);
    }

    #[test]
    fn a_record_is_read_from_its_bytes_and_from_no_others() {
        let mut bytes = [0_u8; size_of::<Exit>()];
        bytes[..8].copy_from_slice(&7_u64.to_ne_bytes());
        bytes[8..16].copy_from_slice(&u64::MAX.to_ne_bytes());
        bytes[16..20].copy_from_slice(&4711_u32.to_ne_bytes());
        bytes[24..28].copy_from_slice(&(End::Executed as u32).to_ne_bytes());
        let exit = Exit {
            at: 7,
            since: u64::MAX,
            process: 4711,
            id_here: 0,
            end: 1,
            zero: 0,
        };
        assert_eq!(Exit::read(&bytes), Some(exit));
        assert_eq!(Exit::read(&bytes[1..]), None);
        assert_eq!(Exit::read(&[0; size_of::<Exit>() + 1]), None);
    }

    #[test]
    fn arrays_are_read_in_order() {
        let mut bytes = [0_u8; size_of::<Bytes>()];
        let live = [-2_i64, -1, 0, 1, 2, 3, i64::MAX, i64::MIN];
        for (value, eight) in live.iter().zip(bytes.chunks_exact_mut(8)) {
            eight.copy_from_slice(&value.to_ne_bytes());
        }
        let read = Bytes::read(&bytes).unwrap();
        assert_eq!(read.live, live);
        assert_eq!(read.total(), 2);
    }
}
