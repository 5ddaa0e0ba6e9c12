//! Handing the caller over: by REFER where the peer allows it (RFC 3515).

use tokio::{
    sync::mpsc,
    time::{Duration, Instant, sleep_until},
};

use super::Call;
use crate::{
    leg::Happening,
    sip::{
        message::{Method, Request, Response, Uri},
        transactions::Reply,
    },
};

/// How long the other side may ring.
const ANSWERED: Duration = Duration::from_secs(60);

/// A transfer under way.
#[derive(Debug)]
pub struct Transfer {
    answers: Option<mpsc::Receiver<Response>>,
    until: Instant,
}

pub enum Step {
    Referred(Option<Response>),
    Late,
}

impl Transfer {
    pub fn is_joined(&self) -> bool {
        false
    }
}

pub async fn next(transfer: &mut Option<Transfer>) -> Step {
    let Some(transfer) = transfer else {
        return std::future::pending().await;
    };
    let answered = async {
        match &mut transfer.answers {
            Some(answers) => answers.recv().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        response = answered => Step::Referred(response),
        () = sleep_until(transfer.until) => Step::Late,
    }
}

impl Call {
    pub(super) async fn begin_transfer(&mut self, to: String) {
        if self.transfer.is_some() {
            return self.not_transferred("a transfer is under way");
        }
        if !self.peer.refers {
            return self.not_transferred("the trunk allows no transfer");
        }
        let target = Uri::sip(
            &to,
            self.dialog.target.host.clone(),
            self.dialog.target.port,
        );
        let mut request = self.dialog.request(Method::Refer);
        request.headers.push("Refer-To", &format!("<{target}>"));
        request.headers.push("Referred-By", &self.dialog.contact);
        match self.send(&request).await {
            Some(answers) => {
                self.transfer = Some(Transfer {
                    answers: Some(answers),
                    until: Instant::now() + ANSWERED,
                });
            }
            None => self.not_transferred("the trunk cannot be reached"),
        }
    }

    /// Carries a transfer on. Gives words when the call is over with it.
    pub(super) async fn transferred(&mut self, step: Step) -> Option<String> {
        match step {
            Step::Referred(Some(response)) if response.status < 200 => {}
            Step::Referred(Some(response)) if response.status < 300 => {
                if let Some(transfer) = &mut self.transfer {
                    transfer.answers = None;
                }
            }
            Step::Referred(Some(response)) => {
                self.transfer = None;
                self.not_transferred(&format!(
                    "the trunk refused with status {}",
                    response.status
                ));
            }
            Step::Referred(None) | Step::Late => {
                self.transfer = None;
                self.not_transferred("nobody answered in time");
            }
        }
        None
    }

    /// How far the other side is, as the peer tells.
    pub(super) fn notified(&mut self, request: &Request, reply: &Reply) {
        let about_refer = request.headers.get("Event").is_some_and(|event| {
            event
                .split(';')
                .next()
                .is_some_and(|name| name.trim() == "refer")
        });
        if !about_refer || self.transfer.is_none() {
            reply.refuse(481, "Subscription Does Not Exist");
            return;
        }
        reply.send(&self.dressed(reply.response(200, "OK")));
        match fragment_status(&request.body) {
            Some(200..300) => {
                self.transfer = None;
                self.happened(Happening::Transfer(Ok(())));
            }
            Some(status @ 300..) => {
                self.transfer = None;
                self.not_transferred(&format!(
                    "the other side did not take the call (status {status})"
                ));
            }
            _ => {}
        }
    }

    fn not_transferred(&self, why: &str) {
        self.happened(Happening::Transfer(Err(why.to_owned())));
    }

    pub(super) async fn end_transfer(&mut self) {
        self.transfer = None;
    }
}

/// The status in a `message/sipfrag`.
fn fragment_status(body: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(body).ok()?;
    let mut words = text.lines().next()?.split_whitespace();
    words
        .next()
        .filter(|version| version.eq_ignore_ascii_case("SIP/2.0"))?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::fragment_status;

    #[test]
    fn fragments_tell_how_far_a_transfer_is() {
        assert_eq!(fragment_status(b"SIP/2.0 100 Trying\r\n"), Some(100));
        assert_eq!(fragment_status(b"SIP/2.0 200 OK"), Some(200));
        for strange in [&b""[..], b"200", b"SIP/2.0", b"HTTP/1.1 200 OK", b"\xff"] {
            assert_eq!(fragment_status(strange), None);
        }
    }
}
