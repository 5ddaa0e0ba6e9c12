//! Meta's SIP gateway over TLS, with one call of a WhatsApp user to a business.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split},
    net::TcpStream,
    sync::{mpsc, watch},
    time::timeout,
};
use tokio_rustls::client::TlsStream;

use super::media::MetaMedia;
use crate::{phone::header, tls, wait::PATIENCE};

/// Requests that Meta's gateway does not serve: a call cannot be changed, nor referred.
const FORBIDDEN: [&str; 3] = ["INVITE ", "UPDATE ", "REFER "];

type Writer = Arc<tokio::sync::Mutex<WriteHalf<TlsStream<TcpStream>>>>;

/// A call that is to be placed, and its faults.
#[derive(Debug, Clone)]
pub struct MetaCaller {
    /// The TLS listener of the business.
    pub edge: SocketAddr,
    /// The called number, E.164.
    pub did: String,
    /// User and display name of From: the caller's number, or what Meta sends in place of one.
    pub caller: String,
    /// Unique among all calls; Call-ID and tag are made of it.
    pub id: String,
    /// Further header lines of the INVITE, each with its end.
    pub headers: String,
    pub prefers_g711: bool,
    pub is_encrypted: bool,
    /// Encrypts with another key than the offered one.
    pub has_wrong_key: bool,
    /// Sends a BYE of its own before it answers the business's: both hang up at once.
    pub hangs_up_too: bool,
    /// Sends another BYE once the call is over, whoever hung up.
    pub terminates_late: bool,
}

impl MetaCaller {
    /// A call as Meta sends it.
    pub fn new(edge: SocketAddr, did: &str, id: &str) -> Self {
        Self {
            edge,
            did: did.to_owned(),
            caller: "+6281234567890".to_owned(),
            id: id.to_owned(),
            headers: format!("x-wa-meta-wacid: wacid.{id}\r\n"),
            prefers_g711: false,
            is_encrypted: true,
            has_wrong_key: false,
            hangs_up_too: false,
            terminates_late: false,
        }
    }

    /// Calls, and acknowledges the answer. Errors: the refusal.
    pub async fn call(&self) -> Result<MetaCall, String> {
        let stream = tls::connect(self.edge).await.unwrap();
        let local = stream.get_ref().0.local_addr().unwrap();
        let (reader, writer) = split(stream);
        let writer: Writer = Arc::new(tokio::sync::Mutex::new(writer));
        let (responses, answers) = mpsc::unbounded_channel();
        let (over, is_over) = watch::channel(None);
        let mut key = [0; 30];
        key.copy_from_slice(&[self.id.as_bytes(), &[7; 30]].concat()[..30]);
        let mut call = MetaCall {
            plan: self.clone(),
            local,
            writer: writer.clone(),
            answers,
            is_over,
            forbidden: Arc::default(),
            number: 1,
            to: format!("<sip:{}@{}>", self.did, self.edge),
            target: format!("sip:{}@{};transport=tls", self.did, self.edge),
            answer: String::new(),
            media: MetaMedia::open(key).await,
        };
        tokio::spawn(read(
            reader,
            writer,
            responses,
            over,
            call.forbidden.clone(),
            self.hangs_up_too,
        ));
        let offer = call.media.offer(self.prefers_g711, self.is_encrypted);
        let answer = call.ask("INVITE", &offer).await;
        call.to = header(&answer, "to");
        if !answer.starts_with("SIP/2.0 200") {
            call.send("ACK", "").await;
            return Err(answer);
        }
        let contact = header(&answer, "contact");
        call.target = contact.trim_matches(['<', '>']).to_owned();
        call.send("ACK", "").await;
        call.number += 1;
        call.media
            .start(&answer, self.has_wrong_key.then_some([3; 30]));
        call.answer = answer;
        Ok(call)
    }
}

/// An established call.
#[derive(Debug)]
pub struct MetaCall {
    plan: MetaCaller,
    local: SocketAddr,
    writer: Writer,
    answers: mpsc::UnboundedReceiver<String>,
    is_over: watch::Receiver<Option<String>>,
    forbidden: Arc<Mutex<Vec<String>>>,
    number: u32,
    to: String,
    target: String,
    answer: String,
    pub media: MetaMedia,
}

