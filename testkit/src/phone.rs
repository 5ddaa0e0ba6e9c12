//! The signalling of a SIP phone over UDP that calls, and hangs up or is hung up. Its audio belongs to whoever uses it.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use tokio::{net::UdpSocket, time::timeout};

use crate::wait::PATIENCE;

/// A call that was answered.
#[derive(Debug)]
pub struct Phone {
    socket: UdpSocket,
    edge: SocketAddr,
    did: String,
    caller: String,
    /// Not of this process alone: the edge tells calls apart by it.
    id: String,
    /// To, with the edge's tag.
    to: String,
    /// Where the answer wants RTP.
    pub media: SocketAddr,
}

/// An offer of one codec, and of keys as RFC 4733 has them.
pub fn offer(port: u16, payload: u8, codec: &str) -> String {
    format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio {port} RTP/AVP {payload} 101\r\n\
         a=rtpmap:{payload} {codec}\r\na=rtpmap:101 telephone-event/8000\r\na=fmtp:101 0-15\r\n"
    )
}

impl Phone {
    /// Calls a number, and acknowledges the answer. `id` is any name that no other call has.
    ///
    /// Panics where it is refused, or nothing comes.
    pub async fn call(edge: SocketAddr, did: &str, caller: &str, id: &str, offer: &str) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        socket.connect(edge).await.unwrap();
        let mut phone = Self {
            socket,
            edge,
            did: did.to_owned(),
            caller: caller.to_owned(),
            id: id.to_owned(),
            to: format!("<sip:{did}@{edge}>"),
            media: edge,
        };
        phone.send("INVITE", 1, offer).await;
        let answer = phone.answer_of("1 INVITE").await;
        assert!(answer.starts_with("SIP/2.0 200"), "{answer}");
        phone.to = header(&answer, "to");
        phone.send("ACK", 1, "").await;
        let media = answer.split("m=audio ").nth(1).unwrap();
        let port = media.split(' ').next().unwrap().parse().unwrap();
        phone.media = SocketAddr::new(edge.ip(), port);
        phone
    }

    pub async fn hang_up(&self) {
        self.send("BYE", 2, "").await;
        let answer = self.answer_of("2 BYE").await;
        assert!(answer.starts_with("SIP/2.0 200"), "{answer}");
    }

    /// Waits to be hung up, and consents: the request.
    pub async fn hung_up(&self) -> String {
        let asked = self.hung_up_within(PATIENCE).await;
        asked.expect("a BYE comes")
    }

    /// The same, if it comes so soon.
    pub async fn hung_up_within(&self, patience: Duration) -> Option<String> {
        let asked = self.next(|text| text.starts_with("BYE "));
        let asked = timeout(patience, asked).await.ok()?;
        let kept = ["via", "from", "to", "call-id", "cseq"];
        let kept = kept.map(|name| format!("{name}: {}\r\n", header(&asked, name)));
        let answer = format!(
            "SIP/2.0 200 OK\r\n{}content-length: 0\r\n\r\n",
            kept.concat()
        );
        self.socket.send(answer.as_bytes()).await.unwrap();
        Some(asked)
    }

    async fn send(&self, method: &str, number: u32, body: &str) {
        let (me, edge) = (self.socket.local_addr().unwrap(), self.edge);
        let (did, caller, id) = (&self.did, &self.caller, &self.id);
        let kind = match body {
            "" => "",
            _ => "Content-Type: application/sdp\r\n",
        };
        let text = format!(
            "{method} sip:{did}@{edge} SIP/2.0\r\nVia: SIP/2.0/UDP {me};branch=z9hG4bK{id}{method}\r\nMax-Forwards: 70\r\n\
             From: <sip:{caller}@{me}>;tag=p{id}\r\nTo: {to}\r\nCall-ID: {id}@phone\r\nCSeq: {number} {method}\r\n\
             Contact: <sip:phone@{me}>\r\n{kind}Content-Length: {length}\r\n\r\n{body}",
            to = self.to,
            length = body.len(),
        );
        self.socket.send(text.as_bytes()).await.unwrap();
    }

    /// The final answer to a request.
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

fn header(text: &str, name: &str) -> String {
    let found = text.lines().find_map(|line| {
        let (named, value) = line.split_once(':')?;
        (named.trim().to_lowercase() == name).then(|| value.trim().to_owned())
    });
    found.unwrap_or_default()
}
