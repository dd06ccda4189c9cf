//! What the loader has loaded: what comes next for whom, and who was bound past us.
//!
//! A preloaded library is first in the global scope, but two ways lead around it. RTLD_NEXT means
//! what comes after the caller, and RTLD_DEEPBIND has a library bound to its own dependencies before
//! anything global. The first is answered here for the caller; the slots of the second are rebound at
//! the first look-up once their library is there. Each thread that looks something up scans what is new
//! by itself and waits for no other thread: that one may need the loader's lock, which this one may
//! hold.

use core::ffi::{CStr, c_int, c_void};
use core::ops::Range;

mod scan;

use scan::{ScanGuard, Scanned, Settled, Snapshot};

use crate::elf::{DT_STRTAB, DT_SYMTAB, Dynamic, Symbol, address, find_in, values};

/// One loaded object.
pub struct Object<'a> {
    info: &'a libc::dl_phdr_info,
    headers: &'a [libc::Elf64_Phdr],
}

const DT_PLTRELSZ: i64 = 2;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;
/// How many entries at the beginning of DT_RELA have no symbol.
const DT_RELACOUNT: i64 = 0x6fff_fff9;

#[cfg(target_arch = "x86_64")]
const SLOTS: [u32; 2] = [6, 7];
#[cfg(target_arch = "aarch64")]
const SLOTS: [u32; 2] = [1025, 1026];

/// Elf64_Rela.
#[repr(C)]
struct Relocation {
    offset: usize,
    info: u64,
    addend: i64,
}

