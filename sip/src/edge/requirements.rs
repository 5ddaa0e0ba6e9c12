//! Checks that a request requires and carries only what is supported.

use super::stateless::{StatelessResponse, refused};
use crate::{
    message::{Method, SipRequest},
    shared::{ACCEPT, EXTENSIONS},
};

/// Refuses unknown required extensions, and bodies other than SDP.
pub fn check_requirements(request: &SipRequest) -> Result<(), StatelessResponse> {
    // Not Proxy-Require, which is for proxies on the way (RFC 3261, 20.29), such as those that hide the caller (RFC 3323).
    let required = request.headers.list("Require").into_iter();
    let strange: Vec<String> = required
        .filter(|extension| {
            !EXTENSIONS
                .iter()
                .any(|known| known.eq_ignore_ascii_case(extension))
        })
        .collect();
    if !strange.is_empty() {
        let strange = strange.join(", ");
        let words = format!("nobody here knows {strange}");
        return Err(refused(420, "Bad Extension", &words).with("Unsupported", strange));
    }
    let wanted = request.headers.list("Accept");
    let takes_sdp = |kind: &String| {
        let kind = kind.split(';').next().unwrap_or_default().trim();
        ["application/sdp", "application/*", "*/*"]
            .iter()
            .any(|known| known.eq_ignore_ascii_case(kind))
    };
    if request.method == Method::Invite && !wanted.is_empty() && !wanted.iter().any(takes_sdp) {
        let words = "answers here are application/sdp, and it is not among Accept";
        return Err(refused(406, "Not Acceptable", words));
    }
    if request.body.is_empty()
        || !matches!(
            request.method,
            Method::Invite | Method::Update | Method::Prack
        )
    {
        return Ok(());
    }
    let encoded = request
        .headers
        .get("Content-Encoding")
        .is_some_and(|encoding| !encoding.eq_ignore_ascii_case("identity"));
    if encoded {
        return Err(
            unsupported("bodies are read unpacked").with("Accept-Encoding", "identity".to_owned())
        );
    }
    if request.headers.media_type() != "application/sdp" {
        return Err(unsupported("the body is no application/sdp"));
    }
    Ok(())
}

fn unsupported(words: &str) -> StatelessResponse {
    refused(415, "Unsupported Media Type", words).with("Accept", ACCEPT.to_owned())
}
