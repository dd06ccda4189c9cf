//! The options of `Register` and `RegisterWithLease`, all of them optional on the wire.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::Duration;

use zbus::Variant;

/// A size as the user gave it: the daemon reads text, so that every client means the same by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Size {
    /// Whole bytes.
    Bytes(u64),
    /// A number with a unit, such as `6.2GiB` or `500MB`.
    Text(String),
}

/// What a task declares. What is left out takes the daemon's default: the deadline is the period,
/// the class is `realtime` where there is a period and `best-effort` where there is none.
#[derive(Debug, Default)]
pub struct Options {
    /// T.
    pub period: Option<Duration>,
    /// D.
    pub deadline: Option<Duration>,
    /// C.
    pub wcet: Option<Duration>,
    /// m: all GPU memory of the task, its context included.
    pub footprint: Option<Size>,
    /// mˢ: the part of it that may be swapped.
    pub swappable: Option<Size>,
    /// Its weight among best-effort tasks, from 1 to 10000.
    pub weight: Option<u32>,
    /// How long it keeps its memory on the GPU without a job, at least 100 ms.
    pub idle_after: Option<Duration>,
    /// Index or UUID of the GPU that it lives on.
    pub gpu: Option<String>,
    /// `realtime` or `best-effort`.
    pub class: Option<String>,
    /// Only this process may claim the registration.
    pub pidfd: Option<OwnedFd>,
}

impl Options {
    /// As the argument of the proxies. Times are rounded up to whole microseconds.
    pub fn into_wire(self) -> HashMap<&'static str, Variant<'static>> {
        let time = |span: Duration| Variant::U64(microseconds(span));
        let size = |size: Size| match size {
            Size::Bytes(bytes) => Variant::U64(bytes),
            Size::Text(text) => Variant::from(text),
        };
        [
            ("period_us", self.period.map(time)),
            ("deadline_us", self.deadline.map(time)),
            ("wcet_us", self.wcet.map(time)),
            ("footprint", self.footprint.map(size)),
            ("swappable", self.swappable.map(size)),
            ("weight", self.weight.map(Variant::U32)),
            ("idle_after_us", self.idle_after.map(time)),
            ("gpu", self.gpu.map(Variant::from)),
            ("class", self.class.map(Variant::from)),
            (
                "pidfd",
                self.pidfd.map(|fd| Variant::Fd(zbus::Fd::from(fd))),
            ),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)))
        .collect()
    }
}

fn microseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_given_is_sent() {
        let options = Options {
            period: Some(Duration::from_nanos(33_000_001)),
            footprint: Some(Size::Text("6.2GiB".into())),
            ..Options::default()
        };
        let wire = options.into_wire();
        assert_eq!(wire.len(), 2);
        assert_eq!(wire["period_us"], Variant::U64(33_001), "rounded up");
        assert_eq!(wire["footprint"], Variant::from("6.2GiB"));
    }
}
