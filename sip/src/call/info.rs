//! INFO requests: DTMF keys of phones that send no RFC 4733 events, or send both.

use super::{Call, Control, reason};
use crate::{media::key_dedup::signalled, message::SipRequest, transactions::Responder};

const KEYS: &str = "application/dtmf-relay, application/dtmf";

impl Call {
    /// Handles a key, or a keep-alive without a body.
    pub(super) async fn informed(&self, request: &SipRequest, reply: &Responder) {
        if request.headers.get("Info-Package").is_some() {
            // Recv-Info is empty, because no info package is supported (RFC 6086).
            let response = reply.response(469, "Bad Info Package");
            reply.send(&self.dressed(response).with("Recv-Info", ""));
            return;
        }
        if request.body.is_empty() {
            reply.send(&self.dressed(reply.response(200, "OK")));
            return;
        }
        let kind = request.headers.media_type();
        if !KEYS.split(", ").any(|known| known == kind) {
            let words = "the body is no key";
            let response = reply.response(415, "Unsupported Media Type");
            let response = self.dressed(response).with("Accept", KEYS);
            reply.send(&response.with("Reason", &reason(415, words)));
            return;
        }
        let Some(key) = signalled(&request.body) else {
            let response = reply.response(400, "Bad Request");
            let words = reason(400, "the body names no key");
            reply.send(&self.dressed(response).with("Reason", &words));
            return;
        };
        reply.send(&self.dressed(reply.response(200, "OK")));
        self.direct(Control::Key(key)).await;
    }
}
