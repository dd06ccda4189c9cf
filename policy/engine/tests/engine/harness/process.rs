//! A process with its agent, and what the shell keeps for its connections.

use rtswap_engine::groups::Order;
use rtswap_engine::input::{Block, Hello, Peer};
use rtswap_engine::output::Welcome;
use rtswap_engine::{ConnectionId, Cookie, RegistrationId};
use rtswap_policy::units::{Bytes, Time};

use super::GPUS;
use super::device::Device;

/// A living process.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) uid: u32,
    /// The task that it claims; none for one of its own.
    pub(crate) task: Option<usize>,
    /// What it was welcomed with last.
    pub(crate) session: Option<(RegistrationId, Cookie)>,
    /// The connection over which it was welcomed, while it has that.
    pub(crate) connection: Option<ConnectionId>,
    pub(crate) devices: [Device; GPUS],
    /// Its bell was rung and not heard.
    pub(crate) bell: bool,
    /// It does nothing.
    pub(crate) is_silent: bool,
    /// Its page says what is not so, or said so before this session.
    pub(crate) is_liar: bool,
    /// It does so of the bytes that it holds alone, for which no connection ends.
    pub(crate) is_boaster: bool,
}

/// What the shell keeps for a connection.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) pid: u32,
    pub(crate) stage: Stage,
    /// The blocks as read last.
    pub(crate) read: [Block; GPUS],
    /// The agent has rung since its Welcome.
    pub(crate) rang: bool,
}

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It said Hello.
    Hello,
    /// It was welcomed.
    Open,
    /// Its socket has ended; its process lives.
    Lost,
    /// The process of a session of the daemon before.
    Awaited,
}

impl Link {
    pub(crate) fn new(pid: u32, stage: Stage) -> Self {
        Self {
            pid,
            stage,
            read: Default::default(),
            rang: false,
        }
    }
}

impl Process {
    pub(crate) fn new(pid: u32, uid: u32, task: Option<usize>) -> Self {
        Self {
            pid,
            uid,
            task,
            session: None,
            connection: None,
            devices: Default::default(),
            bell: false,
            is_silent: false,
            is_liar: false,
            is_boaster: false,
        }
    }

    pub(crate) fn start_ticks(&self) -> u64 {
        u64::from(self.pid) * 100
    }

    /// Its Hello over a fresh connection.
    pub(crate) fn hello(&self, connection: ConnectionId, name: Option<String>) -> Hello {
        let states = self.devices.iter().enumerate();
        Hello {
            connection,
            peer: Peer {
                pid: self.pid,
                uid: self.uid,
                comm: "python".into(),
                start_ticks: self.start_ticks(),
                unit: None,
            },
            name,
            resumes: self.session,
            cookie: Cookie(connection.0 | 1 << 40),
            devices: states.map(|(gpu, device)| device.state(gpu)).collect(),
            cgroups: Vec::new(),
        }
    }

    /// Takes its Welcome: a session that it had goes on.
    pub(crate) fn welcome(&mut self, welcome: &Welcome) {
        let session = (welcome.registration, welcome.cookie);
        let former = self.session.replace(session);
        assert!(
            former.is_none_or(|it| it == session),
            "another session: {welcome:?}"
        );
        self.connection = Some(welcome.connection);
        (self.is_liar, self.is_boaster) = (false, false);
        for (device, setup) in self.devices.iter_mut().zip(&welcome.blocks) {
            device.restore(setup.granted);
        }
        self.bell = true;
    }

    /// Loses its daemon.
    pub(crate) fn detach(&mut self) {
        self.connection = None;
        self.bell = false;
        self.devices.iter_mut().for_each(Device::detach);
    }

    /// Finds an order in its page.
    pub(crate) fn obey(&mut self, now: Time, gpu: usize, order: &Order) -> Option<Bytes> {
        let device = &mut self.devices[gpu];
        if !self.is_liar {
            device.expect(now, order);
        }
        device.obey(order)
    }

    /// The bytes that it holds or may take on a GPU.
    pub(crate) fn held(&self, gpu: usize) -> Bytes {
        let device = &self.devices[gpu];
        device.page.budget.max(device.usage.resident)
    }
}
