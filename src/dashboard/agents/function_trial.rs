//! Tries a function: calls its endpoint as a call would, then shows request and answer.

use actix_web::HttpResponse;
use dikala_actors::functions::{EndpointAnswer, FaultCode, FunctionRequest};
use dikala_entities::{AgentId, Secret};
use maud::{Markup, html};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    super::{
        components::{self, Tone, belongs_to, notice, post, submit},
        form::{self, Fields, FormState, FormValues, Shape},
        layout,
        names::cut,
        pretty::pretty,
        view::SignedIn,
    },
    function_form::{beside_its_field, json_field},
    functions::FunctionPage,
};
use crate::{
    http::{
        error::ApiError,
        extract::{FunctionName, Id},
    },
    operations::functions::{FunctionTrial, try_out},
};

const FIELDS: &Fields = &[("parameters", Shape::Json)];
const ARGUMENTS_ROWS: u8 = 8;
/// The longest part of a body that is shown, in characters.
const SHOWN_MAX: usize = 6_000;

/// The result of a trial, kept in the session for the page that follows.
#[derive(Debug, Serialize, Deserialize)]
struct TrialResult {
    /// The arguments that were typed, so that they can be edited and tried again.
    arguments: String,
    /// `None` if the address cannot be used in a request.
    request: Option<String>,
    answer: Option<(u16, String)>,
    /// The error code.
    fault: Option<String>,
    /// The JSON that the AI would receive.
    told: String,
    duration_ms: i64,
}

impl TrialResult {
    fn of(arguments: &str, trial: &FunctionTrial) -> Self {
        let invoked = &trial.invoked;
        Self {
            arguments: arguments.to_owned(),
            request: trial.request.as_ref().map(as_sent),
            answer: invoked.answered.as_ref().map(as_it_came),
            fault: invoked
                .outcome
                .fault()
                .map(|fault| fault.as_str().to_owned()),
            told: shown(&serde_json::to_string(&invoked.outcome).unwrap_or_default()),
            duration_ms: invoked.duration_ms,
        }
    }

    fn fault(&self) -> Option<FaultCode> {
        let word = self.fault.as_deref()?;
        FaultCode::ALL
            .into_iter()
            .find(|code| code.as_str() == word)
    }
}

fn shown(text: &str) -> String {
    cut(text, SHOWN_MAX).into_owned()
}

/// A request in HTTP's text form.
fn as_sent(request: &FunctionRequest) -> String {
    let mut text = format!("{} {}\n", request.method, request.url);
    for (name, value) in &request.headers {
        text.push_str(&format!("{}: {value}\n", written(name)));
    }
    shown(&format!("{text}\n{}", request.body))
}

/// A header's name with capital letters.
fn written(name: &str) -> String {
    let word = |word: &str| {
        let mut signs = word.chars();
        let first = signs.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(signs).collect::<String>()
    };
    name.split('-').map(word).collect::<Vec<_>>().join("-")
}

fn as_it_came(answered: &EndpointAnswer) -> (u16, String) {
    (
        answered.status,
        shown(&String::from_utf8_lossy(&answered.body)),
    )
}

/// `GET /dashboard/agents/{id}/functions/{name}/test`
pub async fn ask(
    visit: SignedIn,
    id: Id<AgentId>,
    name: FunctionName,
) -> Result<HttpResponse, ApiError> {
    let found = FunctionPage::at(&visit, id, &name).await?;
    let note = visit.take_note(&note_of(&found)).await?;
    let shown: Option<TrialResult> = note.and_then(|note| serde_json::from_str(note.expose()).ok());
    let arguments = match &shown {
        Some(shown) => shown.arguments.clone(),
        None => pretty(&sample(&found.function.parameters).to_string()),
    };
    let content = content(
        &visit,
        &found,
        shown.as_ref(),
        &FormState::with([("parameters", arguments)]),
    );
    Ok(layout::page(&visit, &title(&visit, &found), content))
}

fn title(visit: &SignedIn, found: &FunctionPage) -> String {
    visit.tn(
        "functions-test-title",
        &[("name", found.function.name.as_str().into())],
    )
}

fn note_of(found: &FunctionPage) -> String {
    format!("test-{}", found.function.id)
}

fn content(
    visit: &SignedIn,
    found: &FunctionPage,
    shown: Option<&TrialResult>,
    filled: &FormState,
) -> Markup {
    let label = visit.t("functions-arguments");
    let arguments = json_field(visit, filled, label, ARGUMENTS_ROWS);
    let arguments = arguments.hint(visit.t("functions-arguments-hint"));
    html! {
        (belongs_to(&visit.t("calls-function"), &found.path, &found.function.name))
        @if let Some(shown) = shown { (result(visit, shown)) }
        section aria-labelledby="try" {
            h2 #try { (visit.t("functions-try")) }
            p.lead { (visit.t("functions-test-words")) }
            (post(visit, &format!("{}/test", found.path), html! {
                (components::fields(visit, filled, &[arguments]))
                (submit(&visit.t("functions-test-submit")))
            }))
        }
    }
}

