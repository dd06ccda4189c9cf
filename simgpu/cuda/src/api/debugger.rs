//! Variables of the driver that debuggers look at: all are there, and say that there is nothing to debug.

#![allow(non_upper_case_globals, reason = "the names are the driver's")]

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

macro_rules! variables {
    ($($type:ident: $($name:ident)*;)*) => {
        $($(
            #[unsafe(no_mangle)]
            static $name: $type = $type::new(0);
        )*)*
    };
}

variables! {
    AtomicU32:
        cudbgApiClientPid
        cudbgApiClientRevision
        cudbgAttachHandlerAvailable
        cudbgDebuggerCapabilities
        cudbgDebuggerInitialized
        cudbgDetachSuspendedDevicesMask
        cudbgEnableIntegratedMemcheck
        cudbgEnableLaunchBlocking
        cudbgEnablePreemptionDebugging
        cudbgIpcFlag
        cudbgReportDriverApiErrorFlags
        cudbgResumeForAttachDetach
        cudbgRpcEnabled
        cudbgSessionId
        cudbgUseExternalDebugger
    ;
    AtomicU64:
        cudbgReportedDriverApiErrorCode
        cudbgReportedDriverApiErrorFuncNameAddr
        cudbgReportedDriverApiErrorFuncNameSize
        cudbgReportedDriverInternalErrorCode
    ;
}

/// The path of a library that a debugger wants loaded.
#[unsafe(no_mangle)]
static cudbgInjectionPath: [AtomicU8; 4096] = [const { AtomicU8::new(0) }; 4096];
