//! The probes of this area.

use anyhow::Result;

use super::ends::{amid_swap, orphan};
use super::held::{held, in_driver};
use super::run::{Agent, run, works};
use crate::check::{Outcome, Own};
use crate::stage::Stage;
use crate::table::Probe;

const fn caught(
    file: &'static str,
    argument: &'static str,
    doors: &'static str,
    check: Own,
) -> Probe {
    Probe::own(file, argument, doors, check, Outcome::Caught)
}

/// Why an agent complains, so that it is seen where.
const BAD_NAME: &str = "its RTSWAP_TASK is no name";

fn no_room(stage: &Stage<'_>, probe: &Probe) -> Result<Outcome> {
    run(
        stage,
        probe,
        stage.preloaded(probe),
        Agent::Says("32 descriptors"),
    )
}

/// What it says must go nowhere.
fn unheard(stage: &Stage<'_>, probe: &Probe) -> Result<Outcome> {
    let mut command = stage.preloaded(probe);
    command.env("RTSWAP_TASK", "no\nname");
    run(stage, probe, command, Agent::Silent)
}

pub(crate) const PROBES: &[Probe] = &[
    Probe::same("life_threads", "early", "threads made before cuInit"),
    Probe::same(
        "life_threads",
        "thousands",
        "2000 threads of one launch each",
    ),
    Probe::same(
        "life_threads",
        "without_locals",
        "calls after the thread's locals are gone",
    ),
    Probe::same("life_threads", "tiny_stack", "a stack of PTHREAD_STACK_MIN"),
    Probe::same(
        "life_threads",
        "signal_stack",
        "sigaltstack, signalled at the gate",
    ),
    Probe::same("life_threads", "leavers", "pthread_exit"),
    caught(
        "life_cancel",
        "at_gate_deferred",
        "pthread_cancel of a thread that waits at the gate",
        held,
    ),
    caught(
        "life_cancel",
        "at_gate_asynchronous",
        "the same with asynchronous cancellation",
        held,
    ),
    Probe::same(
        "life_cancel",
        "anywhere",
        "pthread_cancel within and between calls",
    ),
    Probe::swapped("life_cancel", "in_init", "pthread_cancel within cuInit"),
    caught(
        "life_cancel",
        "in_driver",
        "pthread_cancel of a thread that blocks in the driver",
        in_driver,
    ),
    caught("life_fork", "uses", "fork, calls in the child", works),
    caught(
        "life_fork",
        "plain",
        "fork, descriptors and mappings in child and grandchild",
        works,
    ),
    caught(
        "life_fork",
        "storm",
        "fork from many threads amid swaps",
        works,
    ),
    Probe::same("life_fork", "daemonised", "fork, setsid, fork, cuInit"),
    caught("life_fork", "vforked", "vfork, exec", works),
    caught("life_fork", "spawned", "posix_spawn", works),
    caught("life_fork", "cloned", "clone(CLONE_VM)", works),
    caught("life_fork", "exec_self", "exec of itself", works),
    caught(
        "life_fork",
        "orphan",
        "a parent that dies before its child",
        orphan,
    ),
    caught(
        "life_end",
        "handlers",
        "exit, handlers that copy what is swapped out",
        works,
    ),
    caught(
        "life_end",
        "last_handler",
        "the same with one that runs after the agent's",
        works,
    ),
    caught("life_end", "exit", "exit amid a swap", amid_swap),
    caught(
        "life_end",
        "return_of_main",
        "main returns amid a swap",
        amid_swap,
    ),
    caught("life_end", "_exit", "_exit amid a swap", amid_swap),
    caught("life_end", "abort", "abort amid a swap", amid_swap),
    caught("life_end", "killed", "SIGKILL amid a swap", amid_swap),
    caught(
        "life_end",
        "other_thread",
        "exit by another thread amid a swap, one waits at the gate",
        amid_swap,
    ),
    caught(
        "life_end",
        "fault",
        "SIGSEGV with a handler amid a swap",
        amid_swap,
    ),
    caught(
        "life_end",
        "handler_stays",
        "sigaction of all signals, and the mask",
        works,
    ),
    caught("life_limits", "soft_few", "RLIMIT_NOFILE of 32", works),
    caught("life_limits", "soft_usual", "RLIMIT_NOFILE of 1024", works),
    caught(
        "life_limits",
        "at_limit",
        "all descriptors taken before cuInit",
        works,
    ),
    Probe::own(
        "life_limits",
        "hard_few",
        "a hard RLIMIT_NOFILE of 32",
        no_room,
        Outcome::Inert,
    )
    .because("the program needs them all"),
    caught(
        "life_limits",
        "lowered",
        "RLIMIT_NOFILE of 8 after cuInit",
        works,
    ),
    Probe::own(
        "life_limits",
        "reused_stderr",
        "descriptor 2 is a file of the program's",
        unheard,
        Outcome::Inert,
    )
    .because(BAD_NAME),
    Probe::own(
        "life_limits",
        "dead_stderr",
        "nobody reads stderr",
        unheard,
        Outcome::Inert,
    )
    .because(BAD_NAME),
    Probe::own(
        "life_limits",
        "full_stderr",
        "stderr is full",
        unheard,
        Outcome::Inert,
    )
    .because(BAD_NAME),
];
