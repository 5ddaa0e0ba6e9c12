//! Tries a function: calls its endpoint as a call would, then shows request and answer.

use actix_web::HttpResponse;
use dikala_actors::functions::{EndpointAnswer, FaultCode, FunctionRequest};
use dikala_entities::{AgentId, Secret};
use maud::{Markup, html};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    super::{
        components::{self, Tone, notice, post, submit},
        form::{self, Fields, FormState, FormValues, Shape},
        layout,
        names::cut,
        pretty::pretty,
        view::SignedIn,
    },
    arguments,
    function_form::{JSON_FIELD, beside_its_field, has_json, json_field},
    functions::FunctionPage,
    parameter_rows::{self, ParameterRow},
};
use crate::{
    http::{
        error::ApiError,
        extract::{FunctionName, Id, RequestBody},
    },
    operations::functions::{FunctionTrial, try_out},
};

const FIELDS: &Fields = &[(JSON_FIELD, Shape::Json)];
const ARGUMENTS_ROWS: u8 = 8;
/// The longest part of a body that is shown, in characters.
const SHOWN_MAX: usize = 6_000;

/// The result of a trial, kept in the session for the page that follows.
#[derive(Debug, Serialize, Deserialize)]
struct TrialResult {
    /// The arguments as JSON, so that they can be edited and tried again.
    arguments: String,
    /// They were typed as JSON, not in a field each.
    is_json: bool,
    /// `None` if nothing was sent.
    request: Option<String>,
    answer: Option<(u16, String)>,
    /// The error code.
    fault: Option<String>,
    /// The JSON that the AI would receive.
    told: String,
    duration_ms: i64,
}

impl TrialResult {
    fn of(arguments: String, is_json: bool, trial: &FunctionTrial) -> Self {
        let invoked = &trial.invoked;
        let was_sent = !matches!(
            invoked.outcome.fault(),
            Some(FaultCode::InvalidArguments | FaultCode::BlockedTarget)
        );
        let request = trial.request.as_ref().filter(|_| was_sent);
        Self {
            arguments,
            is_json,
            request: request.map(as_sent),
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
    let form = ArgumentForm::of(&found, shown.as_ref());
    let content = content(&visit, &found, shown.as_ref(), &form);
    let title = title(&visit, &found);
    Ok(layout::page(&visit, found.heading_below(&title), content))
}

/// The arguments with their values: a field each, or JSON if the schema says more than rows can.
struct ArgumentForm {
    rows: Option<Vec<ParameterRow>>,
    filled: FormState,
}

impl ArgumentForm {
    fn of(found: &FunctionPage, shown: Option<&TrialResult>) -> Self {
        let schema = &found.function.parameters;
        let is_json = shown.is_some_and(|shown| shown.is_json);
        let rows = parameter_rows::of_schema(schema).filter(|_| !is_json);
        let filled = match (&rows, shown) {
            (Some(rows), Some(shown)) => {
                let arguments = serde_json::from_str(&shown.arguments).unwrap_or_default();
                FormState::with(arguments::values(rows, &arguments))
            }
            (Some(rows), None) => FormState::with(arguments::values(rows, &sample(schema))),
            (None, Some(shown)) => FormState::with([(JSON_FIELD, shown.arguments.clone())]),
            (None, None) => FormState::with([(JSON_FIELD, pretty(&sample(schema).to_string()))]),
        };
        Self { rows, filled }
    }

    fn show(&self, visit: &SignedIn) -> Markup {
        let fields = match &self.rows {
            Some(rows) => arguments::fields(visit, rows),
            None => {
                let label = visit.t("functions-arguments");
                let field = json_field(visit, &self.filled, label, ARGUMENTS_ROWS);
                vec![field.hint(visit.t("functions-arguments-hint"))]
            }
        };
        html! {
            @if self.rows.is_some() { input type="hidden" name=(JSON_FIELD) value=""; }
            (components::fields(visit, &self.filled, &fields))
        }
    }
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
    form: &ArgumentForm,
) -> Markup {
    html! {
        @if let Some(shown) = shown { (result(visit, shown)) }
        section aria-labelledby="try" {
            h2 #try { (visit.t("functions-try")) }
            p.lead { (visit.t("functions-test-words")) }
            (post(visit, &format!("{}/test", found.path), html! {
                (form.show(visit))
                (submit(&visit.t("functions-test-submit")))
            }))
        }
    }
}

fn result(visit: &SignedIn, shown: &TrialResult) -> Markup {
    let ms = [("ms", shown.duration_ms.into())];
    html! {
        @match shown.fault() {
            None => (notice(Tone::Good, html! { p role="status" { (visit.tn("functions-test-good", &ms)) } })),
            Some(FaultCode::BlockedTarget) => (notice(Tone::Bad, html! {
                p role="status" { (visit.t("functions-fault-blocked")) }
            })),
            Some(fault) => (notice(Tone::Bad, html! {
                p role="status" { strong { (visit.tn("functions-test-bad", &ms)) } " " (fault_in_words(visit, fault)) }
            })),
        }
        @if let Some(request) = &shown.request {
            section aria-labelledby="sent" {
                h2 #sent { (visit.t("functions-sent")) }
                pre tabindex="0" { (request) }
                p.hint {
                    (visit.t("functions-signature")) " "
                    a href="/dashboard/settings/function-secret" { (visit.t("nav-function-secret")) }
                }
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
        FaultCode::HttpStatus => "functions-fault-status",
        FaultCode::InvalidResponse => "functions-fault-response",
        FaultCode::TooLarge => "functions-fault-large",
        // Nothing was sent for the first two, which are told elsewhere; the last three occur in calls only.
        FaultCode::BlockedTarget
        | FaultCode::InvalidArguments
        | FaultCode::UnknownFunction
        | FaultCode::Disabled
        | FaultCode::CircuitOpen => "functions-fault-other",
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
    let rows = parameter_rows::of_schema(&found.function.parameters);
    let rows = rows.filter(|_| !has_json(&typed));
    let (body, arguments) = match &rows {
        Some(rows) => {
            let arguments = Value::Object(arguments::typed(&typed, rows));
            let body = RequestBody::of(json!({JSON_FIELD: arguments}));
            (Ok(body), arguments.to_string())
        }
        None => {
            let arguments = typed.text(JSON_FIELD).unwrap_or_default().to_owned();
            (form::body(&typed, FIELDS), arguments)
        }
    };
    let schema = &found.function.parameters;
    let tried = match (
        body,
        arguments::misfit(&visit, schema, rows.as_deref(), &arguments),
    ) {
        (Ok(body), None) => try_out(&visit.operation(), &found.function, &body).await,
        (Ok(_), Some(misfit)) => Err(ApiError::field(misfit)),
        (Err(error), _) => Err(error),
    };
    match tried {
        Ok(trial) => {
            let shown = TrialResult::of(arguments, rows.is_none(), &trial);
            let note = serde_json::to_string(&shown).map_err(|_| ApiError::Internal)?;
            visit
                .leave_note(&note_of(&found), &Secret::new(note))
                .await?;
            Ok(visit.go(&format!("{}/test", found.path)))
        }
        Err(error) => {
            let filled = FormState::again(typed, beside_its_field(error))?;
            let content = content(&visit, &found, None, &ArgumentForm { rows, filled });
            let title = title(&visit, &found);
            Ok(layout::refused(
                &visit,
                found.heading_below(&title),
                content,
            ))
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
    use super::*;
    use dikala_entities::FunctionMethod;

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
                is_json: true,
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
