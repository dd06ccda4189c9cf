//! The driver's functions, as cudarc's source declares them for every version that it knows.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use cargo_metadata::MetadataCommand;

use super::former::{self, PROTOTYPES};
use super::types::Types;
use super::{Kind, Signature};

/// What is declared of the driver.
pub struct Declarations {
    /// Each function.
    pub functions: Vec<Function>,
    /// The types of their parameters.
    pub types: Types,
}

/// One declared function.
pub struct Function {
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

/// Functions that CUDA 3.2 gave 64-bit sizes and addresses, beside copies and sets.
const WIDENED: &[&str] = &[
    "cuArray3DCreate_v2",
    "cuArray3DGetDescriptor_v2",
    "cuArrayCreate_v2",
    "cuArrayGetDescriptor_v2",
    "cuDeviceTotalMem_v2",
    "cuGraphicsResourceGetMappedPointer_v2",
    "cuMemAllocHost_v2",
    "cuMemAllocPitch_v2",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemGetAddressRange_v2",
    "cuMemGetInfo_v2",
    "cuMemHostGetDevicePointer_v2",
    "cuModuleGetGlobal_v2",
    "cuTexRefGetAddress_v2",
    "cuTexRefSetAddress2D_v2",
    "cuTexRefSetAddress_v2",
];

/// Functions that name their stream within a structure, and have a per-thread form.
const STREAM_WITHIN: &[&str] = &["cuLaunchKernelEx", "cuGraphInstantiateWithParams"];

impl Function {
    /// Its exported names: this one, the versions before it, and those of the per-thread kind.
    pub fn forms(&self) -> Vec<String> {
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

impl Declarations {
    /// What cudarc declares, for every version of CUDA that it knows.
    ///
    /// # Errors
    /// Its source is not to be found or not understood.
    pub fn read() -> Result<Self> {
        let text = source()?;
        let mut types = Types::default();
        types.read(&text);
        types.read(former::TYPES);
        let functions = functions(&text)?;
        Ok(Self { functions, types })
    }

    /// The signature of each exported name: as declared; of other forms, as their function's.
    ///
    /// # Errors
    /// A type that is not known.
    pub fn signatures(&self) -> Result<BTreeMap<String, Signature>> {
        let parse = |name: &str, parameters: &str| {
            Signature::parse(parameters, &self.types).with_context(|| name.to_owned())
        };
        let mut found = BTreeMap::new();
        for Function { name, parameters } in &self.functions {
            found.insert(name.clone(), parse(name, parameters)?);
        }
        for (name, parameters) in PROTOTYPES {
            found.insert((*name).to_owned(), parse(name, parameters)?);
        }
        let mut forms = BTreeMap::new();
        for function in &self.functions {
            for form in function.forms() {
                if found.contains_key(&form) || forms.contains_key(&form) {
                    continue;
                }
                let ordinary = form.trim_end_matches("_ptsz").trim_end_matches("_ptds");
                let signature = match found.get(ordinary).or(forms.get(ordinary)) {
                    Some(signature) => signature.clone(),
                    None => function.before(&found[&function.name]),
                };
                forms.insert(form, signature);
            }
        }
        found.extend(forms);
        Ok(found)
    }
}

impl Function {
    /// Its signature before its version, which is `later`.
    fn before(&self, later: &Signature) -> Signature {
        let widened = self.is_of_2010() || WIDENED.contains(&self.name.as_str());
        let narrow = |kind: &Kind| match kind {
            Kind::Address | Kind::Size if widened => Kind::Integer { bytes: 4 },
            kind => *kind,
        };
        Signature(later.0.iter().map(narrow).collect())
    }
}

/// The text of cudarc's declarations.
fn source() -> Result<String> {
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
    fs::read_to_string(&source).with_context(|| source.to_string())
}

/// All functions of the driver API that cudarc declares.
fn functions(text: &str) -> Result<Vec<Function>> {
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
