//! The messages on the agent socket (SOCK_SEQPACKET, one message a packet, native byte order:
//! both ends run on one machine).
//!
//! Agent → daemon: one [`Hello`], with a pidfd of its swap thread (PIDFD_THREAD) as SCM_RIGHTS
//! where the kernel has it. Daemon → agent: one [`Reply`]; a welcome carries the control page (a
//! sealed memfd of [`crate::page::PAGE_BYTES`]) and the agent's eventfd, in that order. After that the agent
//! sends nothing more, and the daemon only [`Notice`]s to agents that know them; the socket's end means that
//! the other side is gone.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{MAX_DEVICES, MAX_NAME, OLDEST_VERSION, VERSION};

/// The first bytes of every message.
pub const MAGIC: [u8; 4] = *b"RTSW";

/// Feature bit of an agent that reads [`Notice`]s after its Welcome.
pub const NOTICES: u64 = 1;

/// Feature bits that this version knows.
pub const KNOWN_FEATURES: u64 = NOTICES;

/// What an agent holds on one GPU when it says Hello: zeros in a new session, the truth in one
/// that outlived its daemon.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
pub struct DeviceState {
    /// The GPU's UUID; zeros in an unused entry.
    pub uuid: [u8; 16],
    /// All of the GPU's memory in bytes, as the driver tells.
    pub memory_bytes: u64,
    /// Bytes on the GPU, as in [`crate::page::UsageReport::resident_bytes`].
    pub resident_bytes: u64,
    /// Bytes in the backing store, as in [`crate::page::UsageReport::swapped_bytes`].
    pub swapped_bytes: u64,
    /// Bytes of both in the arena, as in [`crate::page::UsageReport::arena_bytes`].
    pub arena_bytes: u64,
    /// Bytes of host memory pinned as its backing store.
    pub backing_bytes: u64,
    /// The chunk size δ of its arena in bytes; zero before there is an arena.
    pub chunk_bytes: u64,
    /// Sequence number of the last job that was requested; zero before the first.
    pub requested: u32,
    /// Sequence number of the last job that was granted; zero before the first.
    pub granted: u32,
    /// Sequence number of the last job that was completed; zero before the first.
    pub completed: u32,
    /// Padding, always zero: a Hello with another value is refused.
    pub reserved: u32,
}

/// The first message of an agent on its socket.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct Hello {
    /// Marks the message as a Hello: [`MAGIC`], else it is refused.
    pub magic: [u8; 4],
    /// The agent's wire version.
    pub version: u16,
    /// Padding, always zero: a Hello with another value is refused.
    pub reserved: u16,
    /// What the agent can do beyond the version.
    pub features: u64,
    /// The session's registration when it reconnects, else 0.
    pub registration: u64,
    /// The session's cookie when it reconnects, else 0.
    pub cookie: u64,
    /// The swap thread's id in the agent's own PID namespace.
    pub tid: u32,
    /// Bytes of `name` in use; 0 if the program was given no task name.
    pub name_len: u32,
    /// The task's name.
    pub name: [u8; 64],
    /// What it holds, in any order, unused entries zero.
    pub devices: [DeviceState; MAX_DEVICES],
}

/// Why a Hello cannot be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// Not the right size or magic: a stranger.
    #[error("not a hello message of rtswap")]
    Malformed,
    /// Another wire version.
    #[error(
        "wire version {0} is not spoken here (this daemon speaks {OLDEST_VERSION} to {VERSION}); \
         restart the program so that it loads the installed agent"
    )]
    Version(u16),
    /// Bits that this version does not know.
    #[error("unknown feature bits {0:#x} in a hello of wire version {VERSION}")]
    Features(u64),
    /// A name that cannot name a task.
    #[error("a task name has 1 to {MAX_NAME} of A-Z a-z 0-9 . _ -")]
    Name,
}

impl Hello {
    /// A first Hello of this version.
    pub fn new(tid: u32, name: Option<&str>) -> Result<Self, HelloError> {
        let mut hello = Self {
            magic: MAGIC,
            version: VERSION,
            reserved: 0,
            features: NOTICES,
            registration: 0,
            cookie: 0,
            tid,
            name_len: 0,
            name: [0; 64],
            devices: [DeviceState::default(); MAX_DEVICES],
        };
        if let Some(name) = name {
            if !crate::valid_name(name) {
                return Err(HelloError::Name);
            }
            hello.name_len = name.len() as u32;
            hello.name[..name.len()].copy_from_slice(name.as_bytes());
        }
        Ok(hello)
    }

