//! Modules, libraries, their kernels and variables, and look-ups.

use super::objects::Object::{Device, Function, Kernel, Library, Mode, Module, WithVariable};
use super::query::Arg::{Gives, Is, Of, Text};
use super::query::Query;

pub(super) const QUERIES: &[Query] = &[
    Query::new("cuFuncGetAttribute", &[Gives(4), Is(0), Of(Function)]),
    Query::new("cuFuncGetModule", &[Gives(8), Of(Function)]),
    Query::new("cuFuncGetName", &[Gives(8), Of(Function)]),
    Query::new(
        "cuFuncGetParamInfo",
        &[Of(Function), Is(0), Gives(8), Gives(8)],
    ),
    Query::new("cuModuleGetLoadingMode", &[Gives(4)]),
    Query::new(
        "cuModuleGetFunction",
        &[Gives(8), Of(Module), Text(c"fill")],
    ),
    Query::new("cuModuleGetFunctionCount", &[Gives(4), Of(Module)]),
    Query::new(
        "cuModuleGetGlobal_v2",
        &[Gives(8), Gives(8), Of(WithVariable), Text(c"variable")],
    ),
    Query::maybe(
        "cuModuleGetGlobal",
        &[Gives(4), Gives(4), Of(WithVariable), Text(c"variable")],
    ),
    Query::new(
        "cuLibraryGetKernel",
        &[Gives(8), Of(Library), Text(c"fill")],
    ),
    Query::new("cuLibraryGetKernelCount", &[Gives(4), Of(Library)]),
    Query::new("cuLibraryGetModule", &[Gives(8), Of(Library)]),
    Query::new(
        "cuLibraryGetGlobal",
        &[Gives(8), Gives(8), Of(Library), Text(c"variable")],
    ),
    Query::new(
        "cuKernelGetAttribute",
        &[Gives(4), Is(0), Of(Kernel), Of(Device)],
    ),
    Query::new("cuKernelGetFunction", &[Gives(8), Of(Kernel)]),
    Query::new("cuKernelGetLibrary", &[Gives(8), Of(Kernel)]),
    Query::new("cuKernelGetName", &[Gives(8), Of(Kernel)]),
    Query::new(
        "cuKernelGetParamInfo",
        &[Of(Kernel), Is(0), Gives(8), Gives(8)],
    ),
    Query::new(
        "cuOccupancyMaxActiveBlocksPerMultiprocessor",
        &[Gives(4), Of(Function), Is(256), Is(0)],
    ),
    Query::new(
        "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
        &[Gives(4), Of(Function), Is(256), Is(0), Is(0)],
    ),
    Query::new(
        "cuOccupancyMaxPotentialBlockSize",
        &[Gives(4), Gives(4), Of(Function), Is(0), Is(0), Is(0)],
    ),
    Query::new("cuGetErrorName", &[Is(1), Gives(8)]),
    Query::new("cuGetErrorString", &[Is(1), Gives(8)]),
    Query::new(
        "cuGetProcAddress",
        &[Text(c"cuMemAlloc"), Gives(8), Is(12_000), Is(0)],
    ),
    Query::new(
        "cuGetProcAddress_v2",
        &[Text(c"cuMemAlloc"), Gives(8), Is(12_000), Is(0), Gives(4)],
    ),
    // No driver has a table of this id.
    Query::maybe("cuGetExportTable", &[Gives(8), Text(c"no id of any table")]),
    Query::new("cuThreadExchangeStreamCaptureMode", &[Of(Mode)]),
];
