//! Names of the maps and of the configuration in the object.
//!
//! A process's entries carry its [`since`](crate::records::Process::since). Once [`PROCESSES`] no longer
//! has that number for that process, it has exited (or executed another program): its last
//! [`Bytes`](crate::records::Bytes) can be read, then all its entries be removed, from [`SWEPT`] maps.
//! That holds without any record of the [`EXITS`] ring, which only says it sooner.
//!
//! The kernel skips a tracepoint's program on a CPU where it is in the middle of a `bpf` system call, so an
//! exit can be missed, rarely. The reader therefore holds a pidfd of each process that it knows, and removes
//! the entry of one that has ended from [`PROCESSES`] itself.

/// [`Config`](crate::records::Config), read-only data that is set before loading.
pub const CONFIG: &str = "CONFIG";
/// `u32` (process id in the initial namespace) → [`Process`](crate::records::Process).
pub const PROCESSES: &str = "PROCESSES";
/// [`Account`](crate::records::Account) → [`Bytes`](crate::records::Bytes).
pub const BYTES: &str = "BYTES";
/// [`Object`](crate::records::Object) of an address → [`Allocation`](crate::records::Allocation).
pub const ALLOCATIONS: &str = "ALLOCATIONS";
/// [`Object`](crate::records::Object) of a handle → [`Physical`](crate::records::Physical).
pub const PHYSICAL: &str = "PHYSICAL";
/// [`Object`](crate::records::Object) of an address → [`Mapping`](crate::records::Mapping).
pub const MAPPINGS: &str = "MAPPINGS";
/// [`Object`](crate::records::Object) of a context → [`Context`](crate::records::Context).
pub const CONTEXTS: &str = "CONTEXTS";
/// [`Object`](crate::records::Object) of a GPU's number in the process → `u64`, its primary context.
pub const PRIMARIES: &str = "PRIMARIES";
/// [`Object`](crate::records::Object) of a memory pool → `u32`, its GPU's number in the process.
pub const POOLS: &str = "POOLS";
/// [`Object`](crate::records::Object) of a GPU's number in the process → `[u8; 16]`, its UUID, where the
/// process asked for it.
pub const DEVICES: &str = "DEVICES";
/// `u32` (owner) → [`Taken`](crate::records::Taken). The reader corrects it when processes have ended.
pub const OWNERS: &str = "OWNERS";
/// Array of one [`Taken`](crate::records::Taken), of all owners together; likewise.
pub const TAKEN: &str = "TAKEN";
/// Array of [`Subordinates`](crate::records::Subordinates), by ascending ids, apart from each other.
pub const SUBORDINATES: &str = "SUBORDINATES";
/// `u64` (process id << 32 | thread id) → [`Current`](crate::records::Current).
pub const CURRENT: &str = "CURRENT";
/// `u64` (process id << 32 | thread id) → a call that has not returned.
pub const IN_FLIGHT: &str = "IN_FLIGHT";
/// Ring of [`News`](crate::records::News) and [`Handed`](crate::records::Handed), without wake-ups.
pub const NEWS: &str = "NEWS";
/// Ring of [`Exit`](crate::records::Exit), with wake-ups.
pub const EXITS: &str = "EXITS";
/// `u32`, a place's cookie → the program (descriptor) of the function there, for
/// [`ENTER_ANY`](crate::functions::ENTER_ANY) and [`LEAVE_ANY`](crate::functions::LEAVE_ANY). Its contents last
/// as long as a descriptor of it.
pub const PROGRAMS: &str = "PROGRAMS";
/// Per-CPU array of `u64`, by [`Lost`](crate::records::Lost).
pub const LOST: &str = "LOST";

/// How many [`SUBORDINATES`] there may be: a power of two.
pub const MOST_SUBORDINATES: u32 = 4096;

/// The sizes of the maps that are shared, by [`Share`](crate::records::Share).
pub const CAPACITIES: [u32; crate::records::SHARES] =
    [4096, 16384, 1 << 20, 1 << 18, 1 << 18, 8192, 16384, 32768];

/// Maps whose keys are [`Object`](crate::records::Object)s: a dead process's entries are its reader's
/// to remove. [`BYTES`] as well, when it has been read.
pub const SWEPT: [&str; 7] = [
    ALLOCATIONS,
    PHYSICAL,
    MAPPINGS,
    CONTEXTS,
    PRIMARIES,
    POOLS,
    DEVICES,
];
