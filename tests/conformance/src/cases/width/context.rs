//! Contexts, streams and events.

use super::objects::Object::{
    Capturing, Context, Event, Green, GreenStream, Interprocess, Later, Stream,
};
use super::query::Arg::{Fields, Gives, Of};
use super::query::{Arg, Query};

const STATUS: Arg = Gives(4);
/// Without a capture only the status is valid by the documentation; driver 580.159 leaves the id as it was.
const LEFT: Arg = Fields(8, &[]);

pub(super) const QUERIES: &[Query] = &[
    Query::new("cuCtxGetCurrent", &[Gives(8)]),
    Query::new("cuCtxGetDevice", &[Gives(4)]),
    Query::new("cuCtxGetFlags", &[Gives(4)]),
    Query::new("cuCtxGetId", &[Of(Context), Gives(8)]),
    Query::new("cuCtxGetApiVersion", &[Of(Context), Gives(4)]),
    Query::new("cuCtxGetCacheConfig", &[Gives(4)]),
    Query::new("cuCtxGetSharedMemConfig", &[Gives(4)]),
    Query::new("cuCtxGetStreamPriorityRange", &[Gives(4), Gives(4)]),
    Query::new("cuCtxGetLimit", &[Gives(8), Arg::Is(0)]),
    Query::new("cuStreamGetFlags", &[Of(Stream), Gives(4)]),
    Query::new("cuStreamGetFlags_ptsz", &[Of(Stream), Gives(4)]),
    Query::new("cuStreamGetPriority", &[Of(Stream), Gives(4)]),
    Query::new("cuStreamGetPriority_ptsz", &[Of(Stream), Gives(4)]),
    Query::new("cuStreamGetId", &[Of(Stream), Gives(8)]),
    Query::new("cuStreamGetId_ptsz", &[Of(Stream), Gives(8)]),
    Query::new("cuStreamGetCtx", &[Of(Stream), Gives(8)]),
    Query::new("cuStreamGetCtx_ptsz", &[Of(Stream), Gives(8)]),
    Query::new("cuStreamGetCtx_v2", &[Of(Stream), Gives(8), Gives(8)]),
    Query::new("cuStreamGetCtx_v2_ptsz", &[Of(Stream), Gives(8), Gives(8)]),
    Query::new("cuStreamGetDevice", &[Of(Stream), Gives(4)]),
    Query::new("cuStreamGetDevice_ptsz", &[Of(Stream), Gives(4)]),
    Query::new("cuStreamGetGreenCtx", &[Of(Stream), Gives(8)]),
    Query::new("cuStreamGetGreenCtx", &[Of(GreenStream), Gives(8)]),
    Query::new("cuStreamQuery", &[Of(Stream)]),
    Query::new("cuStreamQuery_ptsz", &[Of(Stream)]),
    Query::new("cuStreamIsCapturing", &[Of(Stream), Gives(4)]),
    Query::new("cuStreamIsCapturing_ptsz", &[Of(Stream), Gives(4)]),
    Query::new("cuStreamIsCapturing", &[Of(Capturing), Gives(4)]),
    Query::new("cuStreamGetCaptureInfo", &[Of(Stream), STATUS, LEFT]),
    Query::new("cuStreamGetCaptureInfo_ptsz", &[Of(Stream), STATUS, LEFT]),
    Query::new(
        "cuStreamGetCaptureInfo_v2",
        &[Of(Stream), STATUS, LEFT, LEFT, LEFT, LEFT],
    ),
    Query::new(
        "cuStreamGetCaptureInfo_v3",
        &[Of(Stream), STATUS, LEFT, LEFT, LEFT, LEFT, LEFT],
    ),
    Query::new("cuStreamGetCaptureInfo", &[Of(Capturing), STATUS, Gives(8)]),
    Query::new(
        "cuStreamGetCaptureInfo_v2",
        &[
            Of(Capturing),
            STATUS,
            Gives(8),
            Gives(8),
            Gives(8),
            Gives(8),
        ],
    ),
    Query::new(
        "cuStreamGetCaptureInfo_v2_ptsz",
        &[
            Of(Capturing),
            STATUS,
            Gives(8),
            Gives(8),
            Gives(8),
            Gives(8),
        ],
    ),
    Query::new(
        "cuStreamGetCaptureInfo_v3",
        &[
            Of(Capturing),
            STATUS,
            Gives(8),
            Gives(8),
            Gives(8),
            Gives(8),
            Gives(8),
        ],
    ),
    Query::new(
        "cuStreamGetCaptureInfo_v3_ptsz",
        &[
            Of(Capturing),
            STATUS,
            Gives(8),
            Gives(8),
            Gives(8),
            Gives(8),
            Gives(8),
        ],
    ),
    Query::new("cuEventQuery", &[Of(Event)]),
    Query::new("cuEventElapsedTime", &[Gives(4), Of(Event), Of(Later)]),
    Query::new("cuEventElapsedTime_v2", &[Gives(4), Of(Event), Of(Later)]),
    Query::maybe("cuIpcGetEventHandle", &[Gives(64), Of(Interprocess)]),
    // As cuDeviceGetDevResource.
    Query::new(
        "cuGreenCtxGetDevResource",
        &[Of(Green), Fields(144, &[0..4, 96..100]), Arg::Is(1)],
    ),
];
