//! Listeners that never answer.

use std::{
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use tokio::net::{TcpListener, TcpSocket};

/// A silent port on the loopback.
#[derive(Debug)]
pub struct DeafListener {
    pub address: SocketAddr,
    _listener: TcpListener,
    /// Connections that fill the backlog.
    held: Vec<TcpStream>,
}

impl DeafListener {
    /// The kernel accepts connections, but nothing is ever sent.
    pub fn silent() -> Self {
        Self::listen(128)
    }

    /// The backlog is full: connections are neither accepted nor refused.
    pub fn full() -> Self {
        let mut deaf = Self::listen(0);
        let brief = Duration::from_millis(500);
        while let Ok(stream) = TcpStream::connect_timeout(&deaf.address, brief) {
            deaf.held.push(stream);
        }
        deaf
    }

    fn listen(backlog: u32) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let listener = socket.listen(backlog).unwrap();
        Self {
            address: listener.local_addr().unwrap(),
            _listener: listener,
            held: Vec::new(),
        }
    }
}
