//! What is passed between the two processes: the handle by the program, the rest over a datagram
//! socket. Bytes of a stranger until they are checked.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Chunks asked for at a time, as many as descriptors go into a message with room to spare.
pub(super) const BATCH: u32 = 64;

const MAGIC: [u8; 8] = *b"rtswapI\x01";

/// What takes the place of a CUipcMemHandle.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct IpcHandle {
    magic: [u8; 8],
    /// Names the socket of the process that offers.
    pub(super) socket: u64,
    /// Only who was given the handle knows it.
    pub(super) secret: [u8; 16],
    /// Where the object starts there, and its bytes.
    pub(super) at: u64,
    pub(super) bytes: u64,
    /// Its number there.
    pub(super) id: u64,
    zeros: [u8; 8],
}

impl IpcHandle {
    pub(super) fn new(socket: u64, secret: [u8; 16], at: u64, bytes: u64, id: u64) -> Self {
        Self {
            magic: MAGIC,
            socket,
            secret,
            at,
            bytes,
            id,
            zeros: [0; 8],
        }
    }

    /// The handle in these bytes, if it is one of ours.
    pub fn parse(bytes: &[u8; 64]) -> Option<Self> {
        let handle = Self::read_from_bytes(bytes).ok()?;
        (handle.magic == MAGIC && handle.zeros == [0; 8]).then_some(handle)
    }

    /// As the program passes it on.
    pub fn to_bytes(self) -> [u8; 64] {
        zerocopy::transmute!(self)
    }
}

/// Asks for chunks of an object from one of them on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Request {
    pub(super) handle: IpcHandle,
    pub(super) first: u64,
}

/// The answer, with up to [`BATCH`] descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Reply {
    /// The first chunk that comes with it.
    pub(super) first: u64,
    /// All chunks of the object.
    pub(super) chunks: u64,
    /// δ in bytes.
    pub(super) chunk_bytes: u64,
    /// Where in its first chunk the object starts.
    pub(super) offset: u64,
}

impl Reply {
    /// There is no such object here, or not for whoever asks.
    pub(super) const NO: Self = Self {
        first: 0,
        chunks: 0,
        chunk_bytes: 0,
        offset: 0,
    };

    /// Whether this can be true of an object: nothing overflows, and it fits into its chunks.
    pub(super) fn is_sound(&self, bytes: u64, first: u64, descriptors: usize) -> bool {
        let span = self.chunks.checked_mul(self.chunk_bytes);
        let end = self.offset.checked_add(bytes);
        let count = descriptors as u64;
        self.first == first
            && self.offset < self.chunk_bytes
            && span.zip(end).is_some_and(|(span, end)| end <= span)
            && (1..=u64::from(BATCH)).contains(&count)
            && first
                .checked_add(count)
                .is_some_and(|end| end <= self.chunks)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_ours_is_parsed() {
        let handle = IpcHandle::new(7, [3; 16], 1 << 40, 5 << 20, 9);
        let bytes = handle.to_bytes();
        assert_eq!(IpcHandle::parse(&bytes), Some(handle));
        for at in (0..8).chain(56..64) {
            let mut other = bytes;
            other[at] ^= 1;
            assert_eq!(IpcHandle::parse(&other), None, "byte {at}");
        }
        assert_eq!(IpcHandle::parse(&[0; 64]), None);
    }

    proptest! {
        /// Whatever a stranger says: what is mapped covers the object, and no sum overflows.
        #[test]
        fn a_sound_reply_covers_the_object(
            words in any::<[u64; 6]>(),
            small in any::<[bool; 6]>(),
            descriptors in 0..100usize,
        ) {
            let word = |at: usize| if small[at] { words[at] % 70 } else { words[at] };
            let [first, chunks, chunk_bytes, offset, bytes, asked] = std::array::from_fn(word);
            let reply = Reply { first, chunks, chunk_bytes, offset };
            if reply.is_sound(bytes, asked, descriptors) {
                let wide = u128::from;
                prop_assert!(wide(offset) + wide(bytes) <= wide(chunks) * wide(chunk_bytes));
                prop_assert!(chunks.checked_mul(chunk_bytes).is_some());
                prop_assert_eq!(first, asked);
                prop_assert!(descriptors as u64 <= chunks - first && descriptors > 0);
            }
            prop_assert!(!Reply::NO.is_sound(bytes, asked, descriptors));
        }
    }
}
