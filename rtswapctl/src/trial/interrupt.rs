//! Ctrl-C and SIGTERM: a trial ends by an error, so that its programs and folders go with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::TrialError;

/// Between two looks at what is waited for.
const POLL: Duration = Duration::from_millis(5);

/// Whether the trial is to end.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Watches from here on.
    pub(crate) fn watch() -> std::io::Result<Self> {
        let told = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&told))?;
        }
        Ok(Self(told))
    }

    /// An interrupt that has come already.
    #[cfg(test)]
    pub(crate) fn told() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    /// An error once the signal came.
    pub(crate) fn check(&self) -> Result<(), TrialError> {
        if self.0.load(Ordering::Relaxed) {
            return Err(TrialError::Interrupted);
        }
        Ok(())
    }

    /// Sleeps for `span`, but for no longer than until the signal.
    pub(crate) fn sleep(&self, span: Duration) -> Result<(), TrialError> {
        let until = Instant::now() + span;
        loop {
            self.check()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(POLL));
        }
    }

    /// Looks again and again until `look` finds something.
    pub(crate) fn wait<T>(
        &self,
        what: impl FnOnce() -> String,
        bound: Duration,
        mut look: impl FnMut() -> Result<Option<T>, TrialError>,
    ) -> Result<T, TrialError> {
        let until = Instant::now() + bound;
        loop {
            self.check()?;
            if let Some(found) = look()? {
                return Ok(found);
            }
            if Instant::now() >= until {
                return Err(TrialError::Late {
                    what: what(),
                    bound,
                });
            }
            thread::sleep(POLL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_is_waited_for_and_what_does_not_is_late() {
        let interrupt = Interrupt::watch().unwrap();
        let mut looks = 0;
        let found = interrupt.wait(
            || "three".to_owned(),
            Duration::from_secs(9),
            || {
                looks += 1;
                Ok((looks == 3).then_some(looks))
            },
        );
        assert_eq!(found.unwrap(), 3);
        let bound = Duration::from_millis(20);
        let late = interrupt.wait(|| "never".to_owned(), bound, || Ok(None::<()>));
        assert!(matches!(late, Err(TrialError::Late { .. })));
        assert!(matches!(
            Interrupt::told().sleep(Duration::from_secs(9)),
            Err(TrialError::Interrupted)
        ));
    }
}
