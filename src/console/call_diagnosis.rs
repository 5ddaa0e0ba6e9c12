//! The quality of a call's media on its page.

use maud::{Markup, html};

use super::{figures::NONE, view::ConsoleView};
use crate::{
    operations::calls::{
        all_tenants::CallDetail,
        diagnosis::{CallMedia, LegMedia, MediaFigures},
    },
    pages::components::table,
};

/// The quality of the media.
pub fn media(visit: &ConsoleView, found: &CallDetail) -> Markup {
    html! {
        h2 { (visit.t("console-media")) }
        @match &found.media {
            Some(media) => (quality(visit, media)),
            None => p.muted { (visit.t("console-no-media")) },
        }
    }
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
