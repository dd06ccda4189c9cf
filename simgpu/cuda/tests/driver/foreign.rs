//! Images of others: they load, their kernels are found, and what a launch comes to.

use std::ffi::CStr;

use crate::stage::{call, isolated, made, ok, place, primary};

const NO_BINARY_FOR_GPU: u32 = 209;
/// A binary of the GPU, a fat binary, and PTX with an entry and a variable that nothing here knows.
const IMAGES: [&CStr; 3] = [
    c"\x7fELF\x02\x01\x01\x33\x07",
    c"\x50\xed\x55\xba\x01",
    c".version 8.0\n.global .u32 table[2] = {1, 2};\n.visible .entry theirs(.param .u64 a)\n{ ret; }\n",
];

fn launch(function: usize) -> u32 {
    let mut argument = 0_u64;
    let mut arguments = [place(&mut argument)];
    call(
        "cuLaunchKernel",
        &[function, 1, 1, 1, 32, 1, 1, 0, 0, place(&mut arguments)],
    )
}

/// Every image's kernel, by both ways of loading.
fn kernels() -> Vec<usize> {
    let name = c"theirs".as_ptr() as usize;
    let kernels = IMAGES.iter().flat_map(|image| {
        let module = made("cuModuleLoadData", &[image.as_ptr() as usize]);
        let library = made("cuLibraryLoadData", &[image.as_ptr() as usize]);
        let function = made("cuModuleGetFunction", &[module, name]);
        let kernel = made("cuLibraryGetKernel", &[library, name]);
        assert_eq!(made("cuModuleGetFunction", &[module, name]), function);
        [function, made("cuKernelGetFunction", &[kernel])]
    });
    kernels.collect()
}

#[test]
fn their_launch_is_refused() {
    isolated("foreign::their_launch_is_refused", &[], || {
        primary();
        for kernel in kernels() {
            let mut registers = 0_u32;
            ok("cuFuncGetAttribute", &[place(&mut registers), 4, kernel]);
            assert_eq!(launch(kernel), NO_BINARY_FOR_GPU);
            let mut text = std::ptr::null::<i8>();
            ok("cuFuncGetName", &[place(&mut text), kernel]);
            // SAFETY: the driver's text, which lives as long as the function.
            assert_eq!(unsafe { CStr::from_ptr(text) }, c"theirs");
        }
        // It is no error that stays.
        ok("cuCtxSynchronize", &[]);
        let module = made("cuModuleLoadData", &[IMAGES[2].as_ptr() as usize]);
        let other = c"no_such".as_ptr() as usize;
        let mut function = 0_usize;
        let asked = [place(&mut function), module, other];
        assert_eq!(call("cuModuleGetFunction", &asked), 500);
        // Its initial values are not read, so the variable is not there.
        let table = c"table".as_ptr() as usize;
        let asked = [place(&mut function), 0, module, table];
        assert_eq!(call("cuModuleGetGlobal_v2", &asked), 500);
        let garbage = c"no image at all".as_ptr() as usize;
        assert_eq!(
            call("cuModuleLoadData", &[place(&mut function), garbage]),
            200
        );
    });
}

#[test]
fn their_launch_does_nothing_on_request() {
    let name = "foreign::their_launch_does_nothing_on_request";
    isolated(name, &[("SIMGPU_FOREIGN_KERNELS", "ignore")], || {
        primary();
        for kernel in kernels() {
            assert_eq!(launch(kernel), 0);
        }
        ok("cuCtxSynchronize", &[]);
    });
}
