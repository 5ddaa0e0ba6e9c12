//! The signalling of a SIP phone over UDP: it calls, hangs up and is hung up. Its user supplies the audio.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use tokio::{net::UdpSocket, sync::mpsc, time::timeout};

use crate::wait::PATIENCE;

/// A phone with one call.
#[derive(Debug)]
pub struct SignallingPhone {
    socket: UdpSocket,
    edge: SocketAddr,
    did: String,
    caller: String,
    /// The Call-ID; unique across processes, because the edge identifies calls by it.
    id: String,
    /// `CSeq` of the next request.
    number: u32,
    /// The `To` header, with the edge's tag once it is known.
    to: String,
    /// The peer's RTP address, once it has answered.
    pub media: SocketAddr,
}

/// An SDP offer with one codec and telephone events (RFC 4733).
pub fn offer(port: u16, payload: u8, codec: &str) -> String {
    format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio {port} RTP/AVP {payload} 101\r\n\
         a=rtpmap:{payload} {codec}\r\na=rtpmap:101 telephone-event/8000\r\na=fmtp:101 0-15\r\n"
    )
}

impl SignallingPhone {
    /// A phone that will call `did`. `id` must be unique among all calls.
    pub async fn new(edge: SocketAddr, did: &str, caller: &str, id: &str) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        socket.connect(edge).await.unwrap();
        Self {
            socket,
            edge,
            did: did.to_owned(),
            caller: caller.to_owned(),
            id: id.to_owned(),
            number: 1,
            to: format!("<sip:{did}@{edge}>"),
            media: edge,
        }
    }

    /// Creates a phone and calls.
    pub async fn call(edge: SocketAddr, did: &str, caller: &str, id: &str, offer: &str) -> Self {
        let mut phone = Self::new(edge, did, caller, id).await;
        phone.invite(offer).await;
        phone
    }

    /// Calls, and acknowledges the answer. Panics if the call is refused or nothing is answered.
    pub async fn invite(&mut self, offer: &str) {
        let answer = self.ask("INVITE", offer).await;
        assert!(answer.starts_with("SIP/2.0 200"), "{answer}");
        self.to = header(&answer, "to");
        self.send("ACK", "ACK", self.number, "").await;
        self.number += 1;
        self.media = media(&answer, self.edge);
    }

    /// Calls in a new dialog and returns the refusal. The next call repeats this one with the next `CSeq`.
    pub async fn refused(&mut self, offer: &str) -> String {
        let called = format!("<sip:{}@{}>", self.did, self.edge);
        self.to.clone_from(&called);
        let answer = self.ask("INVITE", offer).await;
        assert!(!answer.starts_with("SIP/2.0 2"), "{answer}");
        self.to = header(&answer, "to");
        self.send("ACK", "INVITE", self.number, "").await;
        self.number += 1;
        self.to = called;
        answer
    }

    /// Sends a request and returns its final response.
    pub async fn ask(&self, method: &str, body: &str) -> String {
        self.send(method, method, self.number, body).await;
        self.answer_of(&format!("{} {method}", self.number)).await
    }

    /// Accepts an incoming call; returns the peer's RTP address and the Call-ID.
    pub async fn takes_a_call(&self, answer: &str) -> (SocketAddr, String) {
        let invite = self.next(|text| text.starts_with("INVITE "));
        let invite = timeout(PATIENCE, invite).await.expect("a call comes");
        let me = self.socket.local_addr().unwrap();
        let answer = format!(
            "{}Contact: <sip:person@{me}>\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{answer}",
            consent(&invite, ";tag=person"),
            answer.len(),
        );
        self.socket.send(answer.as_bytes()).await.unwrap();
        (media(&invite, self.edge), header(&invite, "call-id"))
    }

    pub async fn hang_up(&self) {
        let answer = self.ask("BYE", "").await;
        assert!(answer.starts_with("SIP/2.0 200"), "{answer}");
    }

    /// Waits for a `BYE` and answers it; returns the request.
    pub async fn hung_up(&self) -> String {
        let asked = self.hung_up_within(PATIENCE).await;
        asked.expect("a BYE comes")
    }

    /// As [`Self::hung_up`], but returns `None` after `patience`.
    pub async fn hung_up_within(&self, patience: Duration) -> Option<String> {
        let asked = self.next(|text| text.starts_with("BYE "));
        let asked = timeout(patience, asked).await.ok()?;
        let answer = format!("{}content-length: 0\r\n\r\n", consent(&asked, ""));
        self.socket.send(answer.as_bytes()).await.unwrap();
        Some(asked)
    }

    /// Sends a request of the transaction of method `of`.
    async fn send(&self, method: &str, of: &str, number: u32, body: &str) {
        let (me, edge) = (self.socket.local_addr().unwrap(), self.edge);
        let (did, caller, id) = (&self.did, &self.caller, &self.id);
        let kind = match body {
            "" => "",
            _ => "Content-Type: application/sdp\r\n",
        };
        let text = format!(
            "{method} sip:{did}@{edge} SIP/2.0\r\nVia: SIP/2.0/UDP {me};branch=z9hG4bK{id}{number}{of}\r\nMax-Forwards: 70\r\n\
             From: <sip:{caller}@{me}>;tag=p{id}\r\nTo: {to}\r\nCall-ID: {id}@phone\r\nCSeq: {number} {method}\r\n\
             Contact: <sip:phone@{me}>\r\n{kind}Content-Length: {length}\r\n\r\n{body}",
            to = self.to,
            length = body.len(),
        );
        self.socket.send(text.as_bytes()).await.unwrap();
    }

    async fn answer_of(&self, request: &str) -> String {
        let answer = self.next(|text| {
            let is_final = text.starts_with("SIP/2.0 ") && !text.starts_with("SIP/2.0 1");
            is_final && header(text, "cseq") == request
        });
        timeout(PATIENCE, answer).await.expect("an answer comes")
    }

    async fn next(&self, wanted: impl Fn(&str) -> bool) -> String {
        let mut packet = vec![0; 65_536];
        loop {
            let length = self.socket.recv(&mut packet).await.unwrap();
            let text = String::from_utf8_lossy(&packet[..length]).into_owned();
            if wanted(&text) {
                return text;
            }
        }
    }
}

