//! `--watch`: the status again and again.

use std::path::Path;
use std::thread;

use rtswapctl::cli::StatusOptions;

use super::Status;
use crate::failure::Failure;
use crate::output;

/// Returns when nobody reads any more. A daemon that has answered once is waited for while it restarts, and so is a
/// task that has been there.
pub(super) fn watch(runtime_dir: Option<&Path>, options: &StatusOptions) -> Result<(), Failure> {
    let mut was_there = false;
    loop {
        let is_read = match Status::of_daemon(runtime_dir, options) {
            Ok(status) => {
                was_there = true;
                if options.json {
                    output::json_read(&status)?
                } else {
                    output::read_cleared(&status.text(options, output::width()))?
                }
            }
            Err(failure) if is_waited_for(&failure, was_there) => {
                // JSON is for programs, which see that no line comes.
                options.json || output::read_cleared(&format!("{failure}\nwaiting for it\n"))?
            }
            Err(failure) => return Err(failure),
        };
        if !is_read {
            return Ok(());
        }
        thread::sleep(options.interval);
    }
}

fn is_waited_for(failure: &Failure, was_there: bool) -> bool {
    let comes_back = matches!(
        failure,
        Failure::Connect(_) | Failure::NoSuchTask(_) | Failure::NoSuchGpu(_)
    );
    failure.is_restart() || (was_there && comes_back)
}
