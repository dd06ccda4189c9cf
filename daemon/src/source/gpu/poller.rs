//! The thread that reads NVML: periodically, and faster while a task waits for memory to be freed.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rtswap_engine::sample::Sample;

/// The period while a task waits for memory.
const HURRIED: Duration = Duration::from_millis(20);

/// The handle of the thread, which ends when this is dropped or when nothing takes its samples. Dropping does
/// not wait for it, because a call to a driver that hangs does not end.
#[derive(Debug)]
pub struct Poller {
    periods: mpsc::Sender<Duration>,
    period: Duration,
    hurried: bool,
}

impl Poller {
    /// Sets whether the thread reads every 20 ms, or at its usual period.
    pub fn hurry(&mut self, hurry: bool) {
        self.pace(self.period, hurry);
    }

    /// Sets the period for the time in which no task waits.
    pub fn set_period(&mut self, period: Duration) {
        self.pace(period, self.hurried);
    }

    fn pace(&mut self, period: Duration, hurried: bool) {
        if (period, hurried) != (self.period, self.hurried) {
            (self.period, self.hurried) = (period, hurried);
            let pace = if hurried { period.min(HURRIED) } else { period };
            // If the thread has ended, it has logged why.
            let _ = self.periods.send(pace);
        }
    }
}

/// Starts it: the first look is one `period` away. `deliver` takes a sample, and says whether more
/// are wanted.
pub fn spawn(
    mut read: impl FnMut() -> Sample + Send + 'static,
    period: Duration,
    mut deliver: impl FnMut(Sample) -> bool + Send + 'static,
) -> std::io::Result<Poller> {
    let (periods, changes) = mpsc::channel();
    let mut pace = period;
    thread::Builder::new().name("nvml".into()).spawn(move || {
        let mut last = Instant::now();
        loop {
            // A change of pace cuts the wait short.
            loop {
                let left = (last + pace).saturating_duration_since(Instant::now());
                match changes.recv_timeout(left) {
                    Ok(changed) => pace = changed,
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
            last = Instant::now();
            if !deliver(read()) {
                return;
            }
        }
    })?;
    Ok(Poller {
        periods,
        period,
        hurried: false,
    })
}

#[cfg(test)]
mod tests {
    use super::super::begin;
    use super::*;

    const BOUND: Duration = Duration::from_secs(10);

    #[test]
    fn it_reads_when_hurried_and_ends_when_dropped() {
        let (tell, told) = mpsc::channel();
        let hour = Duration::from_hours(1);
        let deliver = move |sample| tell.send(sample).is_ok();
        let mut poller = spawn(begin, hour, deliver).unwrap();
        assert!(told.try_recv().is_err());
        poller.hurry(true);
        let first = told.recv_timeout(BOUND).unwrap();
        let second = told.recv_timeout(BOUND).unwrap();
        assert!(second.began > first.began);
        poller.hurry(false);
        poller.set_period(Duration::from_millis(1));
        let third = told.recv_timeout(BOUND).unwrap();
        assert!(third.began > second.began);
        drop(poller);
        let end = Instant::now() + BOUND;
        while told.recv_timeout(BOUND).is_ok() {
            assert!(Instant::now() < end, "it goes on");
        }
    }
}
