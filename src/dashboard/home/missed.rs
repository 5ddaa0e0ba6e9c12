//! Why calls were not answered.

use dikala_entities::{CallStatus, HangupReason, Millis, call};
use maud::{Markup, html};
use sea_orm::{DbErr, DerivePartialModel};

use super::super::{calls::words, view::SignedIn};
use crate::operations::calls::{self, filter::CallFilter};

/// Latest calls of each outcome that are read.
const READ_MAX: u64 = 300;

#[derive(Clone, Debug, DerivePartialModel)]
#[sea_orm(entity = "call::Entity")]
struct UnansweredCall {
    started_at: Millis,
    answered_at: Option<Millis>,
    hangup_reason: Option<HangupReason>,
}

/// The statuses of calls that nobody answered.
const STATUSES: [CallStatus; 2] = [CallStatus::Failed, CallStatus::Dropped];

/// The latest calls that nobody answered.
#[derive(Debug)]
pub struct MissedCalls {
    /// With their numbers of calls, most frequent first.
    reasons: Vec<(HangupReason, i64)>,
    /// Those of [`STATUSES`] that some have.
    statuses: Vec<CallStatus>,
}

impl MissedCalls {
    /// Reads the latest calls that nobody answered.
    pub async fn read(visit: &SignedIn, from: Millis, to: Millis) -> Result<Self, DbErr> {
        let db = visit.store().api_reader();
        let (mut missed, mut since) = (Vec::new(), from);
        for status in STATUSES {
            let filter = CallFilter {
                status: Some(status),
                from: Some(from),
                to: Some(to),
                ..CallFilter::default()
            };
            let (found, _): (Vec<UnansweredCall>, _) =
                calls::newest(db, visit.tenant(), &filter, None, READ_MAX).await?;
            if found.len() as u64 == READ_MAX {
                // Older calls of the other status would count too much.
                since = found
                    .last()
                    .map_or(since, |oldest| since.max(oldest.started_at));
            }
            let unanswered = found.into_iter().filter(|call| call.answered_at.is_none());
            missed.extend(unanswered.map(|call| (status, call)));
        }
        missed.retain(|(_, call)| call.started_at >= since);
        let has = |status| missed.iter().any(|(of, _)| *of == status);
        let statuses = STATUSES.into_iter().filter(|status| has(*status)).collect();
        let mut reasons: Vec<(HangupReason, i64)> = Vec::new();
        for reason in missed.iter().filter_map(|(_, call)| call.hangup_reason) {
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, count)) => *count += 1,
                None => reasons.push((reason, 1)),
            }
        }
        reasons.sort_by_key(|(_, count)| -count);
        Ok(Self { reasons, statuses })
    }

    /// The reasons; `all` is the number of missed calls since `from`. Empty without one.
    pub fn show(&self, visit: &SignedIn, all: i64, from: Millis) -> Markup {
        let read: i64 = self.reasons.iter().map(|(_, count)| count).sum();
        let heading = visit.tn("home-missed", &[("count", all.max(read).into())]);
        let path = |status: CallStatus| {
            let from = visit.zone().date(from);
            format!("/dashboard/calls?status={status}&from={from}")
        };
        html! {
            @if !self.reasons.is_empty() {
                h3 { (heading) }
                ul.reasons {
                    @for (reason, count) in &self.reasons {
                        li { strong { (visit.number(*count)) } " " (visit.t(words::reason_id(*reason))) }
                    }
                }
                @if read < all { p.muted { (visit.tn("home-missed-latest", &[("count", read.into())])) } }
                @for status in &self.statuses {
                    @let words = if *status == CallStatus::Failed { "home-see-failed" } else { "home-see-dropped" };
                    p.way { a href=(path(*status)) { (visit.t(words)) } }
                }
            }
        }
    }
}
