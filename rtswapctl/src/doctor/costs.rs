//! The costs of swapping: every promise rests on them.

use rtswap_dbus::GpuProperties;

use super::finding::Finding;

/// `gpus` are those that the daemon manages.
pub(super) fn check<'a>(gpus: impl Iterator<Item = &'a GpuProperties>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut count = 0;
    for gpu in gpus {
        count += 1;
        let name = format!("GPU {} ({})", gpu.index, gpu.uuid);
        let departs = gpu.notes.iter().filter(|note| note.starts_with("swaps "));
        let departs: Vec<_> = departs
            .map(|note| note.split(':').next().unwrap_or(note))
            .collect();
        if !departs.is_empty() {
            findings.push(Finding::warning(
                "swap-costs",
                format!("{name}: {}: no deadline is sure", departs.join(", and ")),
                if gpu.swap_cost_source == "configured" {
                    "sudo rtswapctl calibrate --export FILE; write what it measured into /etc/rtswap/rtswapd.toml, or leave [gpu.swap_cost] out there"
                } else {
                    "sudo rtswapctl calibrate"
                },
            ));
        } else if gpu.swap_cost_source == "assumed" {
            findings.push(Finding::warning(
                "swap-costs",
                format!("{name}: not measured, and those of an RTX 3090 on PCIe 3.0 are assumed: no deadline is sure"),
                "sudo rtswapctl calibrate",
            ));
        }
    }
    if findings.is_empty() && count > 0 {
        findings.push(Finding::ok(
            "swap-costs",
            "measured or configured, and no swaps have shown otherwise",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn costs_that_are_assumed_or_wrong_are_told() {
        let gpu = GpuProperties {
            uuid: "GPU-1".into(),
            swap_cost_source: "configured".into(),
            ..GpuProperties::default()
        };
        assert!(check([].iter()).is_empty());
        assert_eq!(check([&gpu].into_iter())[0].level, Level::Ok);
        let assumed = GpuProperties {
            swap_cost_source: "assumed".into(),
            ..gpu.clone()
        };
        let mut departs = gpu.clone();
        let note =
            |way| format!("swaps {way} take longer (2.0 times): no deadline is sure; measure");
        departs.notes = vec![note("out"), note("in")];
        let findings = check([&gpu, &assumed, &departs].into_iter());
        assert_eq!(findings.len(), 2);
        assert!(findings[0].found.contains("RTX 3090"));
        assert_eq!(
            findings[1].found,
            "GPU 0 (GPU-1): swaps out take longer (2.0 times), and swaps in take longer (2.0 times): no deadline is sure"
        );
    }
}
