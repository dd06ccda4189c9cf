//! The probes of this area.

use anyhow::Result;

use super::around::{
    AUDIT, INIT, MALLOC, WAITS, agent, jemalloc, library, loads, silent_daemon, unreadable_folder,
    with,
};
use super::ends::{amid_swap, orphan};
use super::foreign::{java, musl, of_32_bits, preload_missing, python, set_group, static_program};
use super::held::{held, in_driver, subscribed};
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

const FORBIDDEN: &str = "the program forbids what it needs";

fn sandboxed(stage: &Stage<'_>, probe: &Probe) -> Result<Outcome> {
    run(
        stage,
        probe,
        stage.preloaded(probe),
        Agent::Says("this process runs without rtswap"),
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
    caught(
        "life_callback",
        "calling",
        "a tool that calls the driver from within the driver's calls",
        subscribed,
    ),
    caught(
        "life_callback",
        "working",
        "a tool that launches kernels from within the driver's calls",
        subscribed,
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
    caught("life_sandbox", "membarrier:EPERM", "seccomp", works),
    caught("life_sandbox", "membarrier:ENOSYS", "seccomp", works),
    caught("life_sandbox", "late-membarrier:EPERM", "seccomp", works),
    caught("life_sandbox", "pidfd_open:EPERM", "seccomp", works),
    caught("life_sandbox", "pidfd_open:ENOSYS", "seccomp", works),
    caught("life_sandbox", "prlimit64:EPERM", "seccomp", works),
    caught(
        "life_sandbox",
        "late-rt_sigqueueinfo:EPERM",
        "seccomp",
        works,
    ),
    caught("life_sandbox", "clone3:ENOSYS", "seccomp", works),
    Probe::own(
        "life_sandbox",
        "signalfd4:EPERM",
        "seccomp",
        sandboxed,
        Outcome::Inert,
    )
    .because(FORBIDDEN),
    Probe::own(
        "life_sandbox",
        "signalfd4:ENOSYS",
        "seccomp",
        sandboxed,
        Outcome::Inert,
    )
    .because(FORBIDDEN),
    Probe::own(
        "life_sandbox",
        "eventfd2:EPERM",
        "seccomp",
        sandboxed,
        Outcome::Inert,
    )
    .because(FORBIDDEN),
    Probe::own(
        "life_sandbox",
        "eventfd2:ENOSYS",
        "seccomp",
        sandboxed,
        Outcome::Inert,
    )
    .because(FORBIDDEN),
    Probe::own(
        "life_sandbox",
        "socket:EPERM",
        "seccomp",
        sandboxed,
        Outcome::Inert,
    )
    .because(FORBIDDEN),
    Probe::own(
        "life_sandbox",
        "connect:EACCES",
        "a policy that forbids the socket",
        |stage, probe| with(stage, probe, Agent::Silent, |_, _| Ok(())),
        Outcome::Inert,
    )
    .because(FORBIDDEN),
    Probe::own(
        "life_sandbox",
        "connect:EPERM",
        "the same for a task with a name",
        |stage, probe| {
            with(
                stage,
                probe,
                Agent::Says("may not be connected to"),
                |_, command| {
                    command.env("RTSWAP_TASK", "named");
                    Ok(())
                },
            )
        },
        Outcome::Inert,
    )
    .because(FORBIDDEN),
    Probe::own(
        "life_odd",
        "no_thread",
        "pthread_create fails",
        |stage, probe| {
            with(
                stage,
                probe,
                Agent::Says("swap thread does not start"),
                |_, _| Ok(()),
            )
        },
        Outcome::Inert,
    )
    .because("it cannot swap without its thread"),
    caught("life_odd", "locked_memory", "RLIMIT_MEMLOCK of 0", works),
    caught(
        "life_odd",
        "small_files",
        "RLIMIT_FSIZE and RLIMIT_CORE of 0",
        works,
    ),
    caught(
        "life_odd",
        "folder_gone",
        "the working folder is deleted",
        works,
    ),
    caught("life_odd", "mask", "umask 777", works),
    caught(
        "life_odd",
        "no_environment",
        "clearenv and setenv after cuInit",
        works,
    ),
    caught(
        "life_odd",
        "moves_on",
        "chdir after a relative RTSWAP_RUNTIME_DIR",
        |stage, probe| {
            with(stage, probe, Agent::Works, |stage, command| {
                command
                    .env("RTSWAP_RUNTIME_DIR", "run")
                    .current_dir(stage.machine.path(""));
                Ok(())
            })
        },
    ),
    caught(
        "life_odd",
        "identities",
        "seteuid, setresuid: a signal to each thread",
        works,
    ),
    caught(
        "life_odd",
        "traced",
        "ptrace stops each thread again and again",
        works,
    ),
    caught(
        "life_odd",
        "closes_libraries",
        "dlclose of the driver and the agent",
        works,
    ),
    caught("life_dlsym", "own", "a program with its own dlsym", works),
    caught(
        "life_plain",
        "no_home",
        "no HOME, no PATH",
        |stage, probe| {
            with(stage, probe, Agent::Works, |_, command| {
                command.env_remove("HOME").env_remove("PATH");
                Ok(())
            })
        },
    ),
    caught(
        "life_plain",
        "twice",
        "LD_PRELOAD with the agent twice, once as a copy",
        |stage, probe| {
            with(stage, probe, Agent::Works, |stage, command| {
                let (ours, copy) = (agent(stage), stage.machine.path("libcopy.so"));
                std::fs::copy(&ours, &copy)?;
                command.env("LD_PRELOAD", format!("{ours}:{ours}:{}", copy.display()));
                Ok(())
            })
        },
    ),
    caught(
        "life_plain",
        "malloc_before",
        "a malloc before the agent, with dlsym at its first call",
        |stage, probe| {
            with(stage, probe, Agent::Works, |stage, command| {
                let other = library(stage, "malloc", MALLOC)?;
                command.env(
                    "LD_PRELOAD",
                    format!("{}:{}", other.display(), agent(stage)),
                );
                Ok(())
            })
        },
    ),
    caught(
        "life_plain",
        "malloc_after",
        "the same after it",
        |stage, probe| {
            with(stage, probe, Agent::Works, |stage, command| {
                let other = library(stage, "malloc", MALLOC)?;
                command.env(
                    "LD_PRELOAD",
                    format!("{}:{}", agent(stage), other.display()),
                );
                Ok(())
            })
        },
    ),
    caught("life_plain", "audit", "LD_AUDIT", |stage, probe| {
        with(stage, probe, Agent::Works, |stage, command| {
            command.env("LD_AUDIT", library(stage, "audit", AUDIT)?);
            Ok(())
        })
    }),
    caught(
        "life_plain",
        "jemalloc_before",
        "jemalloc before the agent",
        |stage, probe| {
            with(stage, probe, Agent::Works, |stage, command| {
                command.env("LD_PRELOAD", format!("{}:{}", jemalloc()?, agent(stage)));
                Ok(())
            })
        },
    ),
    caught(
        "life_plain",
        "jemalloc_after",
        "jemalloc after the agent",
        |stage, probe| {
            with(stage, probe, Agent::Works, |stage, command| {
                command.env("LD_PRELOAD", format!("{}:{}", agent(stage), jemalloc()?));
                Ok(())
            })
        },
    ),
    Probe::own(
        "life_plain",
        "long_name",
        "RTSWAP_TASK of 300 letters",
        |stage, probe| {
            with(stage, probe, Agent::Says("RTSWAP_TASK"), |_, command| {
                command.env("RTSWAP_TASK", "n".repeat(300));
                Ok(())
            })
        },
        Outcome::Inert,
    )
    .because(BAD_NAME),
    Probe::own(
        "life_plain",
        "control_name",
        "RTSWAP_TASK with control characters",
        |stage, probe| {
            with(stage, probe, Agent::Says("RTSWAP_TASK"), |_, command| {
                command.env("RTSWAP_TASK", "a\u{1b}[2J\nb");
                Ok(())
            })
        },
        Outcome::Inert,
    )
    .because(BAD_NAME),
    Probe::own(
        "life_plain",
        "locked_folder",
        "an RTSWAP_RUNTIME_DIR that cannot be read",
        |stage, probe| with(stage, probe, Agent::Silent, unreadable_folder),
        Outcome::Inert,
    )
    .because("nobody asked for rtswap, and no daemon is seen"),
    Probe::own(
        "life_plain",
        "named_without_daemon",
        "RTSWAP_TASK without a daemon",
        |stage, probe| {
            with(
                stage,
                probe,
                Agent::Says("no rtswapd listens"),
                |_, command| {
                    command
                        .env("RTSWAP_TASK", "named")
                        .env("RTSWAP_RUNTIME_DIR", "/nowhere");
                    Ok(())
                },
            )
        },
        Outcome::Inert,
    )
    .because("there is no daemon"),
    caught("life_plain", "python", "Python with signal.signal", python),
    caught(
        "life_plain",
        "python_asyncio",
        "Python with asyncio's signal handlers",
        python,
    ),
    caught(
        "life_plain",
        "python_nvml",
        "Python with NVML by ctypes",
        python,
    ),
    caught(
        "life_plain",
        "java",
        "a JVM with -Xcheck:jni and a signal handler",
        java,
    ),
    Probe::own(
        "life_plain",
        "static",
        "a static program",
        static_program,
        Outcome::Inert,
    )
    .because("it has no loader"),
    Probe::own(
        "life_plain",
        "32_bits",
        "a 32-bit program",
        of_32_bits,
        Outcome::Inert,
    )
    .because("the agent has 64"),
    Probe::own(
        "life_plain",
        "musl",
        "a program of musl",
        musl,
        Outcome::Inert,
    )
    .because("its loader finds no agent"),
    Probe::own(
        "life_plain",
        "preload_missing",
        "LD_PRELOAD of what is not there",
        preload_missing,
        Outcome::Inert,
    )
    .because("there is no agent"),
    Probe::own(
        "life_plain",
        "set_group",
        "a set-group-id program (AT_SECURE)",
        set_group,
        Outcome::Inert,
    )
    .because("it has rights that its caller has not"),
    caught("life_load", "in_constructor", "cuInit before main", works),
    caught(
        "life_load",
        "in_dlopen",
        "cuInit in the constructor of a library, under the loader's lock",
        |stage, probe| loads(stage, probe, "init", INIT),
    ),
    caught(
        "life_load",
        "thread_of_constructor",
        "a library's constructor waits for a thread's first call, under the loader's lock",
        |stage, probe| loads(stage, probe, "waits", WAITS),
    ),
    Probe::own(
        "life_plain",
        "silent_daemon",
        "a socket that never answers",
        silent_daemon,
        Outcome::Inert,
    )
    .because("it waits no longer than 5 s"),
];
