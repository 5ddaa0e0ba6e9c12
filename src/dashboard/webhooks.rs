//! The list of webhooks, and the form for a new one, whose secret is generated and shown once.

use actix_web::HttpResponse;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use dikala_actors::webhooks::retry::REASON_GONE;
use dikala_entities::{EventKind, Secret, WebhookId, webhook};
use maud::{Markup, html};
use rand::{RngExt, distr::Alphanumeric};
use serde_json::{Value, json};

use super::{
    components::{Field, Tone, badge, copyable, empty, fields, notice, post, submit, table},
    form::{FormState, FormValues},
    heading::PageHeading,
    layout,
    names::cut,
    view::SignedIn,
};
use crate::{
    http::{error::ApiError, extract::RequestBody},
    operations::webhooks::{self, WEBHOOKS_MAX},
};

pub const PATH: &str = "/dashboard/webhooks";
const PATH_OF_NEW: &str = "/dashboard/webhooks/new";
/// Longest shown part of an address, in characters.
const URL_CHARS_MAX: usize = 200;
/// Length of a new secret: 190 bits of randomness.
const SECRET_CHARS: usize = 32;

/// The path of a webhook's page.
pub fn path_of(id: WebhookId) -> String {
    format!("{PATH}/{id}")
}

/// `GET /dashboard/webhooks`
pub async fn list(visit: SignedIn) -> Result<HttpResponse, ApiError> {
    let all = webhooks::all(&visit.operation()).await?;
    let content = html! {
        p.lead { (visit.t("webhooks-words")) }
        @if all.is_empty() {
            (empty(&visit.t("webhooks-none"), &visit.t("webhooks-none-words"), make_button(&visit)))
        } @else {
            (webhook_table(&visit, &all))
            @if all.len() >= WEBHOOKS_MAX {
                p.muted { (visit.tn("webhooks-too-many", &[("most", WEBHOOKS_MAX.into())])) }
            }
        }
    };
    let title = visit.t("webhooks-title");
    let heading = PageHeading::new(&title);
    let has_room = (1..WEBHOOKS_MAX).contains(&all.len());
    let heading = if has_room {
        heading.action(make_button(&visit))
    } else {
        heading
    };
    Ok(layout::page(&visit, heading, content))
}

fn make_button(visit: &SignedIn) -> Markup {
    html! {
        @if visit.is_owner() { a.button href=(PATH_OF_NEW) { (visit.t("webhooks-make")) } }
    }
}

fn webhook_table(visit: &SignedIn, webhooks: &[webhook::Model]) -> Markup {
    let columns = ["webhooks-url", "webhooks-events", "webhooks-state"].map(|id| visit.t(id));
    let row = |webhook: &webhook::Model| {
        let kinds = webhook.event_kinds();
        vec![
            html! { a href=(path_of(webhook.id)) { (cut(webhook.url.as_str(), URL_CHARS_MAX)) } },
            html! {
                @if kinds.len() == EventKind::OF_WEBHOOKS.len() { (visit.t("webhooks-all-events")) }
                @else { @for kind in kinds { code { (kind.as_str()) } " " } }
            },
            state(visit, webhook),
        ]
    };
    table(
        visit,
        &visit.t("webhooks-title"),
        &columns,
        webhooks.iter().map(row).collect(),
    )
}

/// The webhook's status as a badge.
pub fn state(visit: &SignedIn, webhook: &webhook::Model) -> Markup {
    match (webhook.is_active, &webhook.disabled_reason) {
        (true, _) if webhook.paused_at.is_some() => {
            badge(Tone::Warning, &visit.t("webhooks-paused"))
        }
        (true, _) if webhook.failing_since.is_some() => {
            badge(Tone::Warning, &visit.t("webhooks-failing"))
        }
        (true, _) => badge(Tone::Good, &visit.t("webhooks-on")),
        (false, Some(reason)) if reason == REASON_GONE => {
            badge(Tone::Bad, &visit.t("webhooks-disabled-gone"))
        }
        (false, Some(_)) => badge(Tone::Bad, &visit.t("webhooks-disabled")),
        (false, None) => badge(Tone::Plain, &visit.t("webhooks-off")),
    }
}

