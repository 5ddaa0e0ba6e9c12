//! Translates errors of fields: the sentence that the error names, or one sentence per error code of the API. The
//! sentence does not name the field, because the label stands beside it.

use maud::{Markup, html};

use super::{lang::Lang, view::View};
use crate::http::{
    error::ApiError,
    field::{FieldCode, FieldError, PageSentence},
};

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
    let (text, is_whole) = match &error.sentence {
        Some(sentence) => (in_words(view, error, sentence), !sentence.is_partial),
        None => translated(view, error),
    };
    let within = error.field[input_of(&error.field).len()..].trim_start_matches('.');
    let is_english = view.lang() == Lang::En;
    html! {
        // The path within the field, if the sentence does not name it.
        @if (is_whole || is_english || error.sentence.is_some()) && !within.is_empty() { (place(view, within)) ": " }
        @if !is_whole && is_english { (without_the_field(error)) }
        @else { (text) }
        // The API's sentence holds details that the page's sentence lacks.
        @if !is_whole && !is_english {
            @if error.sentence.is_some() { " " code lang="en" { (predicate(error)) } }
            @else { " " span lang="en" { "(" (error.message) ")" } }
        }
    }
}

fn in_words(view: &View, error: &FieldError, sentence: &PageSentence) -> String {
    let bound = error.bound.map(|bound| ("bound", bound));
    let numbers = sentence.arguments.iter().copied().chain(bound);
    let numbers = numbers.map(|(name, value)| (name, value.into()));
    let api = without_the_field(error);
    let arguments: Vec<_> = numbers.chain([("api", api.into())]).collect();
    view.tn(sentence.id, &arguments)
}

/// A path within a field. An entry of a list has a number.
fn place(view: &View, within: &str) -> Markup {
    let index = within.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    match index.and_then(|index| index.parse::<i64>().ok()) {
        Some(index) => html! { (view.tn("fault-entry", &[("number", (index + 1).into())])) },
        None => html! { code { (within) } },
    }
}

/// The API's sentence without the field's API name and the full stop, or the whole sentence.
fn predicate(error: &FieldError) -> &str {
    match error.message.strip_prefix(&error.field) {
        Some(rest) if rest.starts_with(' ') => rest.trim().trim_end_matches('.'),
        _ => &error.message,
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
        ApiError::ChangedMeanwhile => view.t("page-changed-meanwhile"),
        ApiError::CallNotActive => view.t("calls-is-over"),
        ApiError::CallStillRunning => view.t("calls-still-runs"),
        ApiError::DeliveryErased => view.t("webhooks-call-erased"),
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
    use dikala_entities::{PhoneNumber, UrlPolicy, VoiceId};
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        http::extract::{ParseResult, e164, instant, integer, line, list, url, word},
        operations::functions::parameters,
        pages::{form::time_zone, view::tests::view_in},
    };

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

    /// The sentence in English and in Indonesian.
    fn told_in_both(error: &FieldError) -> [String; 2] {
        [Lang::En, Lang::Id].map(|lang| told(&view_in(lang), error).into_string())
    }

    fn error_of<T: std::fmt::Debug>(field: &str, parsed: ParseResult<T>) -> FieldError {
        let faults = parsed.expect_err("refused");
        faults.into_iter().next().expect("a fault").in_field(field)
    }

    #[test]
    fn errors_are_told_in_words_of_the_pages() {
        /// The words of the API.
        const API: &str = "";
        let address =
            |text: &str| error_of("url", url(UrlPolicy { allow_http: false })(&text.into()));
        let object = |schema: Value| error_of("parameters", parameters::parse(&schema));
        for (error, english, indonesian) in [
            (
                error_of("minutes", integer(1, 240)(&"ten".into())),
                "This must be a whole number.",
                "Isi dengan bilangan bulat, misalnya 10.",
            ),
            (
                error_of("minutes", integer(1, 240)(&json!(241))),
                "At most 240.",
                "Paling banyak 240.",
            ),
            (
                error_of("voiceId", word::<VoiceId>("a voice")(&"Beethoven".into())),
                API,
                "Pilih salah satu dari daftar.",
            ),
            (
                error_of("to", e164(&"call me".into())),
                "This is not a phone number. Type it as 0812 3456 7890, or with + and country code.",
                "Ini bukan nomor telepon. Tulis seperti 0812 3456 7890, atau dengan + dan kode negara.",
            ),
            // The filter of calls has a field with the same name.
            (
                error_of("to", instant(&"yesterday".into())),
                API,
                "Isi dengan tanggal, misalnya 2026-01-15.",
            ),
            (
                error_of("timeZone", time_zone(&"Jakarta".into())),
                API,
                "Zona waktu ini tidak dikenal. Isi dengan nama seperti Asia/Jakarta.",
            ),
            (
                error_of("name", line(60)(&"a\tb".into())),
                "This must not contain control characters.",
                "Hapus baris baru, tab, dan karakter lain yang tidak terlihat.",
            ),
            (address(""), "This is required.", "Wajib diisi."),
            (
                address("http://example.com"),
                API,
                "Alamat harus diawali https.",
            ),
            (
                address("https://me@example.com"),
                API,
                "Alamat tidak boleh memuat nama pengguna atau kata sandi.",
            ),
            (
                address(&format!("https://example.com/{}", "a".repeat(2_048))),
                "At most 2,048 characters.",
                "Paling banyak 2.048 karakter.",
            ),
            (
                object(json!([])),
                API,
                "Ini harus berupa objek dalam kurung kurawal, misalnya {&quot;type&quot;: &quot;object&quot;}.",
            ),
            (
                object(json!({"type": "object", "optional": ["a"]})),
                "<code>optional</code>: This is not a keyword that is taken; leave the name out of required.",
                "<code>optional</code>: Kata kunci ini tidak dapat dipakai. <code lang=\"en\">is not a keyword that is taken; \
                 leave the name out of required</code>",
            ),
        ] {
            let english = match english {
                API => html! { (without_the_field(&error)) }.into_string(),
                other => other.to_owned(),
            };
            assert_eq!(
                told_in_both(&error),
                [english, indonesian.to_owned()],
                "{}",
                error.message
            );
        }
    }

    #[test]
    fn an_entry_of_a_list_has_a_number_and_unknown_errors_keep_the_words_of_the_api() {
        let twice = list(1, e164, PhoneNumber::eq)(&json!(["+6281234567890", "+6281234567890"]));
        let expected = [
            "Entry 2: This is there twice.",
            "Isian ke-2: Ini tertulis dua kali.",
        ];
        assert_eq!(told_in_both(&error_of("numbers", twice)), expected);
        let other = FieldError::new("minutes", FieldCode::InvalidType, "must be odd");
        let expected = [
            "This must be odd.",
            "Jenis isian ini salah. <span lang=\"en\">(minutes must be odd.)</span>",
        ];
        assert_eq!(told_in_both(&other), expected);
    }
}