    /// Reads a packet and checks what every Hello must hold.
    pub fn parse(packet: &[u8]) -> Result<Self, HelloError> {
        // The version stands in the first eight bytes of every version's Hello, so that a stranger
        // of another version can be told so although its size differs.
        let (magic, rest) = packet
            .split_first_chunk::<4>()
            .ok_or(HelloError::Malformed)?;
        let (version, _) = rest.split_first_chunk::<2>().ok_or(HelloError::Malformed)?;
        let version = u16::from_ne_bytes(*version);
        if *magic != MAGIC {
            return Err(HelloError::Malformed);
        }
        if !(OLDEST_VERSION..=VERSION).contains(&version) {
            return Err(HelloError::Version(version));
        }
        let hello = Self::read_from_bytes(packet).map_err(|_| HelloError::Malformed)?;
        let unknown = hello.features & !KNOWN_FEATURES;
        if unknown != 0 {
            return Err(HelloError::Features(unknown));
        }
        if hello.reserved != 0 || hello.devices.iter().any(|d| d.reserved != 0) {
            return Err(HelloError::Malformed);
        }
        if hello.name_len != 0 && hello.task_name().is_none() {
            return Err(HelloError::Name);
        }
        Ok(hello)
    }

    /// The task's name, if the program was given one and it is valid.
    pub fn task_name(&self) -> Option<&str> {
        let bytes = self.name.get(..self.name_len as usize)?;
        let name = core::str::from_utf8(bytes).ok()?;
        crate::valid_name(name).then_some(name)
    }
}

/// What [`Reply::code`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyCode {
    /// Come in: page and eventfd are attached.
    Welcome,
    /// Another wire version would do; the text says which.
    Version,
    /// No registration of that name belongs to this user, or it has a process already.
    Claim,
    /// Too many sessions.
    Busy,
    /// The Hello made no sense.
    Malformed,
}

impl ReplyCode {
    const ALL: [Self; 5] = [
        Self::Welcome,
        Self::Version,
        Self::Claim,
        Self::Busy,
        Self::Malformed,
    ];
}

/// The daemon's answer.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct Reply {
    /// Marks the message as a Reply: always [`MAGIC`].
    pub magic: [u8; 4],
    /// The daemon's wire version.
    pub version: u16,
    /// Index into [`ReplyCode`]; read it with [`Reply::code`].
    pub raw_code: u16,
    /// The registration that the session is attached to.
    pub registration: u64,
    /// The session's cookie.
    pub cookie: u64,
    /// How long an agent without a daemon waits before it goes on alone, in ms.
    pub orphan_timeout_ms: u32,
    /// How long an implicit job's streams stay idle before it is complete, in µs.
    pub idle_gap_us: u32,
    /// How long the agent may take to drain a closed gate, in ms.
    pub drain_bound_ms: u32,
    /// Bytes of `text` in use.
    pub text_len: u32,
    /// A refusal in words.
    pub text: [u8; 212],
    /// In a welcome: how many calls may be in flight on a GPU, so that a drain stays short; 0 for
    /// any number. It lies where older versions have the end of `text`, which they leave at zero.
    pub max_in_flight: u32,
}

impl Reply {
    /// A refusal; `text` is cut where it does not fit.
    pub fn refusal(code: ReplyCode, text: &str) -> Self {
        let mut reply = Self {
            magic: MAGIC,
            version: VERSION,
            raw_code: code as u16,
            registration: 0,
            cookie: 0,
            orphan_timeout_ms: 0,
            idle_gap_us: 0,
            drain_bound_ms: 0,
            text_len: 0,
            text: [0; 212],
            max_in_flight: 0,
        };
        let mut len = text.len().min(reply.text.len());
        while !text.is_char_boundary(len) {
            len -= 1;
        }
        reply.text_len = len as u32;
        reply.text[..len].copy_from_slice(&text.as_bytes()[..len]);
        reply
    }

    /// Reads a packet from the daemon.
    pub fn parse(packet: &[u8]) -> Result<Self, HelloError> {
        let reply = Self::read_from_bytes(packet).map_err(|_| HelloError::Malformed)?;
        if reply.magic == MAGIC {
            Ok(reply)
        } else {
            Err(HelloError::Malformed)
        }
    }

    /// What it says, or nothing that this version knows.
    pub fn code(&self) -> Option<ReplyCode> {
        ReplyCode::ALL.get(usize::from(self.raw_code)).copied()
    }

    /// The refusal in words.
    pub fn text(&self) -> &str {
        let bytes = &self.text[..self.text.len().min(self.text_len as usize)];
        // What an older daemon wrote beyond may have been the rest of a character.
        match core::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => core::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
        }
    }
}

