//! A probe that runs under the agent, with the daemon's half of the wire in our hands.
//!
//! A probe prints a line and, where it asks for something, waits for one: see `probes/probe.h`. While
//! its lines are awaited its agent is served as a daemon would that has memory for everyone: jobs are
//! granted once what is swapped is back, and wishes for more than the GPU has are refused.

use std::os::fd::OwnedFd;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rtswap_e2e::{Finished, Program, Puppet};
use rtswap_wire::page::{Direction, UsageReport};
use rustix::event::{PollFd, PollFlags};
use rustix::thread::futex;

use crate::stage::{BOUND, CHUNK, Stage};

const TICK: Duration = Duration::from_millis(1);

/// A running probe.
pub struct Guest<'a> {
    stage: &'a Stage<'a>,
    listener: OwnedFd,
    uuid: [u8; 16],
    program: Program,
    /// One for each process with an agent, in the order in which they came.
    puppets: Vec<Puppet>,
    lines_read: usize,
    answered_wants: Vec<u32>,
}

impl<'a> Guest<'a> {
    /// Starts `command` on the stage.
    pub fn start(stage: &'a Stage<'a>, command: Command) -> Result<Self> {
        let uuid = stage.uuid()?;
        let listener = stage.listen()?;
        let program = Program::start(command)?;
        Ok(Self {
            stage,
            listener,
            uuid,
            program,
            puppets: Vec::new(),
            lines_read: 0,
            answered_wants: Vec::new(),
        })
    }

    /// Whether an agent said Hello.
    pub fn has_agent(&self) -> bool {
        !self.puppets.is_empty()
    }

    /// The agent of the program's first process.
    pub fn puppet(&mut self) -> Result<&mut Puppet> {
        self.puppets.first_mut().context("no agent came")
    }

    /// The program.
    pub fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    /// Where the first agent says that its bytes are.
    pub fn usage(&mut self) -> Result<UsageReport> {
        Ok(self.puppet()?.block().agent.usage())
    }

    /// Waits for the probe's next line and serves its agents meanwhile. Nothing at its end.
    pub fn line(&mut self) -> Result<Option<String>> {
        let until = Instant::now() + BOUND;
        loop {
            let silent = self.program.is_silent();
            if let Some(line) = self.unread() {
                self.lines_read += 1;
                return Ok(Some(line));
            }
            if silent {
                return Ok(None);
            }
            if Instant::now() > until {
                bail!(
                    "no line within {BOUND:?} after: {}{}",
                    self.program.stdout(),
                    self.program.stderr()
                );
            }
            self.serve()?;
            sleep(TICK);
        }
    }

    /// The next line, if it has been printed.
    pub fn unread(&self) -> Option<String> {
        let text = self.program.stdout();
        text.lines().nth(self.lines_read).map(str::to_owned)
    }

    /// Lets a probe that asked go on. One that has ended will be found out by its lines.
    pub fn go(&mut self) {
        let _ = self.program.say("go\n");
    }

    /// Takes in new agents, grants and refuses.
    pub fn serve(&mut self) -> Result<()> {
        self.welcome()?;
        self.serve_wants()?;
        for puppet in &mut self.puppets {
            if let Some(job) = asked(puppet) {
                bring_back(puppet)?;
                puppet.grant(job)?;
            }
        }
        Ok(())
    }

    /// Takes in the agents that said Hello.
    fn welcome(&mut self) -> Result<()> {
        let now = rustix::time::Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut ready = [PollFd::new(&self.listener, PollFlags::IN)];
        if rustix::event::poll(&mut ready, Some(&now))? == 1 {
            let memory = self.stage.machine.memory_bytes();
            let puppet = Puppet::accept(&self.listener, self.uuid, CHUNK, memory)?;
            self.puppets.push(puppet);
            self.answered_wants.push(0);
        }
        Ok(())
    }

    fn serve_wants(&mut self) -> Result<()> {
        for (puppet, answered) in self.puppets.iter().zip(&mut self.answered_wants) {
            let block = puppet.block();
            let Some((seq, bytes)) = block.agent.wanted().filter(|(seq, _)| seq != answered) else {
                continue;
            };
            let granted = bytes <= self.stage.machine.memory_bytes();
            block.daemon.answer_want(seq, granted);
            futex::wake(
                block.daemon.budget_word(),
                futex::Flags::empty(),
                i32::MAX as u32,
            )?;
            *answered = seq;
        }
        Ok(())
    }

    /// Waits until no job of the first agent runs or waits, and until it has given back what was freed
    /// before: then its bytes stay what they are.
    pub fn idle(&mut self) -> Result<()> {
        let until = Instant::now() + BOUND;
        loop {
            self.serve()?;
            let jobs = self.puppet()?.block().agent.jobs();
            if jobs.is_none_or(|jobs| jobs.requested == jobs.completed) {
                return self.puppet()?.wait_for_round();
            }
            ensure!(Instant::now() < until, "its job does not end: {jobs:?}");
            sleep(TICK);
        }
    }

    /// Takes all of the first agent's arena away once it is idle; its bytes. The GPU itself says
    /// whether they are gone.
    pub fn swap_out(&mut self) -> Result<u64> {
        self.idle()?;
        let pid = self.program.pid();
        let stage = self.stage;
        let held = move || stage.machine.process_bytes(pid, 0).unwrap_or(0);
        let puppet = self.puppet()?;
        let usage = puppet.block().agent.usage();
        if usage.arena_bytes == usage.swapped_bytes {
            return Ok(usage.arena_bytes);
        }
        let before = held();
        puppet.set_volume(usage.arena_bytes)?;
        puppet.swap(Direction::Out, usage.arena_bytes)?;
        let freed = before.saturating_sub(held());
        let expected = usage.arena_bytes - usage.swapped_bytes;
        ensure!(
            freed == expected,
            "{freed} of {expected} bytes left the GPU"
        );
        Ok(usage.arena_bytes)
    }

    /// Waits until the first agent asks for a job, and grants nothing.
    pub fn asked(&mut self) -> Result<()> {
        let until = Instant::now() + BOUND;
        while !self.asks()? {
            if let Some(line) = self.unread() {
                bail!("nothing waited: {line}");
            }
            ensure!(
                self.program.is_running() && Instant::now() < until,
                "no job was asked for: {}{}",
                self.program.stdout(),
                self.program.stderr()
            );
            sleep(TICK);
        }
        Ok(())
    }

    /// Whether the first agent asks for a job that was not granted.
    pub fn asks(&mut self) -> Result<bool> {
        Ok(asked(self.puppet()?).is_some())
    }

    /// Waits for the program's end, and serves meanwhile.
    pub fn finish(mut self) -> Result<Finished> {
        let until = Instant::now() + BOUND;
        while self.program.is_running() && Instant::now() < until {
            self.serve()?;
            sleep(TICK);
        }
        self.program.finish(TICK)
    }
}

/// The job that an agent asks for and that was not granted yet.
fn asked(puppet: &Puppet) -> Option<u32> {
    let block = puppet.block();
    let jobs = block.agent.jobs()?;
    let waits = jobs.requested != jobs.completed && block.daemon.granted() != jobs.requested;
    waits.then_some(jobs.requested)
}

/// Swaps all in again.
fn bring_back(puppet: &mut Puppet) -> Result<()> {
    if puppet.block().agent.usage().swapped_bytes > 0 {
        puppet.swap(Direction::In, 0)?;
    }
    Ok(())
}
