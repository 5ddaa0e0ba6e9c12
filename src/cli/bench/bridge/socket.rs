//! One WebSocket of the measuring bridge, and the loop that plays a script on it.

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

use super::frames::{self, BenchReply, CLOSE, PING, PONG, TEXT};

/// If the server is silent for this long, unacknowledged messages count as lost.
const SILENCE_MAX: Duration = Duration::from_secs(40);
const ROOM: usize = 256 * 1024;

/// The messages of one socket and the reaction to replies.
pub trait SocketScript {
    /// Writes the messages that are due now. Returns the time of the next one, if it does not depend on a reply.
    fn due(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Instant>;

    /// Handles a reply and writes the messages that follow from it.
    fn reply(&mut self, reply: &BenchReply<'_>, now: Instant, out: &mut Vec<u8>);

    /// Number of unacknowledged messages.
    fn waiting(&self) -> usize;

    /// True once the script has nothing more to send.
    fn is_over(&self) -> bool;

    /// Counts all unacknowledged messages as lost.
    fn give_up(&mut self);
}

#[derive(Debug)]
pub struct BenchSocket {
    stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
}

impl BenchSocket {
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

    /// Plays a script to its end. Gives up messages that stay unacknowledged for [`SILENCE_MAX`].
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

    /// Writes as much as the kernel accepts.
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

    /// Reads what has arrived. Returns false if nothing has.
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

    /// Passes complete frames to the script.
    fn read<S: SocketScript>(&mut self, script: &mut S) -> Result<()> {
        let now = Instant::now();
        let mut from = 0;
        while let Some(frame) = frames::frame_at(&self.input, from) {
            let payload = &self.input[frame.payload.clone()];
            match frame.opcode {
                TEXT => {
                    if let Some(reply) = BenchReply::read(payload) {
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
