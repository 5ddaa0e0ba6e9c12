//! Raw sockets: requests and frames that no library sends, and a peer that does not read.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use dikala_testkit::PATIENCE;

/// A bridge's WebSocket.
pub struct RawSocket(TcpStream);

pub fn address(http: &str) -> SocketAddr {
    http.strip_prefix("http://").unwrap().parse().unwrap()
}

/// Reads until the peer closes.
pub async fn read_all(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    // A reset after the answer is an end as well.
    let _ = read.expect("the connection ends");
    String::from_utf8_lossy(&answer).into_owned()
}

/// Connects from this local address, in 127.0.0.0/8.
pub async fn connect_from(from: &str, to: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
    socket.connect(address(to)).await.unwrap()
}

/// Sends bytes and reads until the peer closes.
pub async fn exchange(to: &str, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address(to)).await.unwrap();
    let _ = stream.write_all(bytes).await;
    read_all(&mut stream).await
}

/// First bytes of frames: the FIN bit and the opcode.
pub const TEXT: u8 = 0x81;
pub const TEXT_GOES_ON: u8 = 0x01;
pub const GOES_ON: u8 = 0x00;

impl RawSocket {
    pub async fn open(base: &str, token: &str) -> Self {
        let address = base.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!(
            "GET /bridge/v1/connect HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\nupgrade: websocket\r\n\
             connection: upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             sec-websocket-protocol: dikala.bridge.v1\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(stream.read_u8().await.unwrap());
        }
        assert!(answer.starts_with(b"HTTP/1.1 101"), "{answer:?}");
        Self(stream)
    }

    /// Sends the header of a frame of this length, and nothing of its payload.
    pub async fn declare(&mut self, first: u8, length: u64) {
        let header = [&[first, 0x80 | 127], &length.to_be_bytes()[..], &[0; 4]].concat();
        self.0.write_all(&header).await.unwrap();
    }

    /// Sends a frame with a zero mask. Returns false if the socket takes no more for a second, or is closed.
    pub async fn send(&mut self, first: u8, payload: &[u8]) -> bool {
        let mut frame = vec![first];
        match payload.len() {
            length @ 0..126 => frame.push(0x80 | u8::try_from(length).unwrap()),
            length @ 126..65_536 => {
                frame.push(0x80 | 126);
                frame.extend(u16::try_from(length).unwrap().to_be_bytes());
            }
            length => {
                frame.push(0x80 | 127);
                frame.extend(u64::try_from(length).unwrap().to_be_bytes());
            }
        }
        frame.extend([0; 4]);
        frame.extend(payload);
        let sent = timeout(Duration::from_secs(1), self.0.write_all(&frame)).await;
        matches!(sent, Ok(Ok(())))
    }

    /// Reads until the peer closes the socket; returns its code.
    pub async fn closed(&mut self) -> u16 {
        timeout(PATIENCE, async {
            loop {
                let first = self.0.read_u8().await.unwrap();
                let length = match self.0.read_u8().await.unwrap() {
                    126 => u64::from(self.0.read_u16().await.unwrap()),
                    127 => self.0.read_u64().await.unwrap(),
                    length => u64::from(length),
                };
                let mut payload = vec![0; usize::try_from(length).unwrap()];
                self.0.read_exact(&mut payload).await.unwrap();
                if first == 0x88 {
                    return u16::from_be_bytes([payload[0], payload[1]]);
                }
            }
        })
        .await
        .expect("the service closes the socket")
    }
}
