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
        let (mut phone, answer) = Self::try_call(edge, did).await;
        assert!(answer.starts_with("SIP/2.0 200"), "{answer}");
        phone.to = header(&answer, "to");
        phone.send("ACK", 1, "").await;
        phone.audio.start(media(&answer, edge));
        phone
    }

    fn new(signalling: UdpSocket, edge: SocketAddr, did: &str) -> Self {
        Self {
            signalling,
            audio: Audio::new(),
            edge,
            did: did.to_owned(),
            id: rand::random(),
            to: format!("<sip:{did}@{edge}>"),
        }
    }

    /// Asks whether calls are taken: what is answered.
    pub async fn options(edge: SocketAddr) -> String {
        let signalling = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        signalling.connect(edge).await.unwrap();
        let phone = Self::new(signalling, edge, "+620000000");
        phone.send("OPTIONS", 1, "").await;
        phone.answer_of("1 OPTIONS").await
    }

    /// Calls a number: what is answered.
    pub async fn try_call(edge: SocketAddr, did: &str) -> (Self, String) {
        let signalling = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        signalling.connect(edge).await.unwrap();
        let phone = Self::new(signalling, edge, did);
        let offer = sdp(phone.audio.port());
        phone.send("INVITE", 1, &offer).await;
        let answer = phone.answer_of("1 INVITE").await;
        (phone, answer)
    }

    /// Waits until something is heard that is not silence.
    pub async fn hears(&self) {
        eventually("the greeting to be heard", async || {
            self.audio.is_loud().then_some(())
        })
        .await;
    }

    /// Takes a call of the other side's to somebody else that comes to this phone, as it is the trunk: the one who answers it, and
    /// the call's id.
    pub async fn takes_a_call(&self) -> (Audio, String) {
        let invite = self.asked("INVITE ").await;
        let mut person = Audio::new();
        let me = self.signalling.local_addr().unwrap();
        let tag = ";tag=person";
        let answer = format!(
            "{}Contact: <sip:person@{me}>\r\nContent-Type: application/sdp\r\n",
            kept(&invite, tag)
        );
        let offer = sdp(person.port());
        let answer = format!("{answer}Content-Length: {}\r\n\r\n{offer}", offer.len());
        self.signalling.send(answer.as_bytes()).await.unwrap();
        person.start(media(&invite, self.edge));
        (person, header(&invite, "call-id"))
    }

    /// The next request of this method.
    async fn asked(&self, method: &str) -> String {
        let mut packet = vec![0; 65_536];
        let asked = async {
            loop {
                let length = self.signalling.recv(&mut packet).await.unwrap();
                let text = String::from_utf8_lossy(&packet[..length]).into_owned();
                if text.starts_with(method) {
                    return text;
                }
            }
        };
        timeout(PATIENCE, asked).await.expect("it is asked for")
    }

    pub async fn hang_up(&self) {
        self.send("BYE", 2, "").await;
        let answer = self.answer_of("2 BYE").await;
        assert!(answer.starts_with("SIP/2.0 200"), "{answer}");
    }

    /// Waits to be hung up, and consents: the request.
    pub async fn hung_up(&self) -> String {
        let asked = self.asked("BYE ").await;
        let answer = format!("{}content-length: 0\r\n\r\n", kept(&asked, ""));
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

/// G.711 A and keys, at this port.
fn sdp(port: u16) -> String {
    format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio {port} RTP/AVP 8 101\r\n\
         a=rtpmap:8 PCMA/8000\r\na=rtpmap:101 telephone-event/8000\r\na=fmtp:101 0-15\r\n"
    )
}

/// Where the edge wants media.
fn media(text: &str, edge: SocketAddr) -> SocketAddr {
    let media = text.split("m=audio ").nth(1).unwrap();
    let port = media.split(' ').next().unwrap().parse().unwrap();
    SocketAddr::new(edge.ip(), port)
}

/// The beginning of a consent; the tag is put on To.
fn kept(request: &str, tag: &str) -> String {
    let kept = ["via", "from", "to", "call-id", "cseq"].map(|name| {
        let tag = if name == "to" { tag } else { "" };
        format!("{name}: {}{tag}\r\n", header(request, name))
    });
    format!("SIP/2.0 200 OK\r\n{}", kept.concat())
}

pub fn header(text: &str, name: &str) -> String {
    let found = text.lines().find_map(|line| {
        let (named, value) = line.split_once(':')?;
        (named.trim().to_lowercase() == name).then(|| value.trim().to_owned())
    });
    found.unwrap_or_default()
}