/// Accepts every REGISTER, and reports the seconds that it asked for.
pub async fn registrar(socket: UdpSocket, asked: mpsc::UnboundedSender<String>) {
    let mut bytes = [0; 4_096];
    while let Ok((length, from)) = socket.recv_from(&mut bytes).await {
        let request = String::from_utf8_lossy(&bytes[..length]).into_owned();
        let expires = header(&request, "expires");
        if expires.is_empty() {
            continue;
        }
        let kept =
            ["contact", "expires"].map(|name| format!("{name}: {}\r\n", header(&request, name)));
        let answer = format!(
            "{}{}content-length: 0\r\n\r\n",
            consent(&request, ""),
            kept.concat()
        );
        socket.send_to(answer.as_bytes(), from).await.unwrap();
        let _ = asked.send(expires);
    }
}

/// The RTP address in a message.
fn media(text: &str, edge: SocketAddr) -> SocketAddr {
    let media = text.split("m=audio ").nth(1).unwrap();
    let port = media.split(' ').next().unwrap().parse().unwrap();
    SocketAddr::new(edge.ip(), port)
}

/// The head of a 200 response; `tag` is appended to `To`.
fn consent(request: &str, tag: &str) -> String {
    let kept = ["via", "from", "to", "call-id", "cseq"].map(|name| {
        let tag = if name == "to" { tag } else { "" };
        format!("{name}: {}{tag}\r\n", header(request, name))
    });
    format!("SIP/2.0 200 OK\r\n{}", kept.concat())
}

/// The value of a message's first header with this name, given in lowercase.
pub fn header(text: &str, name: &str) -> String {
    let found = text.lines().find_map(|line| {
        let (named, value) = line.split_once(':')?;
        (named.trim().to_lowercase() == name).then(|| value.trim().to_owned())
    });
    found.unwrap_or_default()
}
