//! The maps, by the names of `rtswap_probe_abi::maps`. The loader may give them other sizes.

use core::intrinsics::{AtomicOrdering, atomic_xadd};

use aya_ebpf::Global;
use aya_ebpf::bindings::BPF_F_NO_PREALLOC;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap, PerCpuArray, ProgramArray, RingBuf};
use rtswap_probe_abi::maps::{CAPACITIES, MOST_SUBORDINATES};
use rtswap_probe_abi::records::{
    Account, Allocation, Bytes, Config, Context, Current, LOSSES, Lost, Mapping, Object, Physical,
    Process, SHARES, Share, Subordinates, Taken,
};

use crate::frame::Frame;

/// Set by the loader.
#[unsafe(no_mangle)]
static CONFIG: Global<Config> = Global::new(Config {
    namespace_device: 0,
    namespace_inode: 0,
    watermark_bytes: 0,
    group_dead_at: 0,
    flags: 0,
    capacities: [0; SHARES],
    subordinates: 0,
    zero: 0,
});

const fn capacity(what: Share) -> u32 {
    CAPACITIES[what as usize]
}

#[map]
pub static PROCESSES: HashMap<u32, Process> =
    HashMap::with_max_entries(capacity(Share::Processes), 0);
#[map]
pub static BYTES: HashMap<Account, Bytes> = HashMap::with_max_entries(capacity(Share::Accounts), 0);
#[map]
pub static ALLOCATIONS: HashMap<Object, Allocation> =
    HashMap::with_max_entries(capacity(Share::Allocations), BPF_F_NO_PREALLOC);
#[map]
pub static PHYSICAL: HashMap<Object, Physical> =
    HashMap::with_max_entries(capacity(Share::Physical), BPF_F_NO_PREALLOC);
#[map]
pub static MAPPINGS: HashMap<Object, Mapping> =
    HashMap::with_max_entries(capacity(Share::Mappings), BPF_F_NO_PREALLOC);
#[map]
pub static CONTEXTS: HashMap<Object, Context> =
    HashMap::with_max_entries(capacity(Share::Names), BPF_F_NO_PREALLOC);
#[map]
pub static PRIMARIES: HashMap<Object, u64> =
    HashMap::with_max_entries(capacity(Share::Names), BPF_F_NO_PREALLOC);
#[map]
pub static POOLS: HashMap<Object, u32> =
    HashMap::with_max_entries(capacity(Share::Names), BPF_F_NO_PREALLOC);
#[map]
pub static DEVICES: HashMap<Object, [u8; 16]> =
    HashMap::with_max_entries(capacity(Share::Names), BPF_F_NO_PREALLOC);
// As many as processes that each are their owner's only one, and those that ended since it was corrected.
#[map]
pub static OWNERS: HashMap<u32, Taken> =
    HashMap::with_max_entries(2 * capacity(Share::Processes), 0);
#[map]
pub static TAKEN: Array<Taken> = Array::with_max_entries(1, 0);
#[map]
pub static SUBORDINATES: Array<Subordinates> = Array::with_max_entries(MOST_SUBORDINATES, 0);
#[map]
pub static CURRENT: HashMap<u64, Current> =
    HashMap::with_max_entries(capacity(Share::Threads), BPF_F_NO_PREALLOC);
#[map]
pub static IN_FLIGHT: HashMap<u64, Frame> = HashMap::with_max_entries(capacity(Share::Calls), 0);
#[map]
pub static NEWS: RingBuf = RingBuf::with_byte_size(4 << 20, 0);
#[map]
pub static EXITS: RingBuf = RingBuf::with_byte_size(256 << 10, 0);
#[map]
pub static PROGRAMS: ProgramArray = ProgramArray::with_max_entries(64, 0);
#[map]
static LOST: PerCpuArray<u64> = PerCpuArray::with_max_entries(LOSSES, 0);

/// What the loader said.
#[inline(always)]
pub fn config() -> Config {
    CONFIG.load()
}

/// Adds to an integer that others may add to at once; what it was before.
///
/// # Safety
/// `at` is in the value of a map.
#[inline(always)]
pub unsafe fn add(at: *mut i64, value: i64) -> i64 {
    // Not relaxed: for that LLVM chooses an instruction that gives nothing back, and takes the addend for it.
    // SAFETY: by the caller's promise; the kernel's verifier checks it as well.
    unsafe { atomic_xadd::<i64, i64, { AtomicOrdering::AcqRel }>(at, value) }
}

/// As [`add`], of 32 bits.
///
/// # Safety
/// `at` is in the value of a map.
#[inline(always)]
pub unsafe fn add_narrow(at: *mut u32, value: i32) -> u32 {
    // SAFETY: as in `add`.
    unsafe { atomic_xadd::<u32, u32, { AtomicOrdering::AcqRel }>(at, value.cast_unsigned()) }
}

/// Adds to a counter.
///
/// # Safety
/// `at` is in the value of a map.
#[inline(always)]
pub unsafe fn count(at: *mut u64, value: u64) {
    // SAFETY: by the caller's promise.
    let _ = unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(at, value) };
}

/// Counts what is lost for all processes together.
#[inline(always)]
pub fn lose(what: Lost, value: u64) {
    if let Some(at) = LOST.get_ptr_mut(what as u32) {
        // Atomic though it is this CPU's: a program may be preempted by another one.
        // SAFETY: the map's value.
        unsafe { count(at, value) }
    }
}
