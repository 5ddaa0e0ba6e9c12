//! A scripted phone, over UDP or a connection.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
    time::timeout,
};

use super::PATIENCE;

/// The connection of a phone.
pub trait PhoneStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> PhoneStream for S {}

/// The longest retransmission interval is T2 of RFC 3261 (4 s).
const REPEATED: Duration = Duration::from_millis(4_500);

enum Wire {
    Udp(UdpSocket),
    /// The transport's name, and bytes read ahead.
    Stream(&'static str, Box<dyn PhoneStream>, Vec<u8>),
}

pub struct ScriptedPhone {
    wire: Wire,
    pub local: SocketAddr,
    pub edge: SocketAddr,
    pub call_id: String,
    pub cseq: u32,
    /// The To header of the edge's answer, with its tag.
    pub to: String,
    pub did: String,
    /// The host and port of its `Contact`.
    pub contact: SocketAddr,
    branch: u32,
}

/// An offer of G.711 to this port.
pub fn offer(port: u16) -> String {
    format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio {port} RTP/AVP 0 8 101\r\n\
         a=rtpmap:0 PCMU/8000\r\na=rtpmap:8 PCMA/8000\r\na=rtpmap:101 telephone-event/8000\r\na=fmtp:101 0-15\r\na=sendrecv\r\n"
    )
}

impl ScriptedPhone {
    pub async fn udp(edge: SocketAddr) -> Self {
        Self::udp_from("127.0.0.1", edge).await
    }

    pub async fn udp_from(host: &str, edge: SocketAddr) -> Self {
        Self::at(UdpSocket::bind((host, 0)).await.unwrap(), edge).await
    }

    /// A phone whose address was known before the edge's.
    pub async fn at(socket: UdpSocket, edge: SocketAddr) -> Self {
        socket.connect(edge).await.unwrap();
        let local = socket.local_addr().unwrap();
        Self::of(Wire::Udp(socket), local, edge)
    }

    pub async fn tcp(edge: SocketAddr) -> Self {
        let stream = TcpStream::connect(edge).await.unwrap();
        let local = stream.local_addr().unwrap();
        Self::over("TCP", Box::new(stream), local, edge)
    }

    /// A phone over an open connection.
    pub fn over(
        transport: &'static str,
        stream: Box<dyn PhoneStream>,
        local: SocketAddr,
        edge: SocketAddr,
    ) -> Self {
        Self::of(Wire::Stream(transport, stream, Vec::new()), local, edge)
    }

    fn of(wire: Wire, local: SocketAddr, edge: SocketAddr) -> Self {
        let did = "+622150001000".to_owned();
        Self {
            wire,
            local,
            edge,
            call_id: format!("{:x}@phone", rand::random::<u64>()),
            cseq: 1,
            to: format!("<sip:{did}@{edge}>"),
            did,
            contact: local,
            branch: 0,
        }
    }

