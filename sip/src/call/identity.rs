//! The id under which a caller's call is offered. Pure.

use sha2::{Digest, Sha256};

use crate::{dialog::open_dialogs::CallIdentity, leg::OfferedChannel, message::SipRequest};

/// The longest id of a call.
const ID_CHARS_MAX: usize = 128;

/// WhatsApp's id of the call, else Call-ID and From's tag.
pub fn identity(request: &SipRequest, channel: &OfferedChannel) -> CallIdentity {
    if let OfferedChannel::WhatsApp(details) = channel
        && let Some(id) = &details.call_id
    {
        return CallIdentity {
            text: id.clone(),
            is_of_one_call: true,
        };
    }
    let tag = request.headers.tag("From").unwrap_or_default();
    CallIdentity {
        text: format!("{};{tag}", request.headers.call_id()),
        is_of_one_call: false,
    }
}

/// The call's id: its identity, with the number of the attempt unless it is the caller's first. If that is too long, its SHA-256.
pub fn call_id(identity: String, again: Option<u32>) -> String {
    let id = match again {
        Some(number) => format!("{identity};{number}"),
        None => identity,
    };
    if id.chars().count() <= ID_CHARS_MAX {
        return id;
    }
    hex::encode(Sha256::digest(id))
}
