//! One WebSocket of the measuring bridge, and how a script is played on it.

use std::{
    io::{Error, ErrorKind, Result},
    net::SocketAddr,
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, Interest},
    net::TcpStream,
    time::{Instant, timeout_at},
};

use super::frames::{self, CLOSE, PING, PONG, Reply, TEXT};

/// A server that answers nothing for so long has lost what it was sent.
const SILENCE_MAX: Duration = Duration::from_secs(40);
const ROOM: usize = 256 * 1024;

/// What one socket has to say, and what it makes of the replies.
pub trait SocketScript {
    /// Writes what is due now. Says when it wants to be asked again without any reply.
    fn due(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Instant>;

    /// Takes a reply, and writes what follows from it.
    fn reply(&mut self, reply: &Reply<'_>, now: Instant, out: &mut Vec<u8>);

    /// Messages that wait for their replies.
    fn waiting(&self) -> usize;

    /// Whether nothing more is to be said.
    fn is_over(&self) -> bool;

    /// Counts what waits for a reply as lost.
    fn give_up(&mut self);
}

/// An open WebSocket.
#[derive(Debug)]
pub struct Socket {
    stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
}

impl Socket {
    /// Opens it.
    pub async fn dial(address: SocketAddr, token: &str) -> Result<Self> {
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let request = format!(
            "GET /bridge/v1/connect HTTP/1.1\r\nhost: {address}\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: ZGlrYWxhIGJlbmNoLi4uLg==\r\n\
             sec-websocket-protocol: dikala.bridge.v1\r\nauthorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut input = Vec::with_capacity(ROOM);
        let end = loop {
            if let Some(end) = input.windows(4).position(|w| w == b"\r\n\r\n") {
                break end + 4;
            }
            if stream.read_buf(&mut input).await? == 0 {
                return Err(closed());
            }
        };
        if !input.starts_with(b"HTTP/1.1 101") {
            let answer = String::from_utf8_lossy(&input[..end]).into_owned();
            return Err(Error::other(format!("the bridge is refused: {answer}")));
        }
        input.drain(..end);
        Ok(Self {
            stream,
            input,
            output: Vec::with_capacity(ROOM),
            written: 0,
        })
    }

    /// Plays a script to its end. What was not answered for long is given up.
    pub async fn play<S: SocketScript>(&mut self, script: &mut S) -> Result<()> {
        let mut heard = Instant::now();
        loop {
            let wake = script.due(Instant::now(), &mut self.output);
            self.flush()?;
            if script.is_over() && self.output.is_empty() {
                return Ok(());
            }
            let patience = heard + SILENCE_MAX;
            let deadline = wake.map_or(patience, |wake| wake.min(patience));
            let interest = if self.output.is_empty() {
                Interest::READABLE
            } else {
                Interest::READABLE | Interest::WRITABLE
            };
            match timeout_at(deadline, self.stream.ready(interest)).await {
                Ok(ready) => {
                    if ready?.is_readable() && self.fill()? {
                        heard = Instant::now();
                        self.read(script)?;
                    }
                }
                Err(_) if script.waiting() == 0 => heard = Instant::now(),
                Err(_) if Instant::now() >= patience => {
                    script.give_up();
                    return Ok(());
                }
                Err(_) => {}
            }
        }
    }

    /// Writes as much as the kernel takes.
    fn flush(&mut self) -> Result<()> {
        while self.written < self.output.len() {
            match self.stream.try_write(&self.output[self.written..]) {
                Ok(length) => self.written += length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        self.written = 0;
        Ok(())
    }

    /// Reads what is there. False if nothing is.
    fn fill(&mut self) -> Result<bool> {
        let before = self.input.len();
        loop {
            self.input.reserve(ROOM / 4);
            match self.stream.try_read_buf(&mut self.input) {
                Ok(0) => return Err(closed()),
                Ok(_) if self.input.len() - before < ROOM => {}
                Ok(_) => return Ok(true),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Ok(self.input.len() > before);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Hands on the frames that are whole.
    fn read<S: SocketScript>(&mut self, script: &mut S) -> Result<()> {
        let now = Instant::now();
        let mut from = 0;
        while let Some(frame) = frames::frame_at(&self.input, from) {
            let payload = &self.input[frame.payload.clone()];
            match frame.opcode {
                TEXT => {
                    if let Some(reply) = Reply::read(payload) {
                        script.reply(&reply, now, &mut self.output);
                    }
                }
                PING => frames::write_masked(&mut self.output, PONG, payload),
                CLOSE => {
                    let reason = String::from_utf8_lossy(payload.get(2..).unwrap_or_default());
                    return Err(Error::other(format!("the socket is closed: {reason}")));
                }
                _ => {}
            }
            from = frame.payload.end;
        }
        self.input.drain(..from);
        Ok(())
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::UnexpectedEof, "the server closed the connection")
}
