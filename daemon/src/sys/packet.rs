//! Sends and receives bytes with descriptors on a socket: one packet of a SOCK_SEQPACKET, or the
//! available bytes of a stream.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// The most descriptors that are taken from one packet; more are closed.
const MOST_FDS: usize = 2;

/// Receives one packet into `buffer`. Returns its length, 0 if the peer is gone, and its descriptors.
pub fn receive<F: AsFd>(socket: F, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let message = recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, flags)?;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    Ok((message.bytes, fds))
}

/// Sends one packet with its descriptors, without waiting. Returns the number of bytes sent, which on a
/// stream may be less than the packet.
pub fn send<F: AsFd>(socket: F, packet: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Errno::INVAL);
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(socket, &[IoSlice::new(packet)], &mut control, flags)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    #[test]
    fn packet_and_descriptors_arrive_together() {
        let (a, b) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        let fd = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        send(&a, b"hello", &[fd.as_fd()]).unwrap();
        let mut buffer = [0; 16];
        let (length, fds) = receive(&b, &mut buffer).unwrap();
        assert_eq!((&buffer[..length], fds.len()), (&b"hello"[..], 1));
        assert_eq!(receive(&b, &mut buffer).unwrap_err(), io::Errno::AGAIN);
        drop(a);
        assert_eq!(receive(&b, &mut buffer).unwrap().0, 0);
    }
}
