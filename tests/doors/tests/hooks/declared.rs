//! The driver's functions, as cudarc's source declares them for every version that it knows.

use std::fs;

use anyhow::{Context, Result};
use cargo_metadata::MetadataCommand;

/// One declared function.
pub(crate) struct Function {
    name: String,
    /// Its parameters as they are written.
    parameters: String,
}

/// Stream functions without a per-thread form in cuda.h.
const ONE_STREAM: &[&str] = &[
    "cuLaunchGridAsync",
    "cuStreamDestroy_v2",
    "cuStreamGetGreenCtx",
    "cuCtxRecordEvent",
];

/// Functions that name their stream within a structure, and have a per-thread form.
const STREAM_WITHIN: &[&str] = &["cuLaunchKernelEx", "cuGraphInstantiateWithParams"];

impl Function {
    /// Its exported names: this one, the versions before it, and those of the per-thread kind.
    pub(crate) fn forms(&self) -> Vec<String> {
        let (base, version) = match self.name.rsplit_once("_v") {
            Some((base, digits)) => (base, digits.parse().unwrap_or(1)),
            None => (self.name.as_str(), 1),
        };
        let mut forms = vec![base.to_owned()];
        forms.extend((2..=version).map(|version| format!("{base}_v{version}")));
        if let Some(suffix) = self.per_thread() {
            // Before 3.2 there were no streams of threads: the first forms have none, unless the
            // function came later.
            let since = usize::from(self.is_of_2010());
            let threaded: Vec<_> = forms
                .iter()
                .skip(since)
                .map(|form| format!("{form}{suffix}"))
                .collect();
            forms.extend(threaded);
        }
        forms
    }

    /// Whether its `_v2` is that of CUDA 3.2, which made sizes and addresses 64 bits wide.
    fn is_of_2010(&self) -> bool {
        self.name.ends_with("_v2")
            && (self.name.starts_with("cuMemcpy") || self.name.starts_with("cuMemset"))
            && !self.name.contains("Batch")
    }

    fn per_thread(&self) -> Option<&'static str> {
        let takes_stream = self
            .parameters
            .split(',')
            .any(|parameter| parameter.trim().ends_with(": CUstream"));
        if STREAM_WITHIN.contains(&self.name.as_str())
            || takes_stream && !ONE_STREAM.contains(&self.name.as_str())
        {
            Some("_ptsz")
        } else if self.name.starts_with("cuMemcpy") || self.name.starts_with("cuMemset") {
            Some("_ptds")
        } else {
            None
        }
    }
}

/// All functions of the driver API that cudarc declares.
pub(crate) fn functions() -> Result<Vec<Function>> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    // Offline, only what this machine builds is there: crates for other platforms were never downloaded.
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let options = ["--offline", "--filter-platform", &platform].map(str::to_owned);
    let metadata = MetadataCommand::new()
        .manifest_path(manifest)
        .other_options(options)
        .exec()?;
    let cudarc = metadata
        .packages
        .iter()
        .find(|package| package.name.as_str() == "cudarc");
    let manifest = &cudarc.context("cudarc is no dependency")?.manifest_path;
    let source = manifest.with_file_name("src/driver/sys/mod.rs");
    let text = fs::read_to_string(&source).with_context(|| source.to_string())?;
    let mut found = Vec::new();
    for line in text.lines() {
        let Some(declared) = line.trim().strip_prefix("pub unsafe fn cu") else {
            continue;
        };
        let (name, rest) = declared
            .split_once('(')
            .context("a function without parameters")?;
        if !name.starts_with(char::is_uppercase) {
            continue;
        }
        let (parameters, _) = rest
            .rsplit_once(')')
            .context("a function on several lines")?;
        found.push(Function {
            name: format!("cu{name}"),
            parameters: parameters.to_owned(),
        });
    }
    Ok(found)
}
