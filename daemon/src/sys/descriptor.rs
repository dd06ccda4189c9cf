//! Raising the limit of open descriptors: three and more belong to each session.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of open descriptors to the hard one.
pub fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open descriptors stays at {:?}", limit.current);
    }
}

/// How many descriptors the daemon may have open at a time, once the limit is raised.
pub fn limit() -> usize {
    let limit = getrlimit(Resource::Nofile).maximum;
    limit.map_or(usize::MAX, |most| {
        usize::try_from(most).unwrap_or(usize::MAX)
    })
}