/// Calls `each` with all objects in the loader's order until it gives false.
///
/// The loader's lock is held meanwhile: nothing of the loader may be called.
fn for_each(mut each: &mut dyn FnMut(&Object<'_>) -> bool) {
    unsafe extern "C" fn one(
        info: *mut libc::dl_phdr_info,
        _bytes: usize,
        each: *mut c_void,
    ) -> c_int {
        // SAFETY: what the loader gives for the length of this call, and the closure given below.
        let (info, each) = unsafe {
            (
                &*info,
                &mut *each.cast::<&mut dyn FnMut(&Object<'_>) -> bool>(),
            )
        };
        // SAFETY: the object's program headers.
        let headers =
            unsafe { core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        c_int::from(!each(&Object { info, headers }))
    }
    // SAFETY: `each` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(one), (&raw mut each).cast()) };
}

impl Object<'_> {
    fn base(&self) -> usize {
        self.info.dlpi_addr as usize
    }

    fn contains(&self, address: usize) -> bool {
        self.headers.iter().any(|header| {
            let start = self.base().wrapping_add(header.p_vaddr as usize);
            header.p_type == libc::PT_LOAD && address.wrapping_sub(start) < header.p_memsz as usize
        })
    }

    fn dynamic(&self) -> Option<*const Dynamic> {
        let header = self
            .headers
            .iter()
            .find(|header| header.p_type == libc::PT_DYNAMIC)?;
        Some((self.base() + header.p_vaddr as usize) as *const Dynamic)
    }

    fn find(&self, symbol: &CStr) -> Option<*mut c_void> {
        // SAFETY: the dynamic section of a loaded object.
        unsafe { find_in(self.base(), self.dynamic()?, symbol) }
    }

    fn is_named(&self, name: &CStr) -> bool {
        self.file_name() == Some(name.to_bytes())
    }

    fn file_name(&self) -> Option<&[u8]> {
        if self.info.dlpi_name.is_null() {
            return None;
        }
        // SAFETY: the loader's name of the object, which lives as long as it.
        let path = unsafe { CStr::from_ptr(self.info.dlpi_name) };
        path.to_bytes().rsplit(|byte| *byte == b'/').next()
    }

    /// Puts `rebound` of what is in them into the object's slots for functions that others define:
    /// nothing is in those that the first call has yet to fill.
    ///
    /// # Safety
    /// What `rebound` gives for a name may be called instead of what it was given.
    unsafe fn rebind(&self, rebound: &dyn Fn(&CStr, Option<*mut c_void>) -> Option<*mut c_void>) {
        let Some(dynamic) = self.dynamic() else {
            return;
        };
        let base = self.base();
        let tags = [
            DT_STRTAB,
            DT_SYMTAB,
            DT_JMPREL,
            DT_PLTRELSZ,
            DT_RELA,
            DT_RELASZ,
            DT_RELACOUNT,
        ];
        // SAFETY: the dynamic section of a loaded object.
        let [
            strings,
            symbols,
            calls,
            calls_bytes,
            others,
            others_bytes,
            nameless,
        ] = unsafe { values(dynamic, tags) };
        if strings == 0 || symbols == 0 {
            return;
        }
        let strings = address(base, strings) as *const libc::c_char;
        let symbols = address(base, symbols) as *const Symbol;
        for (table, bytes, first) in [(calls, calls_bytes, 0), (others, others_bytes, nameless)] {
            if table == 0 {
                continue;
            }
            let table = address(base, table) as *const Relocation;
            for index in first..bytes / size_of::<Relocation>() {
                // SAFETY: within the object's table.
                let relocation = unsafe { &*table.add(index) };
                if !SLOTS.contains(&(relocation.info as u32)) {
                    continue;
                }
                // SAFETY: the symbol is the object's own.
                let symbol = unsafe { &*symbols.add((relocation.info >> 32) as usize) };
                if symbol.section != 0 {
                    continue;
                }
                // SAFETY: as the symbol, so its name.
                let name = unsafe { CStr::from_ptr(strings.add(symbol.name as usize)) };
                let slot = (base + relocation.offset) as *mut *mut c_void;
                // SAFETY: a slot of this object, which the loader filled.
                let now = unsafe { slot.read_volatile() };
                let now = Some(now).filter(|now| !self.contains(now.addr()));
                if let Some(better) = rebound(name, now) {
                    // SAFETY: by the caller's promise.
                    unsafe { self.write(slot, better) };
                }
            }
        }
    }

    /// Writes a slot, and leaves its page as the loader did.
    ///
    /// # Safety
    /// `slot` is one of the object's.
    unsafe fn write(&self, slot: *mut *mut c_void, value: *mut c_void) {
        let page = rustix::param::page_size();
        let at = (slot.addr() & !(page - 1)) as *mut c_void;
        let sealed = self.sealed(page).contains(&slot.addr());
        // SAFETY: a page of the object's data, which stays readable throughout; an aligned word.
        unsafe {
            if sealed && libc::mprotect(at, page, libc::PROT_READ | libc::PROT_WRITE) != 0 {
                return;
            }
            slot.write_volatile(value);
            if sealed {
                libc::mprotect(at, page, libc::PROT_READ);
            }
        }
    }

    /// The pages of `page` bytes that the loader makes read-only once the slots are filled. As in
    /// glibc's `_dl_protect_relro` both ends of PT_GNU_RELRO are rounded down: the rest of its last page
    /// holds variables of the program, and stays writable.
    fn sealed(&self, page: usize) -> Range<usize> {
        let is_relro = |header: &&libc::Elf64_Phdr| header.p_type == libc::PT_GNU_RELRO;
        let Some(header) = self.headers.iter().rfind(is_relro) else {
            return 0..0;
        };
        let start = self.base().wrapping_add(header.p_vaddr as usize);
        let end = start.wrapping_add(header.p_memsz as usize);
        start & !(page - 1)..end & !(page - 1)
    }
}

/// Whether a library is loaded whose file name begins with `name`. Opens no file, unlike dlopen with
/// RTLD_NOLOAD.
pub fn is_loaded(name: &CStr) -> bool {
    let mut found = false;
    for_each(&mut |object| {
        let file = object.file_name();
        found = file.is_some_and(|file| file.starts_with(name.to_bytes()));
        !found
    });
    found
}

/// What RTLD_NEXT means for `symbol` to the object that holds the address `caller`: the first
/// definition in what was loaded after it.
pub fn next_definition(caller: usize, symbol: &CStr) -> Option<*mut c_void> {
    let (mut after, mut found) = (false, None);
    for_each(&mut |object| {
        if after {
            found = object.find(symbol);
        } else {
            after = object.contains(caller);
        }
        found.is_none()
    });
    found
}

/// Rebinds the slots of all objects that were loaded since the last call, if `driver` is among the
/// loaded ones and `may_rebind` agrees. `rebound` maps a name and the slot's content to the new
/// content. Every object that is loaded when this is called has been scanned when it returns, by
/// whichever thread.
///
/// `has_agent` is asked at each call, `may_rebind` only once for each change of the list; once
/// `has_agent` says yes, a scan that was declined is made up for. `prepare` runs before the slots
/// are touched and must take and release the loader's lock: whoever was loading one of these objects
/// has then relocated and sealed it.
///
/// # Safety
/// The program calls what `rebound` returns in place of the function of that name.
pub unsafe fn rebind_new(
    driver: &CStr,
    has_agent: impl Fn() -> bool,
    may_rebind: impl Fn() -> bool,
    prepare: impl Fn(),
    rebound: impl Fn(&CStr, Option<*mut c_void>) -> Option<*mut c_void>,
) {
    static SETTLED: Settled = Settled::never();
    let mut is_settled = true;
    for_each(&mut |object| {
        is_settled = SETTLED.covers(object.info, &has_agent);
        false
    });
    if is_settled {
        return;
    }
    let Some(_guard) = ScanGuard::enter() else {
        return;
    };
    loop {
        let (mut list, mut is_loaded) = (Snapshot::default(), false);
        for_each(&mut |object| {
            list.add(object.info);
            is_loaded |= object.is_named(driver);
            true
        });
        // Without the driver nothing can be bound to it.
        let is_declined = is_loaded && !may_rebind();
        if is_loaded && !is_declined {
            prepare();
            // SAFETY: by the caller's promise.
            if !unsafe { rebind_list(list, &rebound) } {
                continue;
            }
        }
        SETTLED.record(list, is_declined);
        return;
    }
}

/// Rebinds the slots of the objects of `list` that no earlier call has scanned. Returns false, with
/// nothing done, if the loader's list has changed since: an object that is being loaded must not be
/// touched, for the loader has yet to write its slots and must not find them sealed.
///
/// # Safety
/// As [`rebind_new`].
unsafe fn rebind_list(
    list: Snapshot,
    rebound: &dyn Fn(&CStr, Option<*mut c_void>) -> Option<*mut c_void>,
) -> bool {
    static SCANNED: Scanned = Scanned::nothing();
    let (mut index, mut first, mut is_current) = (0, 0, false);
    // The loader's list stays locked throughout: one thread at a time unseals pages, and a thread that
    // finds an object scanned finds its slots written.
    for_each(&mut |object| {
        if index == 0 {
            is_current = list.is_current(object.info);
            if is_current {
                first = SCANNED.advance(list);
            }
        }
        if is_current && index >= first {
            // SAFETY: by the caller's promise.
            unsafe { object.rebind(rebound) };
        }
        index += 1;
        is_current
    });
    is_current
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;

    #[test]
    fn the_next_definition_is_that_after_the_caller() {
        let libc_getpid = crate::elf::find(c"libc.so.6", c"getpid").expect("glibc");
        let here = the_next_definition_is_that_after_the_caller as *const () as usize;
        assert_eq!(next_definition(here, c"getpid"), Some(libc_getpid));
        // After libc itself there is none, and nothing comes after an address of nobody.
        assert_eq!(next_definition(libc_getpid.addr(), c"getpid"), None);
        assert_eq!(next_definition(8, c"getpid"), None);
        assert_eq!(next_definition(here, c"no_such_symbol_anywhere"), None);
    }

    #[test]
    fn a_loaded_library_is_known_by_how_its_file_name_begins() {
        assert!(is_loaded(c"libc.so"));
        assert!(!is_loaded(c"ibc.so"));
        assert!(!is_loaded(c"libc.so.6.6"));
    }

    #[test]
    fn every_slot_of_a_name_is_seen() {
        let write = crate::elf::find(c"libc.so.6", c"write").expect("glibc");
        let (mut objects, slots) = (0, Cell::new(0));
        for_each(&mut |object| {
            // SAFETY: nothing is given.
            unsafe {
                object.rebind(&|name, now| {
                    slots.set(slots.get() + usize::from(name == c"write" && now == Some(write)));
                    None
                });
            }
            objects += 1;
            true
        });
        assert!(objects > 2 && slots.get() >= 1, "{objects} {slots:?}");
    }

    #[test]
    fn a_slot_is_rebound_though_it_is_sealed() {
        unsafe extern "C" fn ours() -> libc::pid_t {
            -7
        }
        let getppid = crate::elf::find(c"libc.so.6", c"getppid").expect("glibc");
        let put = |from: Option<*mut c_void>, to: *mut c_void| {
            for_each(&mut |object| {
                // SAFETY: both are functions of this signature.
                unsafe {
                    object.rebind(&|name, now| (name == c"getppid" && now == from).then_some(to));
                }
                true
            });
        };
        // SAFETY: the function has no preconditions.
        let call = || unsafe { libc::getppid() };
        let before = call();
        put(Some(getppid), ours as *mut c_void);
        let between = call();
        // What lies in the object itself is taken for what the first call has yet to fill.
        put(None, getppid);
        assert_eq!((between, call()), (-7, before));
    }

    #[test]
    fn a_library_that_is_loaded_during_a_scan_is_scanned_by_it() {
        let (prepared, seen) = (Cell::new(0), Cell::new(0));
        let library = Cell::new(core::ptr::null_mut());
        let scan = || {
            let prepare = || {
                prepared.set(prepared.get() + 1);
                if prepared.get() == 1 {
                    assert_eq!(seen.get(), 0);
                    // SAFETY: a library of glibc's.
                    library
                        .set(unsafe { libc::dlopen(c"libresolv.so.2".as_ptr(), libc::RTLD_NOW) });
                }
                // A look-up within the scan leads here again, and must change nothing.
                // SAFETY: nothing is given.
                unsafe {
                    rebind_new(
                        c"libc.so.6",
                        || true,
                        || true,
                        || unreachable!(),
                        |_, _| None,
                    );
                }
            };
            let rebound = |_: &CStr, _| {
                seen.set(seen.get() + 1);
                None
            };
            // SAFETY: nothing is given.
            unsafe { rebind_new(c"libc.so.6", || true, || true, prepare, rebound) };
            seen.replace(0)
        };
        let all = scan();
        assert_eq!(prepared.get(), 2, "the list had changed");
        assert!(!library.get().is_null() && all > 0);
        assert_eq!((scan(), prepared.get()), (0, 2), "nothing is new");
        // SAFETY: loaded above, and nothing of it is used.
        unsafe { libc::dlclose(library.get()) };
        assert_eq!((scan() > 0, prepared.get()), (true, 3));
    }

    /// The protections of the pages from `at` on, as /proc/self/maps has them.
    fn protections(at: usize, pages: usize) -> Vec<String> {
        let page = rustix::param::page_size();
        let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
        let of = |at: usize| {
            maps.lines().find_map(|line| {
                let (range, rest) = line.split_once(' ')?;
                let (from, to) = range.split_once('-')?;
                let from = usize::from_str_radix(from, 16).ok()?;
                let to = usize::from_str_radix(to, 16).ok()?;
                (from..to).contains(&at).then(|| rest[..4].to_owned())
            })
        };
        let of = |index| of(at + index * page).unwrap_or_default();
        (0..pages).map(of).collect()
    }

    #[test]
    fn pages_are_as_the_loader_left_them_after_a_slot_was_written() {
        const PAGES: usize = 4;
        let page = rustix::param::page_size();
        // SAFETY: new memory.
        let memory = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                PAGES * page,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(memory, libc::MAP_FAILED);
        // Neither end of what is to be read-only lies at the end of a page; all before the last page's
        // beginning is sealed by the loader, from that of the first page on.
        // SAFETY: zeros are valid for numbers and pointers.
        let mut header: libc::Elf64_Phdr = unsafe { core::mem::zeroed() };
        header.p_type = libc::PT_GNU_RELRO;
        header.p_vaddr = (page + 64) as u64;
        header.p_memsz = (2 * page) as u64;
        // SAFETY: as above.
        let mut info: libc::dl_phdr_info = unsafe { core::mem::zeroed() };
        info.dlpi_addr = memory.addr() as u64;
        let object = Object {
            info: &info,
            headers: &[header],
        };
        // SAFETY: pages of the memory above.
        let sealed = unsafe { libc::mprotect(memory.byte_add(page), 2 * page, libc::PROT_READ) };
        assert_eq!(sealed, 0);
        let loaders = protections(memory.addr(), PAGES);
        assert_eq!(loaders, ["rw-p", "r--p", "r--p", "rw-p"]);
        for offset in [
            3 * page,
            3 * page + 56,
            3 * page + 64,
            0,
            page - 8,
            page,
            page + 64,
            2 * page,
            3 * page - 8,
        ] {
            // SAFETY: within the memory above.
            let slot: *mut *mut c_void = unsafe { memory.byte_add(offset) }.cast();
            let value = core::ptr::without_provenance_mut(offset + 1);
            // SAFETY: one of the object's pages.
            let written = unsafe {
                object.write(slot, value);
                slot.read_volatile()
            };
            assert_eq!(written, value, "at {offset}");
            assert_eq!(protections(memory.addr(), PAGES), loaders, "at {offset}");
        }
        // SAFETY: the memory above, which nothing uses any more.
        unsafe { libc::munmap(memory, PAGES * page) };
    }
}
