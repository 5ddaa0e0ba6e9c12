//! A SIP phone over UDP that calls, hears, and hangs up.

use std::net::SocketAddr;

use dikala_testkit::eventually;
use tokio::{net::UdpSocket, time::timeout};

use super::{PATIENCE, audio::Audio};

pub struct Phone {
    signalling: UdpSocket,
    pub audio: Audio,
    edge: SocketAddr,
    did: String,
    id: u64,
    /// To, with the edge's tag.
    to: String,
}

impl Phone {
    /// Calls a number, and acknowledges the answer.
    pub async fn call(edge: SocketAddr, did: &str) -> Self {
        let signalling = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        signalling.connect(edge).await.unwrap();
        let mut phone = Self {
            signalling,
            audio: Audio::new(),
            edge,
            did: did.to_owned(),
            id: rand::random(),
            to: format!("<sip:{did}@{edge}>"),
        };
        let port = phone.audio.port();
        let offer = format!(
            "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio {port} RTP/AVP 8 101\r\n\
             a=rtpmap:8 PCMA/8000\r\na=rtpmap:101 telephone-event/8000\r\na=fmtp:101 0-15\r\n"
        );
        phone.send("INVITE", 1, &offer).await;
        let answer = phone.answer_of("1 INVITE").await;
        assert!(answer.starts_with("SIP/2.0 200"), "{answer}");
        phone.to = header(&answer, "to");
        phone.send("ACK", 1, "").await;
        let media = answer.split("m=audio ").nth(1).unwrap();
        let port = media.split(' ').next().unwrap().parse().unwrap();
        phone.audio.start(SocketAddr::new(edge.ip(), port));
        phone
    }

    /// Waits until something is heard that is not silence.
    pub async fn hears(&self) {
        eventually("the greeting to be heard", async || {
            self.audio.is_loud().then_some(())
        })
        .await;
    }

    pub async fn hang_up(&self) {
        self.send("BYE", 2, "").await;
        let answer = self.answer_of("2 BYE").await;
        assert!(answer.starts_with("SIP/2.0 200"), "{answer}");
    }

    /// Waits to be hung up, and consents: the request.
    pub async fn hung_up(&self) -> String {
        let mut packet = vec![0; 65_536];
        let asked = async {
            loop {
                let length = self.signalling.recv(&mut packet).await.unwrap();
                let text = String::from_utf8_lossy(&packet[..length]).into_owned();
                if text.starts_with("BYE ") {
                    return text;
                }
            }
        };
        let asked = timeout(PATIENCE, asked).await.expect("a BYE comes");
        let kept = ["via", "from", "to", "call-id", "cseq"];
        let kept = kept.map(|name| format!("{name}: {}\r\n", header(&asked, name)));
        let answer = format!(
            "SIP/2.0 200 OK\r\n{}content-length: 0\r\n\r\n",
            kept.concat()
        );
        self.signalling.send(answer.as_bytes()).await.unwrap();
        asked
    }

    async fn send(&self, method: &str, number: u32, body: &str) {
        let (me, edge, did, id) = (
            self.signalling.local_addr().unwrap(),
            self.edge,
            &self.did,
            self.id,
        );
        let kind = match body {
            "" => "",
            _ => "Content-Type: application/sdp\r\n",
        };
        let text = format!(
            "{method} sip:{did}@{edge} SIP/2.0\r\nVia: SIP/2.0/UDP {me};branch=z9hG4bK{id:x}{method}\r\nMax-Forwards: 70\r\n\
             From: <sip:+6281234567890@{me}>;tag=p{id:x}\r\nTo: {to}\r\nCall-ID: {id:x}@phone\r\nCSeq: {number} {method}\r\n\
             Contact: <sip:phone@{me}>\r\n{kind}Content-Length: {length}\r\n\r\n{body}",
            to = self.to,
            length = body.len(),
        );
        self.signalling.send(text.as_bytes()).await.unwrap();
    }

    /// The final answer to a request.
    async fn answer_of(&self, request: &str) -> String {
        let mut packet = vec![0; 65_536];
        let answered = async {
            loop {
                let length = self.signalling.recv(&mut packet).await.unwrap();
                let text = String::from_utf8_lossy(&packet[..length]).into_owned();
                let is_final = text.starts_with("SIP/2.0 ") && !text.starts_with("SIP/2.0 1");
                if is_final && header(&text, "cseq") == request {
                    return text;
                }
            }
        };
        timeout(PATIENCE, answered).await.expect("an answer comes")
    }
}

fn header(text: &str, name: &str) -> String {
    let found = text.lines().find_map(|line| {
        let (named, value) = line.split_once(':')?;
        (named.trim().to_lowercase() == name).then(|| value.trim().to_owned())
    });
    found.unwrap_or_default()
}
