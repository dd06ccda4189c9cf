//! Who is registered: `declaration` is what a task says of itself, `table` holds the registrations
//! by number and by (user, name), `state` keeps them over the daemon's own end.

mod declaration;
mod state;
mod table;

pub use declaration::{Checked, Declaration};
pub use state::{SavedOrigin, SavedRegistration, SavedSession, SavedState, StateError, StateFile};
pub use table::{MAX_TASKS, Origin, Registration, RegistrationId, Registry};
