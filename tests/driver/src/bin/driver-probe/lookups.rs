//! What cuGetProcAddress hands out.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::fmt::Write as _;
use std::io::Write as _;
use std::ptr;

use anyhow::Result;

use rtswap_driver_tests::lookups::{FLAGS, VERSIONS};

use crate::library::Library;

type First = unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64) -> c_uint;
type Second =
    unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut c_int) -> c_uint;

/// What an address is before the call: no function is there.
const UNTOUCHED: *mut c_void = ptr::without_provenance_mut(1);
/// What a status is before the call.
const UNWRITTEN: c_int = -1;

/// Prints `driver VERSION`, then `FUNCTION NAME FLAGS ANSWERS`, where ANSWERS has `VERSION:CODE/EXPORT/STATUS` for the
/// first of each run of versions with the same answer. EXPORT is the name of the export at the address that was handed
/// out, `null`, `kept` where the pointer was not written, or `?` for the address of no export.
pub(crate) fn print(library: &Library, names: &[CString]) -> Result<()> {
    let exports = library.names_by_address(names);
    let first = library.address(c"cuGetProcAddress");
    let second = library.address(c"cuGetProcAddress_v2");
    println!("driver {}", library.version()?);
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    if !first.is_null() {
        // SAFETY: the driver's function of this name has this signature.
        let first = unsafe { std::mem::transmute::<*mut c_void, First>(first) };
        let ask = |name: &CStr, version, flags| {
            let mut address = UNTOUCHED;
            // SAFETY: a C string, and a place for the address.
            let code = unsafe { first(name.as_ptr(), &raw mut address, version, flags) };
            (code, address, UNWRITTEN)
        };
        all("cuGetProcAddress", names, &exports, ask, &mut out)?;
    }
    if !second.is_null() {
        // SAFETY: as above.
        let second = unsafe { std::mem::transmute::<*mut c_void, Second>(second) };
        let ask = |name: &CStr, version, flags| {
            let (mut address, mut status) = (UNTOUCHED, UNWRITTEN);
            // SAFETY: as above, and a place for the status.
            let code = unsafe {
                second(
                    name.as_ptr(),
                    &raw mut address,
                    version,
                    flags,
                    &raw mut status,
                )
            };
            (code, address, status)
        };
        all("cuGetProcAddress_v2", names, &exports, ask, &mut out)?;
    }
    Ok(out.flush()?)
}

fn all(
    function: &str,
    names: &[CString],
    exports: &HashMap<usize, &CStr>,
    ask: impl Fn(&CStr, c_int, u64) -> (c_uint, *mut c_void, c_int),
    out: &mut impl std::io::Write,
) -> Result<()> {
    for name in names {
        for flags in FLAGS {
            let mut line = format!("{function} {} {flags}", name.to_string_lossy());
            let mut last = None;
            for version in VERSIONS {
                let (code, address, status) = ask(name, *version, flags);
                let answer = (code, address, status);
                if last == Some(answer) {
                    continue;
                }
                last = Some(answer);
                let export = match address {
                    UNTOUCHED => "kept".into(),
                    _ if address.is_null() => "null".into(),
                    _ => exports
                        .get(&address.addr())
                        .map_or("?".into(), |name| name.to_string_lossy()),
                };
                write!(line, " {version}:{code}/{export}/")?;
                match status {
                    UNWRITTEN => line.push('-'),
                    written => write!(line, "{written}")?,
                }
            }
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}
