//! The diagnosis of a call: the quality of its media, and its SIP messages. Both are in the memory of the telephony bridge. Only
//! the process that runs the bridge has them, and only for its last calls.

use dikala_entities::{
    AuditAction, BridgeId, CallId, ConnectionQuality, Millis, NumberDisplay, TenantId, call,
};
use dikala_sip::{
    LadderMessage,
    quality::{CallQuality, DirectionQuality, LegQuality},
    settings::SipTransport,
};
use sea_orm::DerivePartialModel;
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::find;
use crate::{
    audit::AuditChange,
    http::{
        error::{ApiError, Missing},
        extract::{Id, OperatorQuery, word},
    },
    operations::OperationContext,
};

/// Lowest scores of a good and of a fair connection, in hundredths: categories of ITU-T G.107, table B.1.
const GOOD: u16 = 403;
const FAIR: u16 = 360;

/// A mean opinion score in hundredths, written with decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Score(pub u16);

impl std::fmt::Display for Score {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:02}", self.0 / 100, self.0 % 100)
    }
}

impl Serialize for Score {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let number: f64 = self
            .to_string()
            .parse()
            .map_err(serde::ser::Error::custom)?;
        serializer.serialize_f64(number)
    }
}

/// One direction of a call's media, since the call began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MediaFigures {
    pub packets: u64,
    /// Packets that were not there when they were due. Of sent ones as the other side reports it; null if it does not.
    pub lost: Option<u64>,
    /// Lost packets that came later; null of what was sent.
    pub late: Option<u64>,
    /// The 95th percentile of the interarrival jitter; of what was sent, as the other side reports it.
    pub jitter_p95_ms: Option<u32>,
    /// Audio that replaced lost packets; null of what was sent.
    pub concealed_ms: Option<u64>,
    /// An estimate of the mean opinion score, 1 to 4.41 (E-model).
    #[schema(value_type = Option<f64>)]
    pub mos: Option<Score>,
}

/// The media of one leg of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LegMedia {
    pub codec: &'static str,
    /// The last measurement; null if the other side sends no reports.
    pub round_trip_ms: Option<u32>,
    /// From the other side.
    pub received: MediaFigures,
    /// To the other side.
    pub sent: MediaFigures,
}

/// The media of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallMedia {
    /// The worse direction of the caller's leg; null while nothing is known.
    pub connection: Option<ConnectionQuality>,
    /// The caller's leg.
    #[serde(flatten)]
    #[schema(inline)]
    pub caller: LegMedia,
    /// The leg to the person to whom the caller was transferred.
    pub person: Option<LegMedia>,
}

impl From<DirectionQuality> for MediaFigures {
    fn from(of: DirectionQuality) -> Self {
        Self {
            packets: of.packets,
            lost: of.lost,
            late: of.late,
            jitter_p95_ms: of.jitter_p95_ms,
            concealed_ms: of.concealed_ms,
            mos: of.mos.map(Score),
        }
    }
}

impl From<LegQuality> for LegMedia {
    fn from(of: LegQuality) -> Self {
        Self {
            codec: of.codec,
            round_trip_ms: of.round_trip_ms,
            received: of.received.into(),
            sent: of.sent.into(),
        }
    }
}

impl CallMedia {
    fn of(quality: CallQuality) -> Option<Self> {
        let caller = quality.caller?;
        Some(Self {
            connection: connection(caller.received.mos, caller.sent.mos),
            caller: caller.into(),
            person: quality.person.map(LegMedia::from),
        })
    }
}

/// The words for the worse of two directions.
fn connection(received: Option<u16>, sent: Option<u16>) -> Option<ConnectionQuality> {
    let worse = received.into_iter().chain(sent).min()?;
    Some(match worse {
        GOOD.. => ConnectionQuality::Good,
        FAIR.. => ConnectionQuality::Fair,
        _ => ConnectionQuality::Poor,
    })
}

/// The media of the call with this id of this bridge; `None` if this process does not know it.
pub fn media(
    context: &OperationContext,
    bridge: BridgeId,
    bridge_call_id: &str,
) -> Option<CallMedia> {
    CallMedia::of(context.telephony(bridge)?.quality(bridge_call_id)?)
}

