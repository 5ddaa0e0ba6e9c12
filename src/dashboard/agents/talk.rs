//! Talks to an agent from its page, with the settings of the form, saved or not.

use actix_web::HttpResponse;
use dikala_entities::{AgentId, HangupReason, Speaker};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::{
    super::{
        calls::words,
        components::Field,
        form::{self, FormState, FormValues},
        view::{DashboardView, SignedIn},
    },
    path_of,
};
use crate::{
    http::{
        error::ApiError,
        extract::{Id, RequestBody},
        field::FieldError,
    },
    operations::{agents, web_calls},
    pages::{
        assets::Asset,
        form::{Fields, Shape},
    },
};

const CALLER_NUMBER: &str = "callerNumber";
const CALLER: &Fields = &[(CALLER_NUMBER, Shape::Phone)];
/// Ends of calls that the script tells in words.
const REASONS: [HangupReason; 11] = [
    HangupReason::Normal,
    HangupReason::Silence,
    HangupReason::MaxDuration,
    HangupReason::CreditsExhausted,
    HangupReason::MediaLost,
    HangupReason::AiError,
    HangupReason::BridgeError,
    HangupReason::AgentInactive,
    HangupReason::InsufficientCredits,
    HangupReason::ConcurrencyLimit,
    HangupReason::TenantSuspended,
];
/// Texts of the script, with the ids of their messages.
const WORDS: [(&str, &str); 16] = [
    ("connecting", "talk-connecting"),
    ("ready", "talk-ready"),
    ("ended", "talk-ended"),
    ("lost", "talk-lost"),
    ("insecure", "talk-insecure"),
    ("refused", "talk-refused"),
    ("missing", "talk-missing"),
    ("wrong", "talk-wrong"),
    ("wrongCaller", "talk-wrong-caller"),
    ("unavailable", "talk-unavailable"),
    ("signedOut", "talk-signed-out"),
    ("interrupted", "talk-interrupted"),
    ("running", "talk-running"),
    ("ok", "talk-ok"),
    ("error", "talk-error"),
    ("length", "talk-length"),
];

/// The part of the agent's page.
pub fn section(visit: &SignedIn, agent: AgentId) -> Markup {
    let script = Asset::Talk.path(visit.audience().base);
    html! {
        section #talk aria-labelledby="talk-title" data-path=(path_of(agent)) data-script=(script) data-words=(texts(visit)) {
            h2 #talk-title { (visit.t("talk-title")) }
            p { (visit.t("talk-words")) }
            noscript { p { (visit.t("talk-no-script")) } }
            (caller_field(visit).show(visit, &FormState::blank()))
            div.row {
                button type="button" data-talk="begin" disabled { (visit.t("talk-begin")) }
                button.danger type="button" data-talk="end" hidden { (visit.t("talk-end")) }
                meter data-talk="level" hidden min="0" max="1" value="0" aria-label=(visit.t("talk-level")) {}
            }
            div.keys data-talk="keys" hidden role="group" aria-label=(visit.t("talk-keys")) {}
            p role="status" data-talk="state" {}
            div role="log" aria-label=(visit.t("talk-log")) { ol.conversation data-talk="log" {} }
            p.way { a data-talk="link" hidden href="/dashboard/calls" target="_blank" rel="noopener" { (visit.t("talk-link")) } }
            @if visit.is_owner() {
                p.way { a href={ "/dashboard/widgets/new?agentId=" (agent) } { (visit.t("talk-website")) } }
            }
            script src=(script) defer {}
        }
    }
}

fn caller_field(visit: &SignedIn) -> Field {
    let caller = Field::text(CALLER_NUMBER, visit.t("talk-caller")).optional();
    caller.hint(visit.t("talk-caller-hint"))
}

/// The texts of the script: a line with name, tab and text for each.
fn texts(view: &DashboardView) -> String {
    let own = WORDS
        .iter()
        .map(|(name, id)| ((*name).to_owned(), view.t(id)));
    let speakers = [Speaker::Caller, Speaker::Agent];
    let speakers = speakers.map(|role| (role.to_string(), view.t(words::speaker_id(role))));
    let reasons = REASONS.iter();
    let reasons = reasons.map(|reason| {
        (
            format!("because.{reason}"),
            view.t(words::reason_id(*reason)),
        )
    });
    let latency = view.tn("calls-milliseconds", &[("ms", "{ms}".into())]);
    let all = own.chain(speakers).chain(reasons);
    let lines = all.chain([("latency".to_owned(), latency)]);
    let lines: Vec<String> = lines
        .map(|(name, text)| format!("{name}\t{text}"))
        .collect();
    lines.join("\n")
}

/// `POST /dashboard/agents/{id}/talk`: a token, with the form's settings as a draft if they were changed.
pub async fn begin(
    visit: SignedIn,
    id: Id<AgentId>,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let made = match asked(&typed) {
        Ok(body) => web_calls::create_detailed(visit.operation(), id, body).await,
        Err(error) => Err(error),
    };
    match made {
        Ok(made) => Ok(HttpResponse::Ok().json(made.value)),
        Err(ApiError::Validation(errors)) => refused(&visit, typed, errors),
        Err(error) => Err(error),
    }
}

fn asked(typed: &FormValues) -> Result<RequestBody, ApiError> {
    let mut body = form::object(typed, CALLER)?;
    if typed.text("name").is_some() {
        let draft = form::object(typed, &agents::shapes())?;
        body.insert("draft".to_owned(), Value::Object(draft));
    }
    Ok(RequestBody::of(Value::Object(body)))
}

/// The errors in words, and the field of the caller's number with its own ones. The form shows its errors once it is saved.
fn refused(
    visit: &SignedIn,
    typed: FormValues,
    errors: Vec<FieldError>,
) -> Result<HttpResponse, ApiError> {
    let message = ApiError::Validation(errors.clone()).to_string();
    let (of_caller, others): (Vec<_>, Vec<_>) = errors
        .into_iter()
        .partition(|error| error.field == CALLER_NUMBER);
    let field = match of_caller.is_empty() {
        true => None,
        false => {
            let filled = FormState::again(typed, ApiError::Validation(of_caller))?;
            Some(caller_field(visit).show(visit, &filled).into_string())
        }
    };
    let told = json!({"message": message, "callerField": field, "isFormWrong": !others.is_empty()});
    Ok(HttpResponse::UnprocessableEntity().json(told))
}
