//! sipp as a carrier: scenarios that are put together from steps, and the program that plays one.

use std::{net::SocketAddr, process::Command};

use md5::{Digest, Md5};
use tempfile::TempDir;

use super::{ChildProgram, PATIENCE, TestEdge, eventually, port, turn::wait_for_turn};

/// An offer or answer in A-law.
pub const ALAW: &str = "v=0\no=- 1 1 IN IP4 [local_ip]\ns=-\nc=IN IP4 [media_ip]\nt=0 0\n\
                        m=audio [rtpstream_audio_port] RTP/AVP 8\na=rtpmap:8 PCMA/8000\n";

/// A received message: a method or a status, and for each header an expression that it must match. An empty name is the whole
/// message, and `!` a whole message that must not match. sipp also takes a header whose name ends like this one.
pub fn receive(message: &str, checks: &[(&str, &str)]) -> String {
    let kind = match message.starts_with(char::is_numeric) {
        true => "response",
        false => "request",
    };
    let mut step = format!(r#"<recv {kind}="{message}"><action>"#);
    for (header, expression) in checks {
        let expression = expression.replace('<', "&lt;").replace('"', "&quot;");
        let place = match *header {
            "" => r#"search_in="msg" check_it="true""#.to_owned(),
            "!" => r#"search_in="msg" check_it_inverse="true""#.to_owned(),
            name => format!(r#"search_in="hdr" header="{name}:" check_it="true""#),
        };
        step += &format!(r#"<ereg regexp="{expression}" {place} assign_to="seen"/>"#);
    }
    step + "</action></recv>\n"
}

fn send(attributes: &str, head: &str, body: &str) -> String {
    let kind = match body {
        "" => "",
        _ if body.starts_with("v=") => "Content-Type: application/sdp\n",
        _ => "Content-Type: message/sipfrag\n",
    };
    let length = if body.is_empty() { "0" } else { "[len]" };
    format!(
        "<send{attributes}><![CDATA[\n{head}{kind}Content-Length: {length}\n\n{body}\n]]></send>\n"
    )
}

/// A request of a caller. `more`: further header lines.
pub fn request(method: &str, number: u32, more: &str, body: &str) -> String {
    let attributes = match method {
        "ACK" => "",
        _ => r#" retrans="500""#,
    };
    let head = format!(
        "{method} sip:[service]@[remote_ip]:[remote_port] SIP/2.0\n\
         Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=z9hG4bK-[pid]-{number}-{method}\n\
         From: <sip:+62811222333@[local_ip]:[local_port]>;tag=caller\n\
         To: <sip:[service]@[remote_ip]:[remote_port]>[peer_tag_param]\n\
         Call-ID: [call_id]\nCSeq: {number} {method}\nMax-Forwards: 70\n\
         Contact: <sip:caller@[local_ip]:[local_port]>\n{more}"
    );
    send(attributes, &head, body)
}

/// The response to the last message. `more`: further header lines; our Contact is left out if it has one.
pub fn response(status: &str, more: &str, body: &str) -> String {
    let contact = match more.contains("Contact:") {
        true => "",
        false => "Contact: <sip:person@[local_ip]:[local_port]>\n",
    };
    let head = format!(
        "SIP/2.0 {status}\n[last_Via:]\n[last_From:]\n[last_To:]\n[last_Call-ID:]\n[last_CSeq:]\n{contact}{more}"
    );
    send("", &head, body)
}

/// The same to a request outside of a dialog, with our tag.
pub fn tagged(status: &str, more: &str, body: &str) -> String {
    response(status, more, body).replace("[last_To:]", "[last_To:];tag=person")
}

/// A call until its answer, which is not acknowledged yet.
pub fn rings(more: &str) -> String {
    let provisional = ["100", "180"].map(|status| {
        let step = receive(status, &[]);
        step.replacen("<recv ", r#"<recv optional="true" "#, 1)
    });
    request("INVITE", 1, more, ALAW) + &provisional.concat() + &receive("200", &[])
}

/// A call that is answered.
pub fn calls(more: &str) -> String {
    rings(more) + &request("ACK", 1, "", "")
}

/// Hangs up.
pub fn leaves() -> String {
    request("BYE", 2, "", "") + &receive("200", &[])
}

/// The edge hangs up.
pub fn is_left() -> String {
    receive("BYE", &[]) + &response("200 OK", "", "")
}

/// The header lines of a challenge, and the response of the right credentials for it.
pub fn challenge(name: &str, nonce: &str, user: &str, method: &str, uri: &str) -> (String, String) {
    let hash = |text: String| hex::encode(Md5::digest(text));
    let secret = hash(format!("{user}:carrier:rahasia"));
    let asked = hash(format!("{method}:{uri}"));
    let proof = hash(format!("{secret}:{nonce}:{asked}"));
    let challenge = format!("{name}: Digest realm=\"carrier\", nonce=\"{nonce}\"\n");
    (challenge, format!("response=\"{proof}\""))
}

/// A free address.
pub fn place() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port()))
}

/// A sipp that plays one scenario, once.
pub struct Sipp {
    program: Option<ChildProgram>,
    folder: TempDir,
}

impl Sipp {
    /// A server at this address. It listens on return.
    pub async fn serves(at: SocketAddr, steps: &str) -> Self {
        let sipp = Self::start(at, steps, &[]);
        // As Linux writes 127.0.0.1.
        let listens = format!("0100007F:{:04X} ", at.port());
        let is_listening = || {
            let sockets = std::fs::read_to_string("/proc/net/udp");
            sockets.unwrap().contains(&listens)
        };
        eventually("sipp listens", is_listening).await;
        sipp
    }

    /// A caller of this user.
    pub fn dials(at: SocketAddr, bench: &TestEdge, user: &str, steps: &str) -> Self {
        Self::start(at, steps, &["-s", user, &bench.udp().to_string()])
    }

    fn start(at: SocketAddr, steps: &str, arguments: &[&str]) -> Self {
        wait_for_turn();
        let folder = tempfile::tempdir().unwrap();
        let uses = match steps.contains("\"seen\"") {
            true => r#"<Reference variables="seen"/>"#,
            false => "",
        };
        let xml = format!(
            "<?xml version=\"1.0\" encoding=\"ISO-8859-1\" ?>\n<scenario name=\"carrier\">\n{steps}{uses}</scenario>\n"
        );
        std::fs::write(folder.path().join("scenario.xml"), xml).unwrap();
        // A tone of 800 Hz in A-law, a second long.
        let tone: Vec<u8> = [[0xAA; 5], [0x2A; 5]].concat().repeat(800);
        std::fs::write(folder.path().join("tone.al"), tone).unwrap();
        let (ip, at) = (at.ip().to_string(), at.port().to_string());
        let mut sipp = Command::new("sipp");
        sipp.current_dir(folder.path())
            .args(["-sf", "scenario.xml", "-m", "1", "-nostdin"])
            .args(["-i", &ip, "-p", &at, "-mi", &ip])
            .args(["-timeout", "50", "-timeout_error"])
            .args(["-trace_err", "-error_file", "errors.log"])
            .args(arguments);
        Self {
            program: Some(ChildProgram::start(&mut sipp)),
            folder,
        }
    }

    /// It ends by itself, and every message was as expected.
    pub async fn succeeds(mut self) {
        let program = self.program.take().unwrap();
        assert!(program.end(PATIENCE).await, "a scenario is not kept to");
    }
}

impl Drop for Sipp {
    fn drop(&mut self) {
        let errors = self.folder.path().join("errors.log");
        if std::thread::panicking()
            && let Ok(errors) = std::fs::read_to_string(errors)
        {
            eprintln!("{errors}");
        }
    }
}
