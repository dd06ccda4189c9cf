//! The folder that eBPF probes need, which a fresh machine has not mounted.

use std::path::PathBuf;

/// Where tracefs is mounted; it is mounted if it is not, where this process may.
#[must_use]
pub fn tracefs() -> Option<PathBuf> {
    let places = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(PathBuf::from);
    let usable = |place: &PathBuf| place.join("events/sched").is_dir();
    if let Some(place) = places.iter().find(|place| usable(place)) {
        return Some(place.clone());
    }
    let [place, _] = places;
    let flags = rustix::mount::MountFlags::empty();
    // Another test may have mounted it just now.
    let _ = rustix::mount::mount("tracefs", &place, "tracefs", flags, None);
    usable(&place).then_some(place)
}
