//! The diagnosis on a call's page: the quality of its media, and its SIP ladder with masked numbers.

use dikala_entities::Millis;
use maud::{Markup, html};

use super::{figures::NONE, view::ConsoleView};
use crate::{
    http::{
        error::{ApiError, Missing},
        extract::{FormFields, Id, OperatorQuery},
    },
    operations::calls::{
        all_tenants::CallDetail,
        diagnosis::{self, CallMedia, LegMedia, MediaFigures, SipLadder, SipStep},
    },
    pages::components::table,
};

/// The quality of the media, and the SIP messages.
pub async fn show(visit: &ConsoleView, found: &CallDetail) -> Result<Markup, ApiError> {
    let query = OperatorQuery(FormFields::default());
    let ladder = diagnosis::ladder(visit.operation(), Id(found.call.id), query).await;
    let ladder = match ladder {
        Ok(ladder) => Some(ladder),
        Err(ApiError::NotFound(Missing::SipMessages)) => None,
        Err(error) => return Err(error),
    };
    Ok(html! {
        h2 { (visit.t("console-media")) }
        @match &found.media {
            Some(media) => (quality(visit, media)),
            None => p.muted { (visit.t("console-no-media")) },
        }
        h2 { (visit.t("console-sip")) }
        @match &ladder {
            Some(ladder) => (steps(visit, ladder)),
            None => p.muted { (visit.t("console-no-sip")) },
        }
    })
}

fn quality(visit: &ConsoleView, media: &CallMedia) -> Markup {
    let legs = [
        ("console-leg-caller", Some(&media.caller)),
        ("console-leg-person", media.person.as_ref()),
    ];
    let rows = legs
        .into_iter()
        .filter_map(|(name, leg)| Some((name, leg?)));
    let rows = rows.flat_map(|(name, leg)| {
        let row = |direction, of| figures(visit, &visit.t(name), leg, &visit.t(direction), of);
        [
            row("console-received", &leg.received),
            row("console-sent", &leg.sent),
        ]
    });
    let columns = visit.columns("console-media-columns");
    table(visit, &visit.t("console-media"), &columns, rows.collect())
}

fn figures(
    visit: &ConsoleView,
    name: &str,
    leg: &LegMedia,
    direction: &str,
    of: &MediaFigures,
) -> Vec<Markup> {
    let number = |count: Option<u64>| {
        let count = count.map(|count| i64::try_from(count).unwrap_or(i64::MAX));
        html! { @if let Some(count) = count { (visit.number(count)) } @else { (NONE) } }
    };
    let ms = |ms: Option<u64>| html! { (number(ms)) @if ms.is_some() { " ms" } };
    vec![
        html! { (name) },
        html! { (direction) },
        html! { (leg.codec) },
        number(Some(of.packets)),
        number(of.lost),
        number(of.late),
        ms(of.jitter_p95_ms.map(u64::from)),
        ms(leg.round_trip_ms.map(u64::from)),
        ms(of.concealed_ms),
        html! { @if let Some(score) = of.mos { (score) } @else { (NONE) } },
    ]
}

fn steps(visit: &ConsoleView, ladder: &SipLadder) -> Markup {
    let columns = visit.columns("console-sip-columns");
    let begun = ladder.messages.first().map(|step| step.at);
    let row = |step: &SipStep| {
        let direction = match step.direction {
            "sent" => "console-sent",
            _ => "console-received",
        };
        vec![
            html! { (after(begun.unwrap_or(step.at), step.at)) },
            html! { (visit.t(direction)) },
            html! { code { (step.transport) " " (step.remote) } },
            html! { code.word { (step.first_line) } },
            html! { @if let Some(sdp) = &step.sdp { code.word { (sdp) } } @else { (NONE) } },
        ]
    };
    let rows = ladder.messages.iter().map(row).collect();
    html! {
        p.muted { (visit.t("console-sip-words")) }
        @if ladder.forgotten > 0 {
            @let count = i64::try_from(ladder.forgotten).unwrap_or(i64::MAX);
            p.muted { (visit.tn("console-sip-forgotten", &[("count", count.into())])) }
        }
        (table(visit, &visit.t("console-sip"), &columns, rows))
    }
}

/// The time since the first message: `+1.250 s`.
fn after(begun: Millis, at: Millis) -> String {
    let ms = at.since(begun).max(0);
    format!("+{}.{:03} s", ms / 1_000, ms % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_count_from_the_first_message() {
        let at = Millis::from_i64;
        assert_eq!(after(at(1_000), at(2_250)), "+1.250 s");
        assert_eq!(after(at(1_000), at(999)), "+0.000 s");
    }
}
