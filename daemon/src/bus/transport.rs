//! The control socket's bytes. zbus by itself accepts messages of 128 MiB, thousands of descriptors,
//! and any number of calls by a client that reads no answers. Here a connection has a few small calls
//! under way at a time, and the next is read when one is answered.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{Shutdown, shutdown};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use zbus::Message;
use zbus::connection::socket::{ReadHalf, Socket, Split, WriteHalf};
use zbus::export::async_trait::async_trait;
use zbus::fdo::ConnectionCredentials;
use zbus::message::Type;

use super::bounds::Bounds;
use super::demand::Asking;
use crate::sys::packet;

/// Calls of one connection that are not answered yet.
const UNANSWERED: usize = 8;

/// The longest time in which a client may take no byte of its answers.
const STALL: Duration = Duration::from_secs(30);

/// One connection, not authenticated yet.
#[derive(Debug)]
pub(super) struct Transport {
    stream: UnixStream,
    asking: Asking,
}

impl Transport {
    /// Of a client.
    pub(super) fn new(stream: UnixStream, asking: Asking) -> Self {
        Self { stream, asking }
    }
}

/// The uid and pid of the peer, from SO_PEERCRED.
fn credentials(stream: &UnixStream) -> io::Result<ConnectionCredentials> {
    let peer = stream.peer_cred()?;
    let credentials = ConnectionCredentials::default().set_unix_user_id(peer.uid());
    Ok(match peer.pid() {
        Some(pid) => credentials.set_process_id(pid.cast_unsigned()),
        None => credentials,
    })
}

impl Socket for Transport {
    type ReadHalf = Reader;
    type WriteHalf = Writer;

    fn split(self) -> Split<Reader, Writer> {
        let stream = Arc::new(self.stream);
        let calls = Arc::new(Semaphore::new(UNANSWERED));
        let writer = Writer {
            stream: Arc::clone(&stream),
            calls: Arc::clone(&calls),
        };
        let reader = Reader {
            calls,
            asking: self.asking,
            bytes: Bytes {
                stream,
                bounds: Bounds::default(),
            },
        };
        Split::new(reader, writer)
    }
}

/// What comes from the client, message by message.
#[derive(Debug)]
pub(super) struct Reader {
    /// A place for each further call that may wait for its answer.
    calls: Arc<Semaphore>,
    asking: Asking,
    bytes: Bytes,
}

#[async_trait]
impl ReadHalf for Reader {
    async fn receive_message(
        &mut self,
        seq: u64,
        early: &mut Vec<u8>,
        early_fds: &mut Vec<OwnedFd>,
    ) -> zbus::Result<Message> {
        let place = self.calls.acquire().await.map_err(io::Error::other)?;
        self.bytes.bounds.begin(early, early_fds.len())?;
        let message = self.bytes.receive_message(seq, early, early_fds).await?;
        if message.message_type() == Type::MethodCall {
            // Until its answer is sent.
            place.forget();
            self.asking.hold(&message).await;
        }
        Ok(message)
    }

    async fn recvmsg(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        self.bytes.recvmsg(buffer).await
    }

    fn can_pass_unix_fd(&self) -> bool {
        self.bytes.can_pass_unix_fd()
    }

    async fn peer_credentials(&mut self) -> io::Result<ConnectionCredentials> {
        credentials(&self.bytes.stream)
    }
}

/// The same byte by byte. zbus makes messages of them, and authenticates.
#[derive(Debug)]
struct Bytes {
    stream: Arc<UnixStream>,
    bounds: Bounds,
}

#[async_trait]
impl ReadHalf for Bytes {
    async fn recvmsg(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        let stream = &*self.stream;
        let read = || Ok(packet::receive(stream, buffer)?);
        let (length, fds) = stream.async_io(Interest::READABLE, read).await?;
        self.bounds.take(&mut buffer[..length], fds.len())?;
        Ok((length, fds))
    }

    fn can_pass_unix_fd(&self) -> bool {
        true
    }
}

/// What goes to the client.
#[derive(Debug)]
pub(super) struct Writer {
    stream: Arc<UnixStream>,
    calls: Arc<Semaphore>,
}

impl Writer {
    async fn send_all(&mut self, message: &Message) -> io::Result<()> {
        let data = message.data();
        let fds: Vec<_> = data.fds().iter().map(std::os::fd::AsFd::as_fd).collect();
        let mut sent = 0;
        while sent < data.len() {
            let fds = if sent == 0 { fds.as_slice() } else { &[] };
            sent += self.sendmsg(&data[sent..], fds).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl WriteHalf for Writer {
    async fn send_message(&mut self, message: &Message) -> zbus::Result<()> {
        let sent = self.send_all(message).await;
        // Each call has one, because `Bounds` asks for it; a client that is gone has had it too.
        if matches!(message.message_type(), Type::MethodReturn | Type::Error) {
            self.calls.add_permits(1);
        }
        if sent.is_err() {
            self.close().await?;
        }
        Ok(sent?)
    }

    async fn sendmsg(&mut self, buffer: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        let stream = &*self.stream;
        let write = || Ok(packet::send(stream, buffer, fds)?);
        timeout(STALL, stream.async_io(Interest::WRITABLE, write)).await?
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(shutdown(&*self.stream, Shutdown::Both)?)
    }

    fn can_pass_unix_fd(&self) -> bool {
        true
    }

    async fn peer_credentials(&mut self) -> io::Result<ConnectionCredentials> {
        credentials(&self.stream)
    }
}
