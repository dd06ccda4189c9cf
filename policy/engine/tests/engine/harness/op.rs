//! The steps of which runs are made. Numbers name processes and tasks modulo how many there are.

use super::{GPUS, Rng};

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// A client registers a task.
    Register {
        task: usize,
        lease: bool,
    },
    /// A client ends the registration of a task.
    Unregister {
        task: usize,
    },
    /// The user of a process parks its task, or resumes it.
    Park {
        process: usize,
    },
    Resume {
        process: usize,
    },
    /// The administrator changes the policy of a task.
    Rule {
        task: usize,
        rule: u64,
    },
    /// The holder of a task's lease ends.
    EndLease {
        task: usize,
    },
    Reload,
    /// A process comes, of a task or on its own.
    Join {
        task: Option<usize>,
    },
    Request {
        process: usize,
        gpu: usize,
    },
    Complete {
        process: usize,
        gpu: usize,
    },
    Allocate {
        process: usize,
        gpu: usize,
        chunks: u64,
        is_arena: bool,
    },
    Free {
        process: usize,
        gpu: usize,
        chunks: u64,
    },
    Swap {
        process: usize,
        gpu: usize,
    },
    /// An agent pins what it was asked for, at most so many chunks.
    Pin {
        process: usize,
        gpu: usize,
        most: u64,
    },
    /// The call for which a process waits for budget will fail: what is granted stays unused.
    GiveUp {
        process: usize,
        gpu: usize,
    },
    /// An agent says of itself what cannot be, in the way of that number.
    Lie {
        process: usize,
        gpu: usize,
        lie: u64,
    },
    /// An agent does nothing from now on, or something again.
    Silence {
        process: usize,
    },
    Disconnect {
        process: usize,
    },
    /// An agent comes back, or leaves a connection that is open for a new one.
    Return {
        process: usize,
    },
    /// As [`Self::Return`], with a Hello that cannot be true of a GPU.
    ReturnLying {
        process: usize,
        gpu: usize,
    },
    Die {
        process: usize,
    },
    /// A process executes another program.
    Execute {
        process: usize,
    },
    /// Processes without an agent hold so many chunks.
    Strangers {
        gpu: usize,
        chunks: u64,
    },
    /// A process asks how much memory it may have.
    Ask {
        process: usize,
        gpu: usize,
    },
    /// The host has so many chunks of memory available.
    Host {
        chunks: u64,
    },
    /// The shell reads all pages.
    Sweep,
    /// The next Welcome or record fails.
    Fail,
    Pass {
        ms: u64,
        is_late: bool,
    },
}

/// How the agent's doorbell reaches the daemon in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bell {
    Prompt,
    Late,
    Lost,
}

impl Op {
    /// A step at random; without what no honest agent does if `is_honest`.
    pub(crate) fn random(rng: &mut Rng, is_honest: bool) -> (Self, Bell) {
        let (process, gpu) = (rng.place(16), rng.place(GPUS));
        let task = rng.place(6);
        let op = match rng.below(200) {
            0..8 => Self::Join {
                task: (task < 6 && !rng.once_in(5)).then_some(task),
            },
            8..48 => Self::Request { process, gpu },
            48..78 => Self::Complete { process, gpu },
            78..98 => Self::Allocate {
                process,
                gpu,
                chunks: 1 + rng.below(3),
                is_arena: !rng.once_in(16),
            },
            98..104 => Self::Free {
                process,
                gpu,
                chunks: 1 + rng.below(3),
            },
            104..144 => Self::Swap { process, gpu },
            144..158 => Self::Pin {
                process,
                gpu,
                most: if rng.once_in(50) { rng.below(12) } else { 99 },
            },
            158..160 => Self::GiveUp { process, gpu },
            160..163 => Self::Disconnect { process },
            163..166 => Self::Return { process },
            166 => Self::Die { process },
            167 => Self::Execute { process },
            168..172 if !is_honest => Self::Lie {
                process,
                gpu,
                lie: rng.below(11),
            },
            172 if !is_honest => Self::Silence { process },
            173 if !is_honest => match rng.below(2) {
                0 => Self::Fail,
                _ => Self::ReturnLying { process, gpu },
            },
            174..176 => Self::Strangers {
                gpu,
                chunks: rng.below(4),
            },
            176..178 => Self::Register {
                task,
                lease: rng.once_in(3),
            },
            178 => Self::Unregister { task },
            179 => Self::EndLease { task },
            180 if rng.once_in(8) => Self::Reload,
            180 => Self::Rule {
                task,
                rule: rng.below(64),
            },
            181..183 => Self::Sweep,
            184 if rng.once_in(2) => Self::Park { process },
            184 | 185 => Self::Resume { process },
            186 => Self::Ask { process, gpu },
            187 => Self::Host {
                chunks: rng.below(64),
            },
            183 => Self::Pass {
                ms: 300 + rng.below(900),
                is_late: false,
            },
            _ => Self::Pass {
                ms: rng.below(30),
                is_late: rng.once_in(4),
            },
        };
        let bell = match rng.below(16) {
            0 => Bell::Lost,
            1..4 => Bell::Late,
            _ => Bell::Prompt,
        };
        (op, bell)
    }
}
