//! `dlsym` and `dlvsym`. Names that are not ours go to the loader by a jump, so that RTLD_NEXT and
//! RTLD_DEFAULT are resolved for the caller and not for us.

use core::cell::Cell;
use core::ffi::{CStr, c_char, c_void};
use core::ptr::null_mut;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rtswap_agent_core::agent::{agent, may_start};
use rtswap_agent_core::elf::{Loader, loader};
use rtswap_agent_core::objects::{is_loaded, next_definition, rebind_new};

use super::{Hook, all, nvml};

/// What the jump does: return `value`, or go on to it.
#[repr(C)]
struct Detour {
    value: *mut c_void,
    returns: usize,
}

/// Exports `$name`, which goes on to `$ours`: the exported name itself may stand for somebody else's
/// function, even here.
macro_rules! export {
    ($name:ident => $ours:ident ($($arg:ident: $ty:ty),*)) => {
        /// # Safety
        /// As the loader's function of this name.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $name($($arg: $ty),*) -> *mut c_void {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!("jmp {ours}", ours = sym $ours);
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!("b {ours}", ours = sym $ours);
        }
    };
}

export!(dlsym => our_dlsym(handle: *mut c_void, name: *const c_char));
export!(dlvsym => our_dlvsym(
    handle: *mut c_void, name: *const c_char, version: *const c_char));

/// # Safety
/// As dlsym.
#[unsafe(naked)]
unsafe extern "C" fn our_dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "mov rdx, [rsp + 24]",
        "call {detour}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test rdx, rdx",
        "jne 2f",
        "jmp rax",
        "2: ret",
        detour = sym detour_dlsym,
    );
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!(
        "stp x29, x30, [sp, #-32]!",
        "stp x0, x1, [sp, #16]",
        "mov x2, x30",
        "bl {detour}",
        "mov x16, x0",
        "mov x17, x1",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "cbnz x17, 2f",
        "br x16",
        "2: mov x0, x16",
        "ret",
        detour = sym detour_dlsym,
    );
}

/// # Safety
/// As dlvsym.
#[unsafe(naked)]
unsafe extern "C" fn our_dlvsym(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
) -> *mut c_void {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "push rdx",
        "mov rcx, [rsp + 24]",
        "call {detour}",
        "mov rcx, rdx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "test rcx, rcx",
        "jne 2f",
        "jmp rax",
        "2: ret",
        detour = sym detour_dlvsym,
    );
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!(
        "stp x29, x30, [sp, #-48]!",
        "stp x0, x1, [sp, #16]",
        "str x2, [sp, #32]",
        "mov x3, x30",
        "bl {detour}",
        "mov x16, x0",
        "mov x17, x1",
        "ldp x0, x1, [sp, #16]",
        "ldr x2, [sp, #32]",
        "ldp x29, x30, [sp], #48",
        "cbnz x17, 2f",
        "br x16",
        "2: mov x0, x16",
        "ret",
        detour = sym detour_dlvsym,
    );
}

unsafe extern "C" fn detour_dlsym(
    handle: *mut c_void,
    name: *const c_char,
    caller: usize,
) -> Detour {
    // SAFETY: the caller's arguments, for the function that it called.
    let look_up = |loader: &Loader| unsafe { (loader.dlsym)(handle, name) };
    // SAFETY: the caller's name.
    unsafe {
        detour(
            handle,
            name,
            caller,
            |loader| loader.dlsym as *mut c_void,
            look_up,
        )
    }
}

unsafe extern "C" fn detour_dlvsym(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
    caller: usize,
) -> Detour {
    // SAFETY: the caller's arguments, for the function that it called.
    let look_up = |loader: &Loader| unsafe { (loader.dlvsym)(handle, name, version) };
    // SAFETY: the caller's name.
    unsafe {
        detour(
            handle,
            name,
            caller,
            |loader| loader.dlvsym as *mut c_void,
            look_up,
        )
    }
}

