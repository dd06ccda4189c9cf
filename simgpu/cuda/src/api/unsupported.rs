//! What the newest driver exports and nothing here stands for, by area: each is found, says CUDA_ERROR_NOT_SUPPORTED, and
//! logs its name once when `SIMGPU_LOG` is set.
//!
//! In parentheses stands what NVIDIA's library says of a null first argument, before cuInit too.

unsupported! {
    // Textures and surfaces.
    3000 cuModuleGetSurfRef;
    2000 cuModuleGetTexRef;
    2000 cuParamSetTexRef;
    5000 cuSurfObjectCreate;
    5000 cuSurfObjectDestroy;
    5000 cuSurfObjectGetResourceDesc;
    3000 cuSurfRefGetArray;
    3000 cuSurfRefSetArray;
    5000 cuTexObjectCreate;
    5000 cuTexObjectDestroy;
    5000 cuTexObjectGetResourceDesc;
    5000 cuTexObjectGetResourceViewDesc;
    5000 cuTexObjectGetTextureDesc;
    2000 cuTexRefCreate;
    2000 cuTexRefDestroy;
    2000 cuTexRefGetAddress;
    2000 cuTexRefGetAddressMode;
    3020 cuTexRefGetAddress_v2;
    2000 cuTexRefGetArray;
    8000 cuTexRefGetBorderColor;
    2000 cuTexRefGetFilterMode;
    2000 cuTexRefGetFlags;
    2000 cuTexRefGetFormat;
    5000 cuTexRefGetMaxAnisotropy;
    5000 cuTexRefGetMipmapFilterMode;
    5000 cuTexRefGetMipmapLevelBias;
    5000 cuTexRefGetMipmapLevelClamp;
    5000 cuTexRefGetMipmappedArray;
    2000 cuTexRefSetAddress;
    2020 cuTexRefSetAddress2D;
    3020 cuTexRefSetAddress2D_v2;
    4010 cuTexRefSetAddress2D_v3;
    2000 cuTexRefSetAddressMode;
    3020 cuTexRefSetAddress_v2;
    2000 cuTexRefSetArray;
    8000 cuTexRefSetBorderColor;
    2000 cuTexRefSetFilterMode;
    2000 cuTexRefSetFlags;
    2000 cuTexRefSetFormat;
    5000 cuTexRefSetMaxAnisotropy;
    5000 cuTexRefSetMipmapFilterMode;
    5000 cuTexRefSetMipmapLevelBias;
    5000 cuTexRefSetMipmapLevelClamp;
    5000 cuTexRefSetMipmappedArray;

    // Other interfaces to graphics: OpenGL, VDPAU, EGL.
    0 cuEGLApiInit;
    7000 cuEGLStreamConsumerAcquireFrame (InvalidHandle);
    7000 cuEGLStreamConsumerConnect (InvalidHandle);
    8000 cuEGLStreamConsumerConnectWithFlags (InvalidHandle);
    7000 cuEGLStreamConsumerDisconnect (InvalidHandle);
    7000 cuEGLStreamConsumerReleaseFrame (InvalidHandle);
    7000 cuEGLStreamProducerConnect (InvalidHandle);
    7000 cuEGLStreamProducerDisconnect (InvalidHandle);
    7000 cuEGLStreamProducerPresentFrame (InvalidHandle);
    7000 cuEGLStreamProducerReturnFrame (InvalidHandle);
    2000 cuGLCtxCreate;
    3020 cuGLCtxCreate_v2;
    4010 cuGLGetDevices;
    6050 cuGLGetDevices_v2;
    2000 cuGLInit;
    2000 cuGLMapBufferObject;
    2030 cuGLMapBufferObjectAsync;
    3020 cuGLMapBufferObjectAsync_v2;
    7000 cuGLMapBufferObjectAsync_v2_ptsz;
    3020 cuGLMapBufferObject_v2;
    7000 cuGLMapBufferObject_v2_ptds;
    2000 cuGLRegisterBufferObject;
    2030 cuGLSetBufferObjectMapFlags;
    2000 cuGLUnmapBufferObject;
    2030 cuGLUnmapBufferObjectAsync;
    2000 cuGLUnregisterBufferObject;
    7000 cuGraphicsEGLRegisterImage;
    3000 cuGraphicsGLRegisterBuffer;
    3000 cuGraphicsGLRegisterImage;
    3000 cuGraphicsMapResources;
    7000 cuGraphicsMapResources_ptsz;
    7000 cuGraphicsResourceGetMappedEglFrame;
    5000 cuGraphicsResourceGetMappedMipmappedArray;
    3000 cuGraphicsResourceGetMappedPointer;
    3020 cuGraphicsResourceGetMappedPointer_v2;
    3000 cuGraphicsResourceSetMapFlags;
    6050 cuGraphicsResourceSetMapFlags_v2;
    3000 cuGraphicsSubResourceGetMappedArray;
    3000 cuGraphicsUnmapResources;
    7000 cuGraphicsUnmapResources_ptsz;
    3000 cuGraphicsUnregisterResource;
    3010 cuGraphicsVDPAURegisterOutputSurface;
    3010 cuGraphicsVDPAURegisterVideoSurface;
    3010 cuVDPAUCtxCreate;
    3020 cuVDPAUCtxCreate_v2;
    3010 cuVDPAUGetDevice;

    // Memory and semaphores of other interfaces.
    10000 cuDestroyExternalMemory;
    10000 cuDestroyExternalSemaphore;
    10000 cuExternalMemoryGetMappedBuffer;
    10000 cuExternalMemoryGetMappedMipmappedArray;
    11020 cuGraphAddExternalSemaphoresSignalNode (InvalidValue);
    11020 cuGraphAddExternalSemaphoresWaitNode (InvalidValue);
    11020 cuGraphExecExternalSemaphoresSignalNodeSetParams (InvalidValue);
    11020 cuGraphExecExternalSemaphoresWaitNodeSetParams (InvalidValue);
    11020 cuGraphExternalSemaphoresSignalNodeGetParams (InvalidValue);
    11020 cuGraphExternalSemaphoresSignalNodeSetParams (InvalidValue);
    11020 cuGraphExternalSemaphoresWaitNodeGetParams (InvalidValue);
    11020 cuGraphExternalSemaphoresWaitNodeSetParams (InvalidValue);
    10000 cuImportExternalMemory;
    10000 cuImportExternalSemaphore;
    10000 cuSignalExternalSemaphoresAsync;
    10000 cuSignalExternalSemaphoresAsync_ptsz;
    10000 cuWaitExternalSemaphoresAsync;
    10000 cuWaitExternalSemaphoresAsync_ptsz;

    // Nodes of graphs beyond those that are built here, and changes to them.
    11070 cuGraphAddBatchMemOpNode (InvalidValue);
    11070 cuGraphBatchMemOpNodeGetParams (InvalidValue);
    11070 cuGraphBatchMemOpNodeSetParams (InvalidValue);
    12030 cuGraphConditionalHandleCreate (InvalidValue);
    11030 cuGraphDebugDotPrint (InvalidValue);
    11010 cuGraphEventRecordNodeGetEvent (InvalidValue);
    11010 cuGraphEventRecordNodeSetEvent (InvalidValue);
    11010 cuGraphEventWaitNodeGetEvent (InvalidValue);
    11010 cuGraphEventWaitNodeSetEvent (InvalidValue);
    11070 cuGraphExecBatchMemOpNodeSetParams (InvalidValue);
    11010 cuGraphExecChildGraphNodeSetParams (InvalidValue);
    11010 cuGraphExecEventRecordNodeSetEvent (InvalidValue);
    11010 cuGraphExecEventWaitNodeSetEvent (InvalidValue);
    10000 cuGraphHostNodeGetParams (InvalidValue);
    10000 cuGraphHostNodeSetParams (InvalidValue);
    11000 cuGraphKernelNodeCopyAttributes;
    11000 cuGraphKernelNodeGetAttribute;
    10000 cuGraphKernelNodeGetParams (InvalidValue);
    12000 cuGraphKernelNodeGetParams_v2 (InvalidValue);
    11000 cuGraphKernelNodeSetAttribute;
    10000 cuGraphKernelNodeSetParams (InvalidValue);
    12000 cuGraphKernelNodeSetParams_v2 (InvalidValue);
    10000 cuGraphMemcpyNodeSetParams (InvalidValue);
    10000 cuGraphMemsetNodeSetParams (InvalidValue);
    10000 cuGraphNodeGetDependentNodes;
    12030 cuGraphNodeGetDependentNodes_v2;
    11060 cuGraphNodeGetEnabled (InvalidValue);
    11060 cuGraphNodeSetEnabled (InvalidValue);
    12020 cuGraphNodeSetParams (InvalidValue);
    10000 cuGraphRemoveDependencies (InvalidValue);
    12030 cuGraphRemoveDependencies_v2 (InvalidValue);

    // Multicast objects.
    12010 cuMulticastAddDevice;
    12010 cuMulticastBindAddr;
    12010 cuMulticastBindMem;
    12010 cuMulticastCreate;
    12010 cuMulticastGetGranularity;
    12010 cuMulticastUnbind;

    // Pools that processes share.
    11020 cuMemPoolExportPointer;
    11020 cuMemPoolExportToShareableHandle;
    11020 cuMemPoolImportFromShareableHandle;
    11020 cuMemPoolImportPointer;

    // Tensor maps.
    12000 cuTensorMapEncodeIm2col;
    12000 cuTensorMapEncodeTiled;
    12000 cuTensorMapReplaceAddress;

    // Linking, and images that are taken apart.
    12040 cuFuncIsLoaded (InvalidValue);
    12040 cuFuncLoad (InvalidHandle);
    2000 cuFuncSetBlockShape;
    4020 cuFuncSetSharedMemConfig;
    2000 cuFuncSetSharedSize;
    12000 cuKernelSetCacheConfig (InvalidHandle);
    12040 cuLibraryEnumerateKernels (InvalidValue);
    12000 cuLibraryGetManaged (InvalidValue);
    12000 cuLibraryGetUnifiedFunction;
    5050 cuLinkAddData (InvalidHandle);
    6050 cuLinkAddData_v2 (InvalidHandle);
    5050 cuLinkAddFile (InvalidHandle);
    6050 cuLinkAddFile_v2 (InvalidHandle);
    5050 cuLinkComplete (InvalidHandle);
    5050 cuLinkCreate;
    6050 cuLinkCreate_v2;
    5050 cuLinkDestroy (InvalidHandle);
    12040 cuModuleEnumerateFunctions (InvalidValue);
    2000 cuModuleLoadFatBinary;

    // Launches from before CUDA 4, and of several devices at once.
    2000 cuLaunch;
    9000 cuLaunchCooperativeKernelMultiDevice;
    2000 cuLaunchGrid;
    2000 cuLaunchGridAsync;
    2000 cuParamSetSize;
    2000 cuParamSetf;
    2000 cuParamSeti;
    2000 cuParamSetv;

    // Arrays and their copies by 32-bit addresses; sparse arrays.
    11060 cuArrayGetMemoryRequirements (InvalidValue);
    11020 cuArrayGetPlane (InvalidHandle);
    11010 cuArrayGetSparseProperties (InvalidValue);
    11010 cuMemMapArrayAsync (InvalidValue);
    11010 cuMemMapArrayAsync_ptsz (InvalidValue);
    2000 cuMemcpy2D;
    2000 cuMemcpy2DAsync;
    2000 cuMemcpy2DUnaligned;
    2000 cuMemcpy3D;
    2000 cuMemcpy3DAsync;
    2000 cuMemcpyAtoA;
    2000 cuMemcpyAtoD;
    2000 cuMemcpyAtoH;
    2000 cuMemcpyAtoHAsync;
    2000 cuMemcpyDtoA;
    2000 cuMemcpyHtoA;
    2000 cuMemcpyHtoAAsync;
    11060 cuMipmappedArrayGetMemoryRequirements (InvalidValue);
    11010 cuMipmappedArrayGetSparseProperties (InvalidValue);

    // What is known of ranges.
    0 cuMemGetAttribute (NotSupported);
    0 cuMemGetAttribute_v2 (NotSupported);
    11070 cuMemGetHandleForAddressRange (InvalidValue);
    8000 cuMemRangeGetAttribute;
    8000 cuMemRangeGetAttributes;

    // Contexts, green contexts and streams.
    12040 cuCtxGetDevResource (InvalidValue);
    11040 cuCtxGetExecAffinity;
    12050 cuCtxRecordEvent;
    12050 cuCtxWaitEvent;
    12040 cuDevSmResourceSplitByCount;
    12040 cuGreenCtxRecordEvent (InvalidContext);
    12040 cuGreenCtxWaitEvent (InvalidContext);
    11000 cuStreamCopyAttributes;
    11000 cuStreamCopyAttributes_ptsz;
    11000 cuStreamGetAttribute;
    11000 cuStreamGetAttribute_ptsz;
    11000 cuStreamSetAttribute;
    11000 cuStreamSetAttribute_ptsz;

    // Devices and occupancy.
    11040 cuDeviceGetExecAffinitySupport;
    10000 cuDeviceGetLuid;
    10020 cuDeviceGetNvSciSyncAttributes;
    2000 cuDeviceGetProperties;
    11010 cuDeviceGetTexture1DLinearMaxWidth;
    12040 cuDeviceRegisterAsyncNotification;
    12040 cuDeviceUnregisterAsyncNotification;
    11030 cuFlushGPUDirectRDMAWrites;
    10020 cuOccupancyAvailableDynamicSMemPerBlock;
    11070 cuOccupancyMaxActiveClusters (InvalidValue);
    7000 cuOccupancyMaxPotentialBlockSizeWithFlags;
    11070 cuOccupancyMaxPotentialClusterSize (InvalidValue);

    // For tools: core dumps, profilers.
    12010 cuCoredumpGetAttribute (InvalidValue);
    12010 cuCoredumpGetAttributeGlobal (InvalidValue);
    12010 cuCoredumpSetAttribute (InvalidValue);
    12010 cuCoredumpSetAttributeGlobal (InvalidValue);
    4000 cuProfilerInitialize (NotSupported);
    4000 cuProfilerStart;
    4000 cuProfilerStop;

    // Messages of the driver, since CUDA 12.8.
    12080 cuLogsRegisterCallback;
    12080 cuLogsUnregisterCallback;
    12080 cuLogsCurrent;
    12080 cuLogsDumpToFile;
    12080 cuLogsDumpToMemory;

    // For debuggers, which find them by dlsym and ask before cuInit.
    0 cudbgApiAttach (NotSupported);
    0 cudbgApiDetach (NotSupported);
    0 cudbgApiInit (NotSupported);
    0 cudbgGetAPI (NotSupported);
    0 cudbgGetAPIVersion (NotSupported);
    0 cudbgMain (NotSupported);
    0 cudbgReportDriverApiError (NotSupported);
    0 cudbgReportDriverInternalError (NotSupported);
}
