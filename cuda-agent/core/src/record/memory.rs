//! What is allocated and freed.

use super::{Recorder, now_ns};
use crate::cuda::Context;
use crate::device::Device;

/// What an allocation is to swapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AllocKind {
    /// It may be swapped.
    Arena,
    /// A context's own memory, as it is charged.
    Context,
    /// Memory of a call that the driver serves.
    Driver,
    /// A CUDA array, with its levels if it has some.
    Array,
}

impl AllocKind {
    /// The fields of a line that say it.
    fn fields(self) -> &'static str {
        match self {
            Self::Arena => r#""kind":"arena""#,
            Self::Context => r#""kind":"unswappable","why":"context""#,
            Self::Driver => r#""kind":"unswappable","why":"driver""#,
            Self::Array => r#""kind":"unswappable","why":"array""#,
        }
    }
}

impl Recorder {
    /// A GPU that may be used, before anything is allocated there.
    pub(crate) fn note_gpu(&self, device: &Device) {
        let (chunk, most) = {
            let memory = device.memory();
            (memory.chunk_bytes(), memory.device_bytes())
        };
        let gpu = device.ordinal;
        let uuid = Uuid(device.uuid);
        self.line(format_args!(
            r#"{{"event":"gpu","gpu":{gpu},"uuid":"{uuid}","chunk_bytes":{chunk},"memory_bytes":{most}}}"#
        ));
    }
}

impl Device {
    /// Records that `bytes` were allocated.
    #[inline]
    pub(crate) fn record_alloc(&self, bytes: u64, kind: AllocKind) {
        if let Some(recorder) = &self.recorder {
            self.record_change(recorder, "alloc", bytes, kind);
        }
    }

    /// Records that `bytes` were freed.
    #[inline]
    pub(crate) fn record_free(&self, bytes: u64, kind: AllocKind) {
        if let Some(recorder) = &self.recorder {
            self.record_change(recorder, "free", bytes, kind);
        }
    }

    /// Records that all objects of a context are about to be freed.
    pub(crate) fn record_end(&self, context: Context) {
        if self.recorder.is_none() {
            return;
        }
        let objects: Vec<_> = {
            let memory = self.memory();
            let all = memory.objects_of(context).into_iter();
            all.filter_map(|at| memory.object_at(at)).collect()
        };
        for (_, object) in objects {
            self.record_free(object.bytes, AllocKind::Arena);
        }
    }

    #[cold]
    fn record_change(&self, recorder: &Recorder, event: &str, bytes: u64, kind: AllocKind) {
        let (gpu, now, kind) = (self.ordinal, now_ns(), kind.fields());
        recorder.line(format_args!(
            r#"{{"event":"{event}","gpu":{gpu},"ns":{now},"bytes":{bytes},{kind}}}"#
        ));
    }
}

/// A GPU's UUID as nvidia-smi prints it, but for what is before it: that differs for instances of MIG.
struct Uuid([u8; 16]);

impl std::fmt::Display for Uuid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (place, byte) in self.0.iter().enumerate() {
            if [4, 6, 8, 10].contains(&place) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}