/// # Safety
/// `name` is null or a C string.
unsafe fn detour(
    handle: *mut c_void,
    name: *const c_char,
    caller: usize,
    function: impl Fn(&Loader) -> *mut c_void,
    look_up: impl Fn(&Loader) -> *mut c_void,
) -> Detour {
    let returned = |value| Detour { value, returns: 1 };
    let Some(loader) = loader() else {
        return returned(null_mut());
    };
    if handle != libc::RTLD_NEXT && handle != libc::RTLD_DEFAULT {
        rebind(&loader);
    }
    // SAFETY: checked for null, else a C string.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) });
    // A program with a dlsym of its own asks for libc's, by version, which would pass us by.
    if let Some(ours) = name.and_then(|name| own(name, &loader))
        && look_up(&loader) == ours.0
    {
        return returned(ours.1);
    }
    let ours = name.and_then(hook_of);
    match ours {
        // What comes next depends on who asks. Who comes before us, or meets another library first,
        // gets what the loader finds.
        Some(hook) if handle == libc::RTLD_NEXT => {
            let real = hook.real.get(hook.name);
            let next = contained(|| next_for(&loader, caller, hook.name)).flatten();
            if !real.is_null() && next == Some(real) {
                return returned(hook.address as *mut c_void);
            }
        }
        // Found first by the loader, so that a machine without a driver still has none.
        Some(hook) => return returned(substitute(hook, look_up(&loader))),
        None => {}
    }
    Detour {
        value: function(&loader),
        returns: 0,
    }
}

/// What RTLD_NEXT means to the object that holds the address `caller`: the first definition in what
/// was loaded after it; for a library that was loaded last, the first in what it depends on.
fn next_for(loader: &Loader, caller: usize, name: &CStr) -> Option<*mut c_void> {
    const RTLD_DL_LINKMAP: libc::c_int = 2;
    if let Some(found) = next_definition(caller, name) {
        return Some(found);
    }
    let mut info = core::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let mut object = null_mut();
    let caller = caller as *const c_void;
    // SAFETY: fills what it finds. A link map is what the loader uses as a handle.
    unsafe {
        libc::dladdr1(caller, info.as_mut_ptr(), &raw mut object, RTLD_DL_LINKMAP);
        (!object.is_null()).then(|| (loader.dlsym)(object, name.as_ptr()))
    }
}

fn contained<T>(body: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(body)).ok()
}

/// Libraries loaded with RTLD_DEEPBIND are bound to the driver and to the loader itself, past us.
/// Who loads one looks something up in it by its handle: then its slots are ours. In a process that
/// cannot have an agent nothing is touched.
fn rebind(loader: &Loader) {
    // Another preloaded library may come before us: then its functions belong into empty slots.
    let is_first = Cell::new(false);
    let prepare = || {
        let library = is_loaded(c"libnvidia-ml.so").then_some(nvml::HOOKS);
        for hook in all().chain(library.into_iter().flatten()) {
            hook.real.get(hook.name);
        }
        // Under the loader's lock, which is free again once all that was being loaded is.
        // SAFETY: a lookup by the loader's own function.
        let first = unsafe { (loader.dlsym)(libc::RTLD_DEFAULT, c"dlsym".as_ptr()) };
        is_first.set(first == dlsym as *mut c_void);
    };
    let rebound = |name: &CStr, now: Option<*mut c_void>| {
        let (theirs, ours) = own(name, loader).or_else(|| {
            let hook = hook_of(name)?;
            Some((hook.real.known()?, hook.address as *mut c_void))
        })?;
        now.map_or(is_first.get(), |now| now == theirs)
            .then_some(ours)
    };
    let has_agent = || agent().is_some();
    // SAFETY: each of ours has the signature of what it stands for.
    contained(|| unsafe { rebind_new(c"libcuda.so.1", has_agent, may_start, prepare, rebound) });
}

/// The loader's function and ours for it. Ours calls the loader's own, so that whoever is handed it
/// meets no loop.
fn own(name: &CStr, loader: &Loader) -> Option<(*mut c_void, *mut c_void)> {
    match name.to_bytes() {
        b"dlsym" => Some((loader.dlsym as *mut c_void, our_dlsym as *mut c_void)),
        b"dlvsym" => Some((loader.dlvsym as *mut c_void, our_dlvsym as *mut c_void)),
        _ => None,
    }
}

fn hook_of(name: &CStr) -> Option<&'static Hook> {
    let is_named = |hook: &&Hook| hook.name == name;
    let bytes = name.to_bytes();
    if bytes.starts_with(b"cu") {
        contained(|| all().find(is_named)).flatten()
    } else if bytes.starts_with(b"nvml") {
        nvml::HOOKS.iter().find(is_named)
    } else {
        None
    }
}

/// Our function for the library's; what somebody else defined under that name stays.
fn substitute(hook: &Hook, found: *mut c_void) -> *mut c_void {
    if found.is_null() {
        // Looking up the real one would replace the loader's message for dlerror.
        return found;
    }
    let ours = hook.address as *mut c_void;
    let real = hook.real.get(hook.name);
    if found == ours && real.is_null() {
        null_mut()
    } else if found == real {
        ours
    } else {
        found
    }
}
