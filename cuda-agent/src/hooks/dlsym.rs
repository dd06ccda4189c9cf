//! `dlsym` and `dlvsym`. Names that are not ours go to the loader by a jump, so that RTLD_NEXT and
//! RTLD_DEFAULT are resolved for the caller and not for us.

use core::ffi::{CStr, c_char, c_void};
use core::ptr::null_mut;
use std::panic::catch_unwind;

use rtswap_agent_core::elf::{Loader, loader};

use super::{Hook, all};

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

unsafe extern "C" fn detour_dlsym(handle: *mut c_void, name: *const c_char) -> Detour {
    // SAFETY: the caller's arguments, for the function that it called.
    let look_up = |loader: &Loader| unsafe { (loader.dlsym)(handle, name) };
    // SAFETY: the caller's name.
    unsafe { detour(handle, name, |loader| loader.dlsym as *mut c_void, look_up) }
}

unsafe extern "C" fn detour_dlvsym(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
) -> Detour {
    // SAFETY: the caller's arguments, for the function that it called.
    let look_up = |loader: &Loader| unsafe { (loader.dlvsym)(handle, name, version) };
    // SAFETY: the caller's name.
    unsafe { detour(handle, name, |loader| loader.dlvsym as *mut c_void, look_up) }
}

/// # Safety
/// `name` is null or a C string.
unsafe fn detour(
    handle: *mut c_void,
    name: *const c_char,
    function: impl Fn(&Loader) -> *mut c_void,
    look_up: impl Fn(&Loader) -> *mut c_void,
) -> Detour {
    let returned = |value| Detour { value, returns: 1 };
    let Some(loader) = loader() else {
        return returned(null_mut());
    };
    // What comes next depends on who asks: looked up by us, a library that comes after us would be
    // handed its own function, and call itself for ever.
    // SAFETY: checked for null, else a C string.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) });
    // A program with a dlsym of its own asks for libc's, by version, which would pass us by.
    if let Some(ours) = name.and_then(|name| own(name, &loader))
        && look_up(&loader) == ours.0
    {
        return returned(ours.1);
    }
    let ours = name.filter(|_| handle != libc::RTLD_NEXT).and_then(hook_of);
    match ours {
        // Found first by the loader, so that a machine without a driver still has none.
        Some(hook) => returned(substitute(hook, look_up(&loader))),
        None => Detour {
            value: function(&loader),
            returns: 0,
        },
    }
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
    if !name.to_bytes().starts_with(b"cu") {
        return None;
    }
    catch_unwind(|| all().find(|hook| hook.name == name))
        .ok()
        .flatten()
}

/// Our function for the driver's; what somebody else defined under that name stays.
fn substitute(hook: &Hook, found: *mut c_void) -> *mut c_void {
    let ours = hook.address as *mut c_void;
    let real = hook.real.get(hook.name);
    if found == ours && real.is_null() {
        null_mut()
    } else if !found.is_null() && found == real {
        ours
    } else {
        found
    }
}
