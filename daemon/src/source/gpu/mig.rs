//! GPUs in MIG mode: CUDA programs see one instance each, which rtswap takes for a GPU where the
//! administrator names it. NVML's handle of an instance answers for that instance alone.
//!
//! Instances are read from NVML only where the configuration names them. A GPU that NVML shows and no
//! task can use is left alone, and `rtswapctl status` says why.

use std::fmt::Write as _;

use nvml_wrapper::Device;
use nvml_wrapper::error::NvmlError;

use rtswap_engine::sample::Caveat;
use rtswap_engine::{Uuid, UuidError};

/// The instances of one GPU.
pub(super) struct Found<'nvml> {
    /// The instances that the configuration names.
    pub(super) configured: Vec<(Uuid, Device<'nvml>)>,
    /// If it names none: a sentence with the instances, and what to write.
    pub(super) unconfigured: Option<String>,
}

/// Looks through the instances of a GPU in MIG mode. Their handles are good until an instance goes,
/// so they are asked for anew each time.
pub(super) fn find<'nvml>(
    parent: &Device<'nvml>,
    configured: &[Uuid],
) -> Result<Found<'nvml>, NvmlError> {
    let mut others = Vec::new();
    let mut found = Vec::new();
    for index in 0..parent.mig_device_count()? {
        let instance = match parent.mig_device_by_index(index) {
            Ok(instance) => instance,
            // The count is that of the places.
            Err(NvmlError::NotFound | NvmlError::InvalidArg) => continue,
            Err(error) => return Err(error),
        };
        // One that goes just now hides no other.
        let Ok(text) = instance.uuid() else {
            continue;
        };
        match text.parse::<Uuid>() {
            Ok(uuid) if configured.contains(&uuid) => found.push((uuid, instance)),
            parsed => {
                let name = instance.name().unwrap_or_default();
                others.push((text, name, parsed.map(drop)));
            }
        }
    }
    let unconfigured = found.is_empty().then(|| explain(&others));
    Ok(Found {
        configured: found,
        unconfigured,
    })
}

/// Why a GPU in MIG mode is left alone, by its instances: UUID, name, whether that is a UUID.
fn explain(instances: &[(String, String, Result<(), UuidError>)]) -> String {
    let mut text = String::from("is in MIG mode, where programs see its instances only; ");
    if instances.is_empty() {
        text.push_str(
            "it has none yet: make some by `nvidia-smi mig -cgi PROFILE -C`, and describe those that \
             rtswap shall manage as [[gpu]] in rtswapd.toml, by UUID",
        );
        return text;
    }
    if instances.iter().any(|(_, _, named)| named.is_err()) {
        text.push_str("its driver names them by no UUID of their own: install 470 or later");
        return text;
    }
    text.push_str(
        "describe those that rtswap shall manage as [[gpu]] in rtswapd.toml and restart rtswapd:",
    );
    for (index, (uuid, name, _)) in instances.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        // Writing to a String cannot fail.
        let _ = write!(text, "{comma} uuid = \"{uuid}\" ({name})");
    }
    text
}

/// NVIDIA names an instance by its GPU instance's profile, as `MIG 3g.20gb`, and a compute instance
/// that is but a part of one with its own slices before, as `MIG 1c.3g.20gb` (MIG User Guide, MIG
/// Device Names). All compute instances of a GPU instance have one memory.
pub(super) fn caveat(name: &str) -> Option<Caveat> {
    let profile = name.rsplit(' ').next()?;
    let own = profile.split('.').next()?.strip_suffix('c')?;
    let is_part = !own.is_empty() && own.bytes().all(|digit| digit.is_ascii_digit());
    is_part.then_some(Caveat::PartOfInstance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_an_instance_is_known_by_its_name() {
        for (name, caveat_of) in [
            ("NVIDIA A100-SXM4-40GB MIG 3g.20gb", None),
            (
                "NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb",
                Some(Caveat::PartOfInstance),
            ),
            ("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", None),
            ("NVIDIA H100 80GB HBM3 MIG c.1", None),
            ("", None),
        ] {
            assert_eq!(caveat(name), caveat_of, "{name}");
        }
    }

    #[test]
    fn what_to_write_is_said() {
        let one = |uuid: &str| {
            let named = uuid.parse::<Uuid>().map(drop);
            (uuid.to_owned(), "A100 MIG 1g.5gb".to_owned(), named)
        };
        let mig = "MIG-01234567-89ab-cdef-0123-456789abcdef";
        let said = explain(&[one(mig), one(mig)]);
        let line = format!("uuid = \"{mig}\" (A100 MIG 1g.5gb)");
        assert!(said.starts_with("is in MIG mode"), "{said}");
        assert!(said.ends_with(&format!(": {line}, {line}")), "{said}");
        assert!(explain(&[]).contains("nvidia-smi mig -cgi"));
        let old = "MIG-GPU-01234567-89ab-cdef-0123-456789abcdef/1/0";
        assert!(explain(&[one(old)]).contains("470 or later"));
    }
}