/// Words of the daemon for the agent's user: why the program waits, or was refused memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub struct Notice {
    /// Marks the message as a notice: always [`MAGIC`].
    pub magic: [u8; 4],
    /// Bytes of `text` in use.
    pub text_len: u32,
    /// The words, UTF-8.
    pub text: [u8; 504],
}

impl Notice {
    /// `text`, cut where it does not fit.
    pub fn new(text: &str) -> Self {
        let mut notice = Self {
            magic: MAGIC,
            text_len: 0,
            text: [0; 504],
        };
        let len = text.floor_char_boundary(notice.text.len());
        notice.text_len = len as u32;
        notice.text[..len].copy_from_slice(&text.as_bytes()[..len]);
        notice
    }

    /// Reads a packet; none where it is no notice.
    pub fn parse(packet: &[u8]) -> Option<Self> {
        let notice = Self::read_from_bytes(packet).ok()?;
        (notice.magic == MAGIC).then_some(notice)
    }

    /// The words; none where they are not UTF-8.
    pub fn text(&self) -> Option<&str> {
        core::str::from_utf8(self.text.get(..self.text_len as usize)?).ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    extern crate std;

    use super::*;

    #[test]
    fn hello_round_trip() {
        let mut hello = Hello::new(7, Some("yolo-608")).unwrap();
        hello.devices[3].resident_bytes = 1 << 40;
        let back = Hello::parse(hello.as_bytes()).unwrap();
        assert_eq!(back, hello);
        assert_eq!(back.task_name(), Some("yolo-608"));
    }

    #[test]
    fn strangers_are_told_what_is_wrong() {
        let good = Hello::new(1, None).unwrap();
        assert_eq!(Hello::parse(b"GET /"), Err(HelloError::Malformed));
        assert_eq!(
            Hello::parse(&good.as_bytes()[..20]),
            Err(HelloError::Malformed)
        );
        let newer = Hello { version: 9, ..good };
        let Err(error @ HelloError::Version(9)) = Hello::parse(&newer.as_bytes()[..64]) else {
            panic!("another version's size may differ");
        };
        assert!(std::format!("{error}").contains("speaks 1 to 1"));
        let odd = Hello {
            features: 4,
            ..good
        };
        assert_eq!(Hello::parse(odd.as_bytes()), Err(HelloError::Features(4)));
        let named = Hello {
            name_len: 65,
            ..good
        };
        assert_eq!(Hello::parse(named.as_bytes()), Err(HelloError::Name));
        assert_eq!(Hello::new(1, Some("../../etc")), Err(HelloError::Name));
    }

    #[test]
    fn a_refusal_keeps_whole_characters() {
        let long = "µ".repeat(200);
        let reply = Reply::refusal(ReplyCode::Busy, &long);
        let back = Reply::parse(reply.as_bytes()).unwrap();
        assert_eq!(back.code(), Some(ReplyCode::Busy));
        assert_eq!(back.text(), "µ".repeat(106));
    }

    #[test]
    fn a_notice_keeps_whole_characters_and_a_stranger_s_is_none() {
        let notice = Notice::new(&"µ".repeat(300));
        let back = Notice::parse(notice.as_bytes()).unwrap();
        assert_eq!(back.text(), Some("µ".repeat(252).as_str()));
        assert_eq!(Notice::parse(&[0; 512]), None);
        assert_eq!(Notice::parse(&notice.as_bytes()[1..]), None);
        let long = Notice {
            text_len: 505,
            ..notice
        };
        assert_eq!(long.text(), None);
    }

    #[test]
    fn older_and_newer_agents_and_daemons_read_each_other() {
        assert_eq!(size_of::<Reply>(), 256);
        let mut welcome = Reply::refusal(ReplyCode::Welcome, "");
        welcome.max_in_flight = 7;
        // An older agent reads at most `text_len` bytes of its text of 216.
        assert_eq!(welcome.as_bytes()[252..], 7u32.to_ne_bytes());
        assert_eq!(welcome.text_len, 0);
        // An older daemon fills all of it in a refusal, and nothing of it in a welcome.
        let mut packet = [b'x'; 256];
        packet[..40].copy_from_slice(&Reply::refusal(ReplyCode::Busy, "").as_bytes()[..40]);
        packet[36..40].copy_from_slice(&216u32.to_ne_bytes());
        let refusal = Reply::parse(&packet).unwrap();
        assert_eq!(
            (refusal.code(), refusal.text()),
            (Some(ReplyCode::Busy), "x".repeat(212).as_str())
        );
    }
}