impl MetaCall {
    fn request(&self, method: &str, number: u32, body: &str) -> String {
        let MetaCaller {
            caller,
            id,
            headers,
            ..
        } = &self.plan;
        let kind = match body {
            "" => "",
            _ => "Content-Type: application/sdp\r\n",
        };
        let (local, to, target) = (self.local, &self.to, &self.target);
        let extra = if method == "INVITE" { headers } else { "" };
        format!(
            "{method} {target} SIP/2.0\r\nVia: SIP/2.0/TLS {local};branch=z9hG4bK{id}{number}{method}\r\nMax-Forwards: 70\r\n\
             From: \"{caller}\" <sip:{caller}@wa.meta.vc>;tag=m{id}\r\nTo: {to}\r\nCall-ID: {id}@wa.meta.vc\r\n\
             CSeq: {number} {method}\r\nContact: <sip:{caller}@{local};transport=tls>\r\nAllow: INVITE, ACK, BYE, CANCEL, OPTIONS\r\n\
             X-FB-External-Domain: wa.meta.vc\r\nUser-Agent: Facebook SipGateway\r\n{extra}{kind}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    async fn send(&self, method: &str, body: &str) {
        let text = self.request(method, self.number, body);
        write(&self.writer, &text).await;
    }

    /// Sends a request; returns its final response.
    async fn ask(&mut self, method: &str, body: &str) -> String {
        self.send(method, body).await;
        let wanted = format!("{} {method}", self.number);
        let answer = async {
            loop {
                let answer = self.answers.recv().await.expect("the connection stands");
                if !answer.starts_with("SIP/2.0 1") && header(&answer, "cseq") == wanted {
                    return answer;
                }
            }
        };
        timeout(PATIENCE, answer).await.expect("an answer comes")
    }

    /// The answer to the INVITE.
    pub fn answer(&self) -> &str {
        &self.answer
    }

    /// Hangs up.
    pub async fn hang_up(&mut self) {
        let answer = self.ask("BYE", "").await;
        assert!(answer.starts_with("SIP/2.0 200"), "{answer}");
        self.terminate_late().await;
    }

    /// The late BYE is answered: the call may be about to end, or unknown.
    async fn terminate_late(&mut self) {
        if !self.plan.terminates_late {
            return;
        }
        self.number += 1;
        let answer = self.ask("BYE", "").await;
        let is_known = answer.starts_with("SIP/2.0 200") || answer.starts_with("SIP/2.0 481");
        assert!(is_known, "{answer}");
    }

    /// Waits until the business hangs up; returns its BYE.
    pub async fn hung_up(&mut self) -> String {
        let over = self.is_over.wait_for(Option::is_some);
        let over = timeout(PATIENCE, over).await.expect("a BYE comes");
        let bye = over.unwrap().clone().unwrap_or_default();
        if self.plan.hangs_up_too {
            self.ask("BYE", "").await;
            write(&self.writer, &response(&bye, "200 OK")).await;
        }
        self.terminate_late().await;
        bye
    }

    /// Waits until this much was heard.
    pub async fn hears(&self, time: Duration) -> Vec<i16> {
        let samples = usize::try_from(time.as_millis()).unwrap() * 16;
        let what = format!("{time:?} of sound");
        crate::eventually(&what, async || {
            let heard = self.media.heard();
            (heard.len() >= samples).then_some(heard)
        })
        .await
    }

    /// The requests of the business that Meta does not serve.
    pub fn forbidden(&self) -> Vec<String> {
        self.forbidden.lock().unwrap().clone()
    }
}

async fn write(writer: &Writer, text: &str) {
    // The business may have closed the connection.
    let _ = writer.lock().await.write_all(text.as_bytes()).await;
}

async fn read(
    mut reader: ReadHalf<TlsStream<TcpStream>>,
    writer: Writer,
    responses: mpsc::UnboundedSender<String>,
    over: watch::Sender<Option<String>>,
    forbidden: Arc<Mutex<Vec<String>>>,
    hangs_up_too: bool,
) {
    let mut bytes = Vec::new();
    while let Some(message) = next(&mut reader, &mut bytes).await {
        if message.starts_with("SIP/2.0 ") {
            let _ = responses.send(message);
            continue;
        }
        if message.starts_with("ACK ") {
            continue;
        }
        let is_bye = message.starts_with("BYE ");
        let is_forbidden = FORBIDDEN.iter().any(|name| message.starts_with(name));
        let status = match is_forbidden {
            true => "488 Not Acceptable Here",
            false => "200 OK",
        };
        if !(is_bye && hangs_up_too) {
            write(&writer, &response(&message, status)).await;
        }
        if is_forbidden {
            forbidden.lock().unwrap().push(message);
        } else if is_bye {
            over.send_replace(Some(message));
        }
    }
}

fn response(request: &str, status: &str) -> String {
    let kept = ["via", "from", "to", "call-id", "cseq"]
        .map(|name| format!("{name}: {}\r\n", header(request, name)));
    format!(
        "SIP/2.0 {status}\r\n{}content-length: 0\r\n\r\n",
        kept.concat()
    )
}

/// The next whole message; `None` at the end of the connection.
async fn next(reader: &mut ReadHalf<TlsStream<TcpStream>>, bytes: &mut Vec<u8>) -> Option<String> {
    loop {
        let text = String::from_utf8_lossy(bytes).into_owned();
        if let Some(end) = text.find("\r\n\r\n") {
            let body: usize = header(&text, "content-length").parse().unwrap_or(0);
            let length = end + 4 + body;
            if bytes.len() >= length {
                let rest = bytes.split_off(length);
                let message = std::mem::replace(bytes, rest);
                return Some(String::from_utf8_lossy(&message).into_owned());
            }
        }
        let mut chunk = [0; 4_096];
        match reader.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(length) => bytes.extend_from_slice(&chunk[..length]),
        }
    }
}
