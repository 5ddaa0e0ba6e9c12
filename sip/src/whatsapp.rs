//! The rules of a trunk with the preset WhatsApp. Pure.
//!
//! From copies of Meta's pages "Configure SIP" (2025-12-15) and "Configure call settings" (2026-06-26): calls come over TLS only,
//! media is SRTP with keys in the SDP and Opus, and a call cannot be changed once it is agreed.

use crate::{
    leg::WhatsAppDetails,
    message::Headers,
    settings::{AnswerOrder, Codec, SipSettings, SipTransport, Srtp, Trunk},
};

/// Why a caller is not connected to a person. The agent may tell the caller so.
pub const NO_TRANSFER: &str =
    "a call from WhatsApp cannot be connected to a telephone here; offer to call back or to write";
/// The longest value of a header that is kept. Meta allows payloads of 512 characters.
const VALUE_CHARS_MAX: usize = 512;

/// The terms for the media of a trunk's calls.
pub struct MediaRules {
    pub codecs: Vec<Codec>,
    pub answer_order: AnswerOrder,
    pub srtp: Srtp,
}

impl MediaRules {
    pub fn of(settings: &SipSettings, trunk: &Trunk) -> Self {
        if !trunk.is_whatsapp() {
            return Self {
                codecs: settings.codecs.clone(),
                answer_order: trunk.answer_order,
                srtp: settings.srtp,
            };
        }
        let others = settings.codecs.iter().copied();
        let others = others.filter(|codec| *codec != Codec::Opus);
        Self {
            codecs: std::iter::once(Codec::Opus).chain(others).collect(),
            answer_order: AnswerOrder::Ours,
            srtp: Srtp::Required,
        }
    }
}

/// True if calls of this trunk may come over this transport.
pub fn may_come_over(trunk: &Trunk, transport: SipTransport) -> bool {
    !trunk.is_whatsapp() || transport == SipTransport::Tls
}

/// Reads Meta's headers, which only requests of the trunk's addresses may have.
pub fn details(headers: &Headers) -> WhatsAppDetails {
    let value = |name| {
        let value: String = headers.get(name)?.chars().take(VALUE_CHARS_MAX).collect();
        let value = value.trim();
        (!value.is_empty()).then(|| value.to_owned())
    };
    WhatsAppDetails {
        call_id: value("x-wa-meta-wacid"),
        cta_payload: value("x-wa-meta-cta-payload"),
        deeplink_payload: value("x-wa-meta-deeplink-payload"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::TrunkPreset;

    #[test]
    fn headers_are_kept_within_limits() {
        let mut headers = Headers::default();
        headers.push("X-WA-Meta-WACID", " wacid.1 ");
        headers.push("x-wa-meta-cta-payload", &"ü".repeat(600));
        headers.push("x-wa-meta-deeplink-payload", " ");
        let expected = WhatsAppDetails {
            call_id: Some("wacid.1".to_owned()),
            cta_payload: Some("ü".repeat(512)),
            deeplink_payload: None,
        };
        assert_eq!(details(&headers), expected);
        assert_eq!(details(&Headers::default()), WhatsAppDetails::default());
    }

    #[test]
    fn its_calls_come_over_tls_only() {
        let whatsapp = Trunk {
            preset: Some(TrunkPreset::WhatsApp),
            ..Trunk::default()
        };
        for (transport, expected) in [
            (SipTransport::Udp, false),
            (SipTransport::Tcp, false),
            (SipTransport::Tls, true),
        ] {
            assert_eq!(may_come_over(&whatsapp, transport), expected);
            assert!(may_come_over(&Trunk::default(), transport));
        }
    }
}
