//! Translates errors of fields: one sentence per error code of the API. The sentence does not name the field,
//! because the label stands beside it.

use maud::{Markup, html};

use super::{lang::Lang, view::View};
use crate::http::{
    error::ApiError,
    field::{FieldCode, FieldError},
};

/// Fields that hold phone numbers.
const PHONE_FIELDS: [&str; 4] = ["escalationNumber", "to", "callerNumber", "did"];

/// Objects whose fields have inputs of their own.
const OBJECTS: [&str; 2] = ["conversation", "texts"];

/// The input that a field's path belongs to: `parameters` for `parameters.required[1]`, but `conversation.fillers` for itself.
pub fn input_of(field: &str) -> &str {
    let inside = |object: &&str| field.strip_prefix(*object)?.strip_prefix('.');
    let inside = OBJECTS.iter().find_map(inside).unwrap_or(field);
    let length = inside.find(['.', '[']).unwrap_or(inside.len());
    &field[..field.len() - inside.len() + length]
}

/// The error's sentence.
pub fn told(view: &View, error: &FieldError) -> Markup {
    if error.is_translated {
        return html! { (error.message) };
    }
    let (text, is_whole) = translated(view, error);
    let within = error.field[input_of(&error.field).len()..].trim_start_matches('.');
    let is_english = view.lang() == Lang::En;
    html! {
        // The path within the field, if the sentence does not name it.
        @if (is_whole || is_english) && !within.is_empty() { code { (within) } ": " }
        @if !is_whole && is_english { (without_the_field(error)) }
        @else { (text) }
        // The API's sentence holds details that the code lacks.
        @if !is_whole && !is_english { " " span lang="en" { "(" (error.message) ")" } }
    }
}

/// The API's sentence without the field's API name.
fn without_the_field(error: &FieldError) -> String {
    let predicate = error.message.strip_prefix(&error.field);
    match predicate.filter(|rest| rest.starts_with(' ')) {
        Some(predicate) => format!("This{predicate}"),
        None => error.message.clone(),
    }
}

/// The reason for a refusal that concerns no field.
pub fn refusal(view: &View, error: &ApiError) -> Markup {
    let sentence = match error {
        ApiError::CallNotActive => view.t("calls-is-over"),
        ApiError::CallStillRunning => view.t("calls-still-runs"),
        ApiError::WebhookLimitReached(most) => {
            view.tn("webhooks-too-many", &[("most", (*most).into())])
        }
        ApiError::ChatAnswering => view.t("chat-answering"),
        ApiError::ChatFull(most) => view.tn("chat-full", &[("most", (*most).into())]),
        ApiError::TooManyChats(..) => view.t("chat-too-many"),
        ApiError::TooManyRecoveries(_) => view.t("webhooks-recover-too-many"),
        ApiError::TooManyVersions(_) => view.t("agents-too-many-versions"),
        ApiError::ExportRunning => view.t("error-export-running"),
        ApiError::VerificationRunning => view.t("console-verification-running"),
        ApiError::Validation(errors) => {
            return html! { ul { @for error in errors { li { (told(view, error)) } } } };
        }
        other => {
            return html! {
                p { (view.t("error-refused-words")) }
                p lang="en" { (other.to_string()) }
            };
        }
    };
    html! { p { (sentence) } }
}

/// The sentence of the error code; true if it is complete.
fn translated(view: &View, error: &FieldError) -> (String, bool) {
    let with = |id, bound: i64| view.tn(id, &[("bound", bound.into())]);
    let bounded = |with_bound, without| match error.bound {
        Some(bound) => (with(with_bound, bound), true),
        None => (view.t(without), false),
    };
    match error.code {
        FieldCode::Required => (view.t("fault-required"), true),
        // Without a bound it is a list, which must not be empty.
        FieldCode::TooShort => match error.bound {
            Some(bound) => (with("fault-too-short", bound), true),
            None => (view.t("fault-is-empty"), true),
        },
        FieldCode::TooLong => bounded("fault-too-long", "fault-is-too-long"),
        FieldCode::TooSmall => bounded("fault-too-small", "fault-is-too-small"),
        FieldCode::TooLarge => bounded("fault-too-large", "fault-is-too-large"),
        FieldCode::NotAllowed => (view.t("fault-not-allowed"), false),
        FieldCode::InvalidFormat if PHONE_FIELDS.contains(&&*error.field) => {
            (view.t("fault-phone"), true)
        }
        FieldCode::InvalidFormat => (view.t("fault-invalid-format"), false),
        FieldCode::InvalidType => (view.t("fault-invalid-type"), false),
        FieldCode::UnknownField => (view.t("fault-unknown-field"), false),
        FieldCode::Duplicate => (view.t("fault-duplicate"), false),
        FieldCode::NotFound => (view.t("fault-not-found"), false),
        FieldCode::InsecureUrl => (view.t("fault-insecure-url"), false),
        FieldCode::BlockedAddress => (view.t("fault-blocked-address"), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_belongs_to_the_input_that_is_in_the_form() {
        for (path, input) in [
            ("name", "name"),
            ("parameters.required[1]", "parameters"),
            ("toolsEnabled[1]", "toolsEnabled"),
            ("conversation.fillers", "conversation.fillers"),
            ("conversation", "conversation"),
            ("conversations.fillers", "conversations"),
        ] {
            assert_eq!(input_of(path), input);
        }
    }
}
