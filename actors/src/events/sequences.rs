//! Each webhook numbers the events that it subscribed to, without gaps. Events and their tenants' positions have these
//! numbers as texts.

use std::collections::BTreeMap;

use dikala_entities::WebhookId;
use sea_orm::DbErr;

/// A place in a webhook's part of the log of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPlace {
    /// The number of events up to here that the webhook subscribed to.
    pub sequence: i64,
    /// The number of events of its tenant up to here.
    pub position: i64,
}

impl LogPlace {
    /// The place right before this one.
    pub fn before(self) -> Self {
        Self {
            sequence: self.sequence - 1,
            position: self.position - 1,
        }
    }
}

/// The place of the newest event of each webhook of a tenant.
pub(crate) type Sequences = BTreeMap<WebhookId, LogPlace>;

/// An event's subscribers as they are stored: `wh_…:17 wh_…:4`.
pub(super) fn subscribers_text(subscribers: &[(WebhookId, i64)]) -> String {
    let part = |(id, sequence): &(WebhookId, i64)| format!("{id}:{sequence}");
    subscribers.iter().map(part).collect::<Vec<_>>().join(" ")
}

/// Reads `events.subscribers`.
pub fn read_subscribers(text: &str) -> Result<BTreeMap<WebhookId, i64>, DbErr> {
    let part = |part: &str| {
        let (id, sequence) = part.split_once(':')?;
        Some((id.parse().ok()?, sequence.parse().ok()?))
    };
    let parts: Option<_> = text.split_whitespace().map(part).collect();
    parts.ok_or_else(|| DbErr::Type("subscribers of an event".to_owned()))
}

/// Places as they are stored, sequence before position: `wh_…:17:203 wh_…:4:198`.
pub(super) fn sequences_text(sequences: &Sequences) -> String {
    let part = |(id, place): (&WebhookId, &LogPlace)| {
        format!("{id}:{}:{}", place.sequence, place.position)
    };
    sequences.iter().map(part).collect::<Vec<_>>().join(" ")
}

/// Reads `event_positions.sequences`.
pub(crate) fn read_sequences(text: &str) -> Result<Sequences, DbErr> {
    let part = |part: &str| {
        let mut parts = part.split(':');
        let (id, sequence, position) = (parts.next()?, parts.next()?, parts.next()?);
        let place = LogPlace {
            sequence: sequence.parse().ok()?,
            position: position.parse().ok()?,
        };
        Some((id.parse().ok()?, place))
    };
    let parts: Option<_> = text.split_whitespace().map(part).collect();
    parts.ok_or_else(|| DbErr::Type("places of webhooks in the log".to_owned()))
}
