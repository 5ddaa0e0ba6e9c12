//! The notice that explains why a webhook receives no, or not all, events.

use dikala_entities::webhook;
use maud::{Markup, html};

use super::{
    components::{Tone, notice, post},
    view::SignedIn,
    webhooks::path_of,
};

/// The reason for missing deliveries and its remedy.
pub fn trouble(visit: &SignedIn, webhook: &webhook::Model) -> Markup {
    if !webhook.is_active {
        let (tone, why) = match &webhook.disabled_reason {
            Some(_) => (Tone::Bad, "webhooks-disabled-words"),
            None => (Tone::Plain, "webhooks-off-words"),
        };
        return notice(
            tone,
            html! {
                p { strong { (visit.t(why)) } }
                @if let Some(reason) = &webhook.disabled_reason { p { (told_reason(visit, reason)) } }
                p { (visit.t("webhooks-enable-words")) }
                @if visit.is_owner() {
                    (post(visit, &format!("{}/enable", path_of(webhook.id)), html! {
                        button type="submit" { (visit.t("webhooks-enable")) }
                    }))
                }
            },
        );
    }
    if webhook.paused_at.is_some() {
        let words = html! { p { strong { (visit.t("webhooks-paused-words")) } } };
        return notice(Tone::Warning, words);
    }
    let Some(since) = webhook.failing_since else {
        return html! {};
    };
    let failed = [("count", webhook.failed_in_row.into())];
    notice(
        Tone::Warning,
        html! {
            p { strong { (visit.t("webhooks-failing-words")) " " (visit.time(since)) "." } }
            p { (visit.tn("webhooks-failing-count", &failed)) }
        },
    )
}

/// The service's reasons in the reader's language.
fn told_reason(visit: &SignedIn, reason: &str) -> Markup {
    use dikala_actors::webhooks::retry::{REASON_FAILING, REASON_GONE};
    match reason {
        REASON_GONE => html! { (visit.t("webhooks-reason-gone")) },
        REASON_FAILING => html! { (visit.t("webhooks-reason-failing")) },
        other => html! { span lang="en" { (other) } },
    }
}