/// A SIP message of a call.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SipStep {
    pub at: Millis,
    /// `received` or `sent`.
    pub direction: &'static str,
    /// `udp`, `tcp` or `tls`.
    pub transport: &'static str,
    /// The bridge's address and port.
    pub local: String,
    pub remote: String,
    /// Null for a response.
    pub method: Option<String>,
    /// Null for a request.
    pub status: Option<u16>,
    pub first_line: String,
    /// The offered or agreed media, if the message has SDP.
    pub sdp: Option<String>,
    /// The message without media keys, digests, and bodies other than SDP.
    pub text: String,
}

/// The SIP messages of a call: its ladder.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "callId": "call_01k9zv3m8rj2q4w6y8a0c2e4g6", "forgotten": 0, "messages": [{
        "at": "2026-01-15T03:30:00.000Z", "direction": "received", "transport": "udp", "local": "192.0.2.1:5060",
        "remote": "203.0.113.7:5060", "method": "INVITE", "status": null,
        "firstLine": "INVITE sip:+62xxxxxxx7890@192.0.2.1 SIP/2.0",
        "sdp": "audio 203.0.113.7:20000 RTP/AVP PCMA telephone-event sendrecv",
        "text": "INVITE sip:+62xxxxxxx7890@192.0.2.1 SIP/2.0\r\n…"
    }]
}))]
pub struct SipLadder {
    pub call_id: CallId,
    /// Older messages of the call that are no longer kept.
    pub forgotten: u64,
    /// Oldest first.
    pub messages: Vec<SipStep>,
}

impl From<(Millis, LadderMessage)> for SipStep {
    fn from((at, message): (Millis, LadderMessage)) -> Self {
        Self {
            at,
            direction: if message.is_sent { "sent" } else { "received" },
            transport: match message.transport {
                SipTransport::Udp => "udp",
                SipTransport::Tcp => "tcp",
                SipTransport::Tls => "tls",
            },
            local: message.local.to_string(),
            remote: message.remote.to_string(),
            method: message.method().map(str::to_owned),
            status: message.status(),
            first_line: message.first_line().to_owned(),
            sdp: message.sdp(),
            text: message.text.into(),
        }
    }
}

/// The columns that lead to a call's messages.
#[derive(DerivePartialModel)]
#[sea_orm(entity = "call::Entity")]
struct LadderKey {
    tenant_id: TenantId,
    bridge_id: BridgeId,
    bridge_call_id: String,
    owner: String,
}

/// The SIP messages of a call. With whole numbers they leave an entry in the audit.
pub async fn ladder(
    context: OperationContext,
    id: Id<CallId>,
    query: OperatorQuery,
) -> Result<SipLadder, ApiError> {
    let shown = query.0.read(&[], |form| {
        let masked = NumberDisplay::Masked;
        Some(form.defaulted("numbers", None, masked, word("a way to show numbers")))
    })?;
    let found: LadderKey = find(&context, id.0).await?;
    let none = ApiError::NotFound(Missing::SipMessages);
    // The owner of an erased call is empty.
    let reader = context.telephony(found.bridge_id);
    let reader = reader.filter(|_| !found.owner.is_empty());
    let kept = reader.and_then(|reader| reader.ladder(&found.bridge_call_id));
    let mut kept = kept.ok_or(none)?;
    match shown {
        NumberDisplay::Masked => {
            for (_, message) in &mut kept.messages {
                message.mask_numbers();
            }
        }
        NumberDisplay::Full => {
            let mut write = context.begin().await?;
            let change = AuditChange::new(AuditAction::CallShowNumbers, id.0);
            write.record(found.tenant_id, change).await?;
            write.commit(()).await?;
        }
    }
    Ok(SipLadder {
        call_id: id.0,
        forgotten: kept.forgotten,
        messages: kept.messages.into_iter().map(SipStep::from).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_as_good_as_its_worse_direction() {
        use ConnectionQuality::{Fair, Good, Poor};
        for (received, sent, expected) in [
            (None, None, None),
            (Some(441), None, Some(Good)),
            (Some(403), Some(420), Some(Good)),
            (Some(402), Some(420), Some(Fair)),
            (None, Some(360), Some(Fair)),
            (Some(441), Some(359), Some(Poor)),
        ] {
            assert_eq!(connection(received, sent), expected);
        }
    }

    #[test]
    fn a_score_is_written_with_decimals() {
        for (hundredths, written) in [(441, "4.41"), (405, "4.05"), (100, "1.0")] {
            let score = serde_json::to_string(&Score(hundredths)).expect("JSON");
            assert_eq!(score, written);
        }
    }
}