/// The description of an event kind.
fn told(visit: &SignedIn, kind: EventKind) -> String {
    visit.t(match kind {
        EventKind::CallTurn => "events-call-turn",
        EventKind::CallStarted => "events-call-started",
        EventKind::CallAnswered => "events-call-answered",
        EventKind::CallEnded => "events-call-ended",
        EventKind::CallTranscript => "events-call-transcript",
        EventKind::CreditsLow => "events-credits-low",
        EventKind::FunctionCalled => "events-function-called",
    })
}

/// The fields of a webhook's form.
pub fn form_fields(visit: &SignedIn) -> [Field; 2] {
    let kinds = EventKind::OF_WEBHOOKS.iter().map(|kind| {
        let name = format!("{kind}: {}", told(visit, *kind));
        (kind.as_str().to_owned(), name)
    });
    let events = Field::boxes("events", visit.t("webhooks-events"), kinds.collect());
    [
        Field::text("url", visit.t("webhooks-url")).hint(visit.t("webhooks-url-hint")),
        events.hint(visit.t("webhooks-events-hint")),
    ]
}

/// The values of [`form_fields`] as the API expects them.
pub fn typed_fields(typed: &FormValues) -> Value {
    json!({
        "url": typed.raw("url").next().unwrap_or_default().trim(),
        "events": typed.raw("events").collect::<Vec<_>>(),
    })
}

/// `GET /dashboard/webhooks/new`
pub async fn ask_new(visit: SignedIn) -> Result<HttpResponse, ApiError> {
    let usual = [EventKind::CallEnded, EventKind::CreditsLow];
    let filled = FormState::with(usual.map(|kind| ("events", kind.as_str())));
    let content = new_form(&visit, &filled);
    Ok(layout::page(&visit, &visit.t("webhooks-make"), content))
}

fn new_form(visit: &SignedIn, filled: &FormState) -> Markup {
    html! {
        p.lead { (visit.t("webhooks-make-words")) }
        (post(visit, PATH_OF_NEW, html! {
            (fields(visit, filled, &form_fields(visit)))
            p.muted { (visit.t("webhooks-secret-hint")) }
            (submit(&visit.t("webhooks-make-submit")))
        }))
    }
}

/// `POST /dashboard/webhooks/new`
pub async fn create(visit: SignedIn, typed: FormValues) -> Result<HttpResponse, ApiError> {
    let content = match make(&visit, &typed).await {
        Ok(id) => return Ok(visit.see(&path_of(id), "done-webhook-made")),
        Err(error) => new_form(&visit, &FormState::again(typed, error)?),
    };
    Ok(layout::refused(&visit, &visit.t("webhooks-make"), content))
}

async fn make(visit: &SignedIn, typed: &FormValues) -> Result<WebhookId, ApiError> {
    let secret = new_secret();
    let mut fields = typed_fields(typed);
    fields["secret"] = secret.expose().into();
    let made = webhooks::create(visit.operation(), RequestBody::of(fields)).await?;
    let id = made.value.id;
    visit.leave_note(&id.to_string(), &secret).await?;
    Ok(id)
}

/// A new random secret.
pub fn new_secret() -> Secret {
    let characters = rand::rng().sample_iter(Alphanumeric).take(SECRET_CHARS);
    Secret::new(characters.map(char::from).collect::<String>())
}

/// The new secret, which is never shown again, and how to use it to verify signatures.
pub fn shown_once(visit: &SignedIn, secret: &Secret) -> Markup {
    notice(
        Tone::Warning,
        html! {
            p { strong { (visit.t("webhooks-secret-once")) } }
            p { (visit.t("webhooks-secret-words")) }
            (copyable(visit, "secret", &visit.t("webhooks-secret"), secret.expose()))
            p { (visit.t("webhooks-secret-standard")) }
            (copyable(visit, "standard", &visit.t("webhooks-secret-standard"), &standard(secret)))
        },
    )
}

/// The secret in the format of the Standard Webhooks libraries.
fn standard(secret: &Secret) -> String {
    format!("whsec_{}", STANDARD.encode(secret.expose()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_long_and_never_the_same() {
        let (one, other) = (new_secret(), new_secret());
        assert_ne!(one.expose(), other.expose());
        assert_eq!(one.expose().len(), SECRET_CHARS);
        assert!(
            one.expose()
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric())
        );
        assert_eq!(standard(&Secret::new("secret")), "whsec_c2VjcmV0");
    }
}