fn result(visit: &SignedIn, shown: &TrialResult) -> Markup {
    let ms = [("ms", shown.duration_ms.into())];
    let was_sent = !matches!(
        shown.fault(),
        Some(FaultCode::InvalidArguments | FaultCode::BlockedTarget)
    );
    html! {
        @match shown.fault() {
            None => (notice(Tone::Good, html! { p role="status" { (visit.tn("functions-test-good", &ms)) } })),
            Some(fault) => (notice(Tone::Bad, html! {
                p role="status" { strong { (visit.tn("functions-test-bad", &ms)) } " " (fault_in_words(visit, fault)) }
            })),
        }
        section aria-labelledby="sent" {
            h2 #sent { (visit.t(if was_sent { "functions-sent" } else { "functions-not-sent" })) }
            @if let Some(request) = &shown.request {
                pre tabindex="0" { (request) }
            }
            p.hint {
                (visit.t("functions-signature")) " "
                a href="/dashboard/settings/function-secret" { (visit.t("nav-function-secret")) }
            }
        }
        @if let Some((status, body)) = &shown.answer {
            section aria-labelledby="answer" {
                h2 #answer { (visit.t("functions-answer")) }
                p { (visit.t("functions-status")) " " strong { (status) } }
                @if body.is_empty() { p.muted { (visit.t("functions-no-body")) } }
                @else { pre tabindex="0" { (body) } }
            }
        }
        section aria-labelledby="told" {
            h2 #told { (visit.t("functions-told")) }
            pre lang="en" tabindex="0" { (pretty(&shown.told)) }
        }
    }
}

/// The fault and its remedy, in words.
fn fault_in_words(visit: &SignedIn, fault: FaultCode) -> String {
    visit.t(match fault {
        FaultCode::Timeout => "functions-fault-timeout",
        FaultCode::Connection => "functions-fault-connection",
        FaultCode::BlockedTarget => "functions-fault-blocked",
        FaultCode::HttpStatus => "functions-fault-status",
        FaultCode::InvalidResponse => "functions-fault-response",
        FaultCode::TooLarge => "functions-fault-large",
        FaultCode::InvalidArguments => "functions-fault-arguments",
        // A trial always calls the endpoint; these three occur in calls only.
        FaultCode::UnknownFunction | FaultCode::Disabled | FaultCode::CircuitOpen => {
            "functions-fault-other"
        }
    })
}

/// `POST /dashboard/agents/{id}/functions/{name}/test`
pub async fn run(
    visit: SignedIn,
    id: Id<AgentId>,
    name: FunctionName,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let found = FunctionPage::at(&visit, id, &name).await?;
    let tried = match form::body(&typed, FIELDS) {
        Ok(body) => try_out(&visit.operation(), &found.function, &body).await,
        Err(error) => Err(error),
    };
    match tried {
        Ok(trial) => {
            let shown = TrialResult::of(typed.text("parameters").unwrap_or_default(), &trial);
            let note = serde_json::to_string(&shown).map_err(|_| ApiError::Internal)?;
            visit
                .leave_note(&note_of(&found), &Secret::new(note))
                .await?;
            Ok(visit.go(&format!("{}/test", found.path)))
        }
        Err(error) => {
            let filled = FormState::again(typed, beside_its_field(error))?;
            let content = content(&visit, &found, None, &filled);
            Ok(layout::refused(&visit, &title(&visit, &found), content))
        }
    }
}

/// Sample arguments: a value of the right type for each property of a schema.
fn sample(schema: &str) -> Value {
    let schema: Value = serde_json::from_str(schema).unwrap_or_default();
    let properties = schema["properties"].as_object();
    let of_all = properties.into_iter().flatten();
    Value::Object(
        of_all
            .map(|(name, schema)| (name.clone(), sample_of(schema)))
            .collect(),
    )
}

fn sample_of(schema: &Value) -> Value {
    let given = ["default", "const"]
        .into_iter()
        .find_map(|word| schema.get(word));
    let listed = ["examples", "enum"]
        .into_iter()
        .find_map(|word| schema[word].get(0));
    if let Some(value) = given.or(listed) {
        return value.clone();
    }
    match schema["type"].as_str() {
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| 1.into()),
        Some("boolean") => true.into(),
        Some("array") => Value::Array(Vec::new()),
        Some("object") => Value::Object(Map::new()),
        _ => "".into(),
    }
}

#[cfg(test)]
mod tests {
    use dikala_entities::FunctionMethod;
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_to_begin_with_are_of_their_types() {
        let schema = json!({"type": "object", "properties": {
            "text": {"type": "string"}, "size": {"type": "integer", "minimum": 3}, "many": {"type": "number"},
            "yes": {"type": "boolean"}, "list": {"type": "array"}, "inner": {"type": "object"}, "any": {},
            "city": {"type": "string", "enum": ["Bandung", "Jakarta"]}, "days": {"type": "integer", "default": 2},
        }});
        let expected = json!({"text": "", "size": 3, "many": 1, "yes": true, "list": [], "inner": {}, "any": "",
                              "city": "Bandung", "days": 2});
        assert_eq!(sample(&schema.to_string()), expected);
        assert_eq!(sample("nonsense"), json!({}));
    }

    #[test]
    fn a_request_is_shown_as_it_stands_on_the_wire() {
        let request = FunctionRequest {
            method: FunctionMethod::Get,
            url: "https://example.com/a?b=1".to_owned(),
            headers: vec![("x-service-test".to_owned(), "true".to_owned())],
            body: "{}".to_owned(),
        };
        assert_eq!(
            as_sent(&request),
            "GET https://example.com/a?b=1\nX-Service-Test: true\n\n{}"
        );
        let long = FunctionRequest {
            body: "é".repeat(2 * SHOWN_MAX),
            ..request
        };
        assert_eq!(as_sent(&long).chars().count(), SHOWN_MAX + 1);
    }

    #[test]
    fn what_is_kept_for_the_page_comes_back() {
        for code in FaultCode::ALL {
            let shown = TrialResult {
                arguments: "{}".to_owned(),
                request: None,
                answer: Some((200, "{}".to_owned())),
                fault: Some(code.as_str().to_owned()),
                told: String::new(),
                duration_ms: 1,
            };
            let note = serde_json::to_string(&shown).expect("JSON");
            let back: TrialResult = serde_json::from_str(&note).expect("the same");
            assert_eq!(back.fault(), Some(code));
        }
    }
}
