//! The registered tasks: `declaration` is what a task says of itself, `table` has the entries by number
//! and by (user, name), `statistics` sums up an entry's jobs.

mod declaration;
mod statistics;
mod table;

pub use declaration::{MAX_NAME, Right, TaskDeclaration, TaskOptions, is_name};
pub use statistics::{Moved, Statistics};
pub use table::{MAX_TASKS, Origin, Registration, Registry};
