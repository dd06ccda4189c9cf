//! What programs ask for and nothing here stands for: each is found, says
//! CUDA_ERROR_NOT_SUPPORTED, and logs its name once when `SIMGPU_LOG` is set.

api! {
    11020 unsupported cuMemPoolExportToShareableHandle;
    11020 unsupported cuMemPoolImportFromShareableHandle;
    11020 unsupported cuMemPoolExportPointer;
    11020 unsupported cuMemPoolImportPointer;
    11010 unsupported cuMemMapArrayAsync;
    4010 unsupported cuIpcGetEventHandle;
    4010 unsupported cuIpcOpenEventHandle;
    2000 unsupported cuModuleLoadFatBinary;
    6050 unsupported cuLinkCreate_v2;
    6050 unsupported cuLinkAddData_v2;
    5050 unsupported cuLinkComplete;
    5050 unsupported cuLinkDestroy;
    3000 unsupported cuGetExportTable;
    4000 unsupported cuProfilerStart;
    4000 unsupported cuProfilerStop;
}
