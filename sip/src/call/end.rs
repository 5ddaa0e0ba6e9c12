//! The end of a call: media stops first, then the peer and the reader of the leg learn of it.

use tokio::time::{Instant, sleep_until, timeout_at};

use super::{Call, DialogMessage, Repeat, reason};
use crate::{leg::LegEvent, message::Method, statistics::count, transactions::GIVEN_UP};

/// The reason why a call ended.
pub(super) enum Termination {
    /// The peer hung up.
    Theirs,
    /// We hang up, with cause and text.
    Ours(u16, String),
    /// The peer knows nothing of the call any more, or gives no sign of life: it has left, and its BYE may be lost. We hang up, too.
    Gone(u16, &'static str),
    /// We hang up because of a fault, which the task must learn.
    Broken(u16, &'static str),
    /// We hang up on a peer that most likely never existed.
    Forgotten,
}

impl Call {
    /// Ends the call. A request that crosses the end, such as the peer's own BYE, is answered.
    pub(super) async fn end(mut self, over: Termination, unacknowledged: Option<Repeat>) {
        self.leave(over, unacknowledged).await;
        self.inbox.close();
        while let Ok(message) = self.inbox.try_recv() {
            answer_late(message);
        }
    }

    async fn leave(&mut self, over: Termination, mut unacknowledged: Option<Repeat>) {
        self.media = None;
        self.line = None;
        // A joined second leg is hung up too.
        self.transfer = None;
        let Some((cause, words)) = self.announce_end(over) else {
            return;
        };
        // A BYE must not overtake the ACK (RFC 3261, 15).
        while let Some(repeat) = &mut unacknowledged {
            match timeout_at(repeat.next, self.inbox.recv()).await {
                Ok(Some(DialogMessage::Ack(_)) | None) => break,
                Ok(Some(DialogMessage::Request(request, reply))) => {
                    reply.send(&reply.response(200, "OK"));
                    if request.method == Method::Bye {
                        return;
                    }
                }
                Err(_) if repeat.again(&self.flow) => {}
                Err(_) => break,
            }
        }
        let mut bye = self.dialog.request(Method::Bye);
        bye.headers.push("Reason", &reason(cause, &words));
        let Some(mut asked) = self.ask(bye) else {
            return;
        };
        let until = Instant::now() + GIVEN_UP;
        loop {
            tokio::select! {
                answer = asked.answers.recv() => match answer {
                    Some(answer) if answer.status < 200 => {}
                    Some(answer) => match self.prove(&asked, &answer) {
                        Some(again) => asked = again,
                        None => return,
                    },
                    None => return,
                },
                Some(message) = self.inbox.recv() => answer_late(message),
                () = sleep_until(until) => return,
            }
        }
    }

    /// Reports the end. Returns cause and text of our BYE, if one is still to be sent.
    fn announce_end(&mut self, over: Termination) -> Option<(u16, String)> {
        let counters = &self.shared.counters;
        let counted = match self.is_callers {
            true => &counters.callers,
            false => &counters.persons,
        };
        match over {
            Termination::Theirs => {
                self.notify(LegEvent::HungUp);
                None
            }
            Termination::Ours(cause, words) => Some((cause, words)),
            Termination::Gone(cause, words) => {
                let trunk = &self.caller.trunk.name;
                tracing::info!(
                    trunk,
                    cause,
                    words,
                    "the other side of a call has left without BYE"
                );
                self.notify(LegEvent::HungUp);
                Some((cause, words.to_owned()))
            }
            Termination::Broken(cause, words) => {
                count(&counted.failed, 1);
                self.notify(LegEvent::Failed(words.to_owned()));
                Some((cause, words.to_owned()))
            }
            Termination::Forgotten => {
                count(&counted.failed, 1);
                let words = "the answer was not acknowledged, as many others of the trunk";
                self.notify(LegEvent::Failed(words.to_owned()));
                self.forget();
                None
            }
        }
    }

    /// Sends BYE once, and does not wait for an answer: a forged INVITE may have named somebody else.
    fn forget(&mut self) {
        let bye = self.dialog.request(Method::Bye);
        let bye = self.shared.with_via(bye, &self.flow);
        self.flow.send(&bye.to_bytes());
    }
}

/// Answers a request that comes after our BYE: both hung up at once.
fn answer_late(message: DialogMessage) {
    let DialogMessage::Request(request, reply) = message else {
        return;
    };
    match request.method {
        Method::Bye => reply.refuse(200, "OK"),
        _ => reply.refuse(481, "Call Is Over"),
    }
}