    pub async fn send(&mut self, text: &str) {
        self.send_bytes(text.as_bytes()).await;
    }

    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        match &mut self.wire {
            Wire::Udp(socket) => drop(socket.send(bytes).await.unwrap()),
            Wire::Stream(_, stream, _) => stream.write_all(bytes).await.unwrap(),
        }
    }

    /// Sends although the edge may have closed the connection.
    pub async fn try_send(&mut self, bytes: &[u8]) {
        if let Wire::Stream(_, stream, _) = &mut self.wire {
            let _ = stream.write_all(bytes).await;
        }
    }

    /// The next message; `None` after this time, or if the connection was closed.
    pub async fn hears(&mut self, within: Duration) -> Option<String> {
        match &mut self.wire {
            Wire::Udp(socket) => {
                let mut buffer = vec![0; 65_536];
                let length = timeout(within, socket.recv(&mut buffer))
                    .await
                    .ok()?
                    .unwrap();
                buffer.truncate(length);
                Some(String::from_utf8(buffer).unwrap())
            }
            Wire::Stream(_, stream, buffer) => loop {
                let text = String::from_utf8_lossy(buffer).into_owned();
                if let Some(end) = text.find("\r\n\r\n") {
                    let length: usize = header(&text, "Content-Length").unwrap().parse().unwrap();
                    if buffer.len() >= end + 4 + length {
                        let rest = buffer.split_off(end + 4 + length);
                        let message = std::mem::replace(buffer, rest);
                        return Some(String::from_utf8(message).unwrap());
                    }
                }
                let mut chunk = [0; 4_096];
                match timeout(within, stream.read(&mut chunk)).await.ok()? {
                    Ok(0) | Err(_) => return None,
                    Ok(length) => buffer.extend_from_slice(&chunk[..length]),
                }
            },
        }
    }

    /// Closes the connection, and waits until the edge has closed it, too.
    pub async fn closes(mut self) {
        if let Wire::Stream(_, stream, _) = &mut self.wire {
            stream.shutdown().await.unwrap();
        }
        while self.hears(PATIENCE).await.is_some() {}
    }

    /// The next bytes of a connection.
    pub async fn reads(&mut self, most: usize) -> String {
        let Wire::Stream(_, stream, _) = &mut self.wire else {
            panic!("datagrams come whole");
        };
        let mut bytes = vec![0; most];
        let read = timeout(PATIENCE, stream.read(&mut bytes)).await;
        bytes.truncate(read.unwrap().unwrap());
        String::from_utf8(bytes).unwrap()
    }

    /// The next message with this beginning; others are skipped.
    pub async fn expect(&mut self, begins: &str) -> String {
        loop {
            let Some(message) = self.hears(PATIENCE).await else {
                panic!("no {begins} came");
            };
            if message.starts_with(begins) {
                if message.starts_with("SIP/2.0")
                    && header(&message, "To").unwrap().contains(";tag=")
                {
                    self.to = header(&message, "To").unwrap().to_owned();
                }
                return message;
            }
        }
    }

    /// The answer to this phone's last request; retransmissions of earlier answers are skipped.
    pub async fn answered(&mut self, begins: &str) -> String {
        loop {
            let answer = self.expect(begins).await;
            let number = header(&answer, "CSeq").and_then(|cseq| cseq.split(' ').next());
            if number.and_then(|number| number.parse().ok()) == Some(self.cseq) {
                return answer;
            }
        }
    }

    /// Waits until nothing comes for longer than any retransmission interval.
    pub async fn falls_silent(&mut self) {
        let silence = timeout(PATIENCE, async {
            while self.hears(REPEATED).await.is_some() {}
        });
        silence.await.expect("it is repeated without end");
    }

    /// Like [`Self::expect`], for a message that takes this many seconds.
    pub async fn within(&mut self, seconds: u64, begins: &str) -> String {
        let waited = timeout(Duration::from_secs(seconds), async {
            loop {
                if let Some(heard) = self.hears(PATIENCE).await
                    && heard.starts_with(begins)
                {
                    return heard;
                }
            }
        });
        waited.await.unwrap()
    }

    /// A request of this call with a new branch. `extra`: further header lines.
    pub fn request(&mut self, method: &str, extra: &str, body: &str) -> String {
        self.branch += 1;
        self.written(method, extra, body)
    }

    /// A request with the last branch again, for the ACK of a refusal, and CANCEL.
    pub fn written(&self, method: &str, extra: &str, body: &str) -> String {
        let (local, edge, contact) = (self.local, self.edge, self.contact);
        let transport = match &self.wire {
            Wire::Udp(_) => "UDP",
            Wire::Stream(transport, ..) => transport,
        };
        let branch = format!(
            "z9hG4bK-{}-{}",
            self.call_id.split('@').next().unwrap(),
            self.branch
        );
        let kind = if body.is_empty() {
            ""
        } else {
            "Content-Type: application/sdp\r\n"
        };
        format!(
            "{method} sip:{}@{edge} SIP/2.0\r\nVia: SIP/2.0/{transport} {local};branch={branch};rport\r\n\
             Max-Forwards: 70\r\nFrom: \"Budi\" <sip:08123456789@{local}>;tag=phone\r\nTo: {}\r\nCall-ID: {}\r\n\
             CSeq: {} {method}\r\nContact: <sip:budi@{contact}>\r\nUser-Agent: phone/1\r\n{extra}{kind}Content-Length: {}\r\n\r\n{body}",
            self.did,
            self.to,
            self.call_id,
            self.cseq,
            body.len()
        )
    }

    /// Sends the next request of this call.
    pub async fn ask(&mut self, method: &str, extra: &str, body: &str) -> String {
        self.cseq += 1;
        let request = self.request(method, extra, body);
        self.send(&request).await;
        request
    }

    /// Answers a request to this phone.
    pub async fn answer(&mut self, request: &str, status: &str) {
        let response = self.response(request, status, "", "");
        self.send(&response).await;
    }

    /// A response to a request; the tag is added to To unless it is empty.
    pub fn response(&self, request: &str, status: &str, tag: &str, body: &str) -> String {
        let mut response = format!("SIP/2.0 {status}\r\n");
        for line in request.split("\r\n\r\n").next().unwrap().split("\r\n") {
            let name = line.split(':').next().unwrap();
            if ["Via", "From", "To", "Call-ID", "CSeq"].contains(&name) {
                let tag = if name == "To" && !tag.is_empty() {
                    format!(";tag={tag}")
                } else {
                    String::new()
                };
                response += &format!("{line}{tag}\r\n");
            }
        }
        let kind = if body.is_empty() {
            ""
        } else {
            "Content-Type: application/sdp\r\n"
        };
        response
            + &format!(
                "Contact: <sip:budi@{}>\r\n{kind}Content-Length: {}\r\n\r\n{body}",
                self.contact,
                body.len()
            )
    }

    /// INVITE, 200 and ACK. Returns the 200.
    pub async fn call(&mut self, extra: &str, body: &str) -> String {
        let invite = self.request("INVITE", extra, body);
        self.send(&invite).await;
        let answer = self.answered("SIP/2.0 200").await;
        self.acknowledge("").await;
        answer
    }

    pub async fn acknowledge(&mut self, body: &str) {
        let ack = self.request("ACK", "", body);
        self.send(&ack).await;
    }

    pub async fn hang_up(&mut self) {
        self.ask("BYE", "", "").await;
        self.answered("SIP/2.0 200").await;
    }
}

/// A stranger at this address of this machine who calls four times a millisecond, until aborted.
pub async fn flood(host: &str, edge: SocketAddr) -> tokio::task::JoinHandle<()> {
    let mut stranger = ScriptedPhone::udp_from(host, edge).await;
    tokio::spawn(async move {
        loop {
            for _ in 0..4 {
                let invite = stranger.request("INVITE", "", &offer(40_000));
                stranger.send(&invite).await;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
}

pub fn header<'a>(message: &'a str, name: &str) -> Option<&'a str> {
    let head = message.split("\r\n\r\n").next()?;
    head.split("\r\n").skip(1).find_map(|line| {
        let (held, value) = line.split_once(':')?;
        held.eq_ignore_ascii_case(name).then_some(value.trim())
    })
}
