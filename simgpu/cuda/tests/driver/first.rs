//! The first forms of functions: they do the work, with addresses of 32 bits.

use crate::stage::{call, isolated, made, ok, place};

const BYTES: usize = 100_000;

#[test]
fn first_forms_allocate_copy_and_free() {
    let name = "first::first_forms_allocate_copy_and_free";
    isolated(name, &[], || {
        ok("cuInit", &[0]);
        let context = made("cuCtxCreate", &[0, 0]);
        let mut address = [0xffff_ffff_u32; 2];
        ok("cuMemAlloc", &[place(&mut address[0]), BYTES]);
        // A word is all that may be written.
        assert!(address[0] != 0 && address[1] == u32::MAX, "{address:x?}");
        let (at, other) = (address[0] as usize, {
            let mut other = 0_u32;
            ok("cuMemAlloc", &[place(&mut other), BYTES]);
            other as usize
        });
        let mut data: Vec<u8> = (0..BYTES).map(|byte| byte as u8).collect();
        let mut back = vec![0_u8; BYTES];
        ok("cuMemcpyHtoD", &[at, place(&mut data[0]), BYTES]);
        ok("cuMemcpyDtoD", &[other, at, BYTES]);
        ok("cuMemsetD8", &[at, 7, BYTES]);
        ok("cuMemcpyDtoH", &[place(&mut back[0]), other, BYTES]);
        assert_eq!(back, data);
        ok("cuMemcpyDtoH", &[place(&mut back[0]), at, BYTES]);
        assert!(back.iter().all(|byte| *byte == 7));
        let (mut base, mut size) = (0_u32, 0_u32);
        let range = [place(&mut base), place(&mut size), at + 5];
        ok("cuMemGetAddressRange", &range);
        assert_eq!((base as usize, size as usize), (at, BYTES));
        ok("cuMemFree", &[at]);
        assert_eq!(call("cuMemFree", &[at]), 1);
        ok("cuMemFree", &[other]);
        ok("cuCtxDestroy", &[context]);
        assert_eq!(call("cuMemAlloc", &[place(&mut base), 1]), 201);
    });
}

#[test]
fn a_context_ends_with_its_last_use() {
    let name = "first::a_context_ends_with_its_last_use";
    isolated(name, &[], || {
        ok("cuInit", &[0]);
        let context = made("cuCtxCreate", &[0, 0]);
        assert_eq!(made("cuCtxAttach", &[0]), context);
        ok("cuCtxDetach", &[context]);
        ok("cuCtxSynchronize", &[]);
        ok("cuCtxDetach", &[context]);
        assert_eq!(call("cuCtxSynchronize", &[]), 201);
    });
}

#[test]
fn arrays_have_a_first_form_too() {
    let name = "first::arrays_have_a_first_form_too";
    isolated(name, &[], || {
        ok("cuInit", &[0]);
        made("cuCtxCreate", &[0, 0]);
        // Width, height, CU_AD_FORMAT_FLOAT, channels.
        let mut wanted = [64_u32, 32, 0x20, 4];
        let array = made("cuArrayCreate", &[place(&mut wanted)]);
        let mut told = [0_u32; 5];
        ok("cuArrayGetDescriptor", &[place(&mut told), array]);
        assert_eq!(told, [64, 32, 0x20, 4, 0]);
        ok("cuArrayDestroy", &[array]);
    });
}
