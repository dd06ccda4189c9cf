//! What a program does to its environment once libraries are loaded.
#![allow(missing_docs)]

use rtswap_agent_core::agent::may_start;

/// The only test here: the environment is the process's, and is looked at once.
#[test]
fn a_program_may_change_its_environment_after_the_first_look() {
    let set = |name: &str, value: Option<&str>| {
        // SAFETY: no other thread of this process reads or writes the environment.
        unsafe {
            match value {
                Some(value) => std::env::set_var(name, value),
                None => std::env::remove_var(name),
            }
        }
    };
    set("RTSWAP_RUNTIME_DIR", Some("/nonexistent"));
    set("RTSWAP_TASK", Some("named"));
    assert!(may_start(), "a named task asks for an agent");
    // While another thread does this, whoever reads the environment may read memory that is gone.
    set("RTSWAP_TASK", None);
    assert!(may_start(), "the environment was read again");
}
