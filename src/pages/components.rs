//! The building blocks of pages. Each works without a script, at a width of 320 px, with a keyboard, and with a
//! screen reader.

mod edited;
mod shown;

use std::borrow::Cow;

use maud::{Markup, Render, html};

pub use self::{
    edited::{seen, submit_kept},
    shown::shown,
};
pub use super::tables::{short_id, table};
use super::{cross_site::TOKEN_FIELD, faults, form::FormState, view::View};
use crate::http::{error::ApiError, field::FieldError};

/// A form that posts to a path, with its CSRF token. The browser's validation is off, because the service reports
/// all errors, in the reader's language.
pub fn post(view: &View, path: &str, content: Markup) -> Markup {
    post_from(view, None, path, content)
}

/// As [`post`]. Buttons outside of the form can name it by its id.
pub fn post_from(view: &View, id: Option<&str>, path: &str, content: Markup) -> Markup {
    html! {
        form id=[id] method="post" action=(path) novalidate {
            input type="hidden" name=(TOKEN_FIELD) value=(view.token());
            (content)
        }
    }
}

/// A link to the thing that the page's subject belongs to: its kind, page and name.
pub fn belongs_to(kind: &str, path: &str, name: &str) -> Markup {
    html! { p.way { span { (kind) ":" } " " a href=(path) { (name) } } }
}

/// The filled fields of a form, below all of its errors.
pub fn fields(view: &View, filled: &FormState, fields: &[Field]) -> Markup {
    html! {
        (summary(view, filled, fields))
        @for field in fields { (field.show(view, filled)) }
    }
}

/// All errors of a form, each with the label of its field and a link to it. Empty if there are none.
pub fn summary(view: &View, filled: &FormState, fields: &[Field]) -> Markup {
    let label = |error: &FieldError| {
        let input = faults::input_of(&error.field);
        let field = fields.iter().find(|field| field.name == input);
        field.map(|field| field.label.as_str())
    };
    html! {
        @if let Some(refusal) = filled.refusal() { (refused(view, refusal)) }
        @if !filled.errors().is_empty() {
            div.notice.bad role="alert" {
                @if filled.errors().len() > 1 {
                    p { strong { (view.tn("page-errors", &[("count", filled.errors().len().into())])) } }
                }
                ul {
                    @for error in filled.errors() {
                        li {
                            a href={ "#f-" (faults::input_of(&error.field)) } {
                                @if let Some(label) = label(error) { (label) ": " }
                                (faults::told(view, error))
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The reason why something was refused as a whole.
pub fn refused(view: &View, error: &ApiError) -> Markup {
    notice(
        Tone::Bad,
        html! { div role="alert" { (faults::refusal(view, error)) } },
    )
}

/// The input element of a field.
#[derive(Clone, Debug)]
enum Kind {
    Input(&'static str),
    Password,
    Area { rows: u8, code: bool },
    Select(Vec<(String, String)>),
    Boxes(Vec<(String, String)>),
    Switch,
}

/// Tells whether a field must be filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    Required,
    /// The label says that the field is optional.
    Optional,
    Filter,
}

/// A field with its label, hint and errors.
#[derive(Clone, Debug)]
pub struct Field {
    name: Cow<'static, str>,
    label: String,
    hint: Option<String>,
    kind: Kind,
    need: Need,
    autocomplete: &'static str,
    told: Option<Markup>,
}

impl Field {
    fn new(name: &'static str, label: String, kind: Kind) -> Self {
        Self {
            name: name.into(),
            label,
            hint: None,
            kind,
            need: Need::Required,
            autocomplete: "off",
            told: None,
        }
    }

    pub fn text(name: &'static str, label: String) -> Self {
        Self::new(name, label, Kind::Input("text"))
    }

    /// A search box, for numbers.
    pub fn search(name: &'static str, label: String) -> Self {
        Self::new(name, label, Kind::Input("search"))
    }

    pub fn email(name: &'static str, label: String) -> Self {
        Self::new(name, label, Kind::Input("email"))
    }

    pub fn number(name: &'static str, label: String) -> Self {
        Self::new(name, label, Kind::Input("number"))
    }

    /// A date, as `2026-01-15`.
    pub fn date(name: &'static str, label: String) -> Self {
        Self::new(name, label, Kind::Input("date"))
    }

    /// A time in the reader's zone, as `2026-01-15T10:30`.
    pub fn moment(name: &'static str, label: String) -> Self {
        Self::new(name, label, Kind::Input("datetime-local"))
    }

    /// A password. `autocomplete` tells password managers its role: `current-password` or `new-password`.
    pub fn password(name: &'static str, label: String, autocomplete: &'static str) -> Self {
        Self::new(name, label, Kind::Password).autocomplete(autocomplete)
    }

    pub fn area(name: &'static str, label: String, rows: u8) -> Self {
        Self::new(name, label, Kind::Area { rows, code: false })
    }

    pub fn code(name: &'static str, label: String, rows: u8) -> Self {
        Self::new(name, label, Kind::Area { rows, code: true })
    }

    /// One of several options, each with value and name.
    pub fn select(name: &'static str, label: String, options: Vec<(String, String)>) -> Self {
        Self::new(name, label, Kind::Select(options))
    }

    /// Any number of options, each with value and name.
    pub fn boxes(name: &'static str, label: String, options: Vec<(String, String)>) -> Self {
        Self::new(name, label, Kind::Boxes(options))
    }

    /// A check box, ticked if the value is `true`.
    pub fn switch(name: &'static str, label: String) -> Self {
        Self::new(name, label, Kind::Switch).optional()
    }

    /// True if the form has a value for it.
    pub fn is_set(&self, filled: &FormState) -> bool {
        !filled.text(&self.name).is_empty()
    }

    /// The same field by another name, for inputs whose number varies.
    pub fn named(mut self, name: String) -> Self {
        self.name = name.into();
        self
    }

    /// A help text.
    pub fn hint(mut self, hint: String) -> Self {
        self.hint = Some(hint);
        self
    }

    /// Marks the field as optional.
    pub fn optional(mut self) -> Self {
        self.need = Need::Optional;
        self
    }

    /// Marks the field as a list's filter, which is optional without saying so.
    pub fn filter(mut self) -> Self {
        self.need = Need::Filter;
        self
    }

    /// A richer description of the field's errors than their sentences.
    pub fn told_as(mut self, told: Markup) -> Self {
        self.told = Some(told);
        self
    }

    /// The value of HTML's `autocomplete` attribute.
    pub fn autocomplete(mut self, autocomplete: &'static str) -> Self {
        self.autocomplete = autocomplete;
        self
    }

    /// The filled field.
    pub fn show(&self, view: &View, filled: &FormState) -> Markup {
        let own = filled.errors_of(&self.name).collect::<Vec<_>>();
        let id = format!("f-{}", self.name);
        let told = InputContext {
            described_by: self.described_by(&id, !own.is_empty()),
            is_wrong: !own.is_empty(),
            is_first: filled
                .errors()
                .first()
                .is_some_and(|first| faults::input_of(&first.field) == self.name),
            id,
        };
        let errors = html! {
            @if !own.is_empty() {
                div.error id={ (told.id) "-error" } {
                    @match &self.told {
                        Some(told) => (told),
                        None => { @for error in &own { p { (faults::told(view, error)) } } },
                    }
                }
            }
        };
        let hint = html! {
            @if let Some(hint) = &self.hint { p.hint id={ (told.id) "-hint" } { (hint) } }
        };
        match &self.kind {
            Kind::Switch => html! {
                div.field.wrong[told.is_wrong] {
                    label.tick { (self.tick(&told, filled, "true")) span { (self.label) } }
                    (hint) (errors)
                }
            },
            Kind::Boxes(options) => html! {
                fieldset.field.wrong[told.is_wrong] id=(told.id) tabindex="-1" aria-describedby=[told.described_by.as_deref()] {
                    legend { (self.label) }
                    (hint) (errors)
                    @for (value, name) in options {
                        label.tick { (self.tick_one(&told, filled, value)) span { (name) } }
                    }
                }
            },
            _ => html! {
                div.field.wrong[told.is_wrong] {
                    label for=(told.id) {
                        (self.label)
                        @if self.need == Need::Optional { " " span.muted { "(" (view.t("page-optional")) ")" } }
                    }
                    (hint) (errors)
                    (self.input(view, &told, filled))
                }
            },
        }
    }

    fn described_by(&self, id: &str, is_wrong: bool) -> Option<String> {
        let hint = self.hint.is_some().then(|| format!("{id}-hint"));
        let error = is_wrong.then(|| format!("{id}-error"));
        let both: Vec<String> = hint.into_iter().chain(error).collect();
        (!both.is_empty()).then(|| both.join(" "))
    }

    fn input(&self, view: &View, told: &InputContext, filled: &FormState) -> Markup {
        let invalid = told.is_wrong.then_some("true");
        let by = told.described_by.as_deref();
        let text = filled.text(&self.name);
        match &self.kind {
            Kind::Area { rows, code } => html! {
                textarea.code[*code] id=(told.id) name=(self.name) rows=(rows) required[self.need == Need::Required]
                    spellcheck=[code.then_some("false")] autofocus[told.is_first]
                    aria-invalid=[invalid] aria-describedby=[by] { "\n" (text) }
            },
            Kind::Select(options) => html! {
                select id=(told.id) name=(self.name) required[self.need == Need::Required] autocomplete=(self.autocomplete)
                    autofocus[told.is_first] aria-invalid=[invalid] aria-describedby=[by] {
                    @for (value, name) in options {
                        option value=(value) selected[value == text] { (name) }
                    }
                }
            },
            Kind::Password => html! {
                div.reveal {
                    input id=(told.id) name=(self.name) type="password" required[self.need == Need::Required] autocomplete=(self.autocomplete)
                        autofocus[told.is_first] aria-invalid=[invalid] aria-describedby=[by];
                    button.secondary type="button" data-reveal=(told.id) data-hide=(view.t("page-hide"))
                        aria-controls=(told.id) { (view.t("page-show")) }
                }
            },
            Kind::Input(kind) => html! {
                input id=(told.id) name=(self.name) type=(if is_held(kind, text) { kind } else { "text" }) value=(text) required[self.need == Need::Required]
                    autocomplete=(self.autocomplete) autofocus[told.is_first] aria-invalid=[invalid] aria-describedby=[by];
            },
            Kind::Switch | Kind::Boxes(_) => html! {},
        }
    }

    fn tick(&self, told: &InputContext, filled: &FormState, value: &str) -> Markup {
        let is_ticked = filled.is_ticked(&self.name, value);
        html! {
            input id=(told.id) name=(self.name) type="checkbox" value=(value) checked[is_ticked]
                aria-invalid=[told.is_wrong.then_some("true")] aria-describedby=[told.described_by.as_deref()];
        }
    }

    fn tick_one(&self, told: &InputContext, filled: &FormState, value: &str) -> Markup {
        let error = told.is_wrong.then(|| format!("{}-error", told.id));
        html! {
            input name=(self.name) type="checkbox" value=(value) checked[filled.is_ticked(&self.name, value)]
                aria-invalid=[told.is_wrong.then_some("true")] aria-describedby=[error];
        }
    }
}

/// True if an input of this kind can show the text. A browser would leave it blank otherwise, and the typed value
/// would be lost.
fn is_held(kind: &str, text: &str) -> bool {
    match kind {
        _ if text.is_empty() => true,
        "date" => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
        "datetime-local" => {
            matches!(text.len(), 16 | 19)
                && text.as_bytes()[10] == b'T'
                && text.parse::<jiff::civil::DateTime>().is_ok()
        }
        "number" => text.parse::<i64>().is_ok(),
        _ => true,
    }
}

/// Attributes that connect an input with its surroundings.
struct InputContext {
    id: String,
    described_by: Option<String>,
    is_wrong: bool,
    is_first: bool,
}

/// A hidden user name, which tells password managers whose password a form contains.
pub fn username(email: &str) -> Markup {
    html! {
        input.unseen type="text" name="username" autocomplete="username" value=(email) readonly tabindex="-1" aria-hidden="true";
    }
}

/// A form's button.
pub fn submit(label: &str) -> Markup {
    html! { div.actions { button type="submit" { (label) } } }
}

/// The content of an empty list, with an action.
pub fn empty(title: &str, words: &str, action: Markup) -> Markup {
    html! { div.empty { p { strong { (title) } } p { (words) } (action) } }
}

/// The severity of a notice or badge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Good,
    Warning,
    Bad,
}

impl Tone {
    const fn class(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Good => "good",
            Self::Warning => "warning",
            Self::Bad => "bad",
        }
    }
}

/// A notice at the top of a page.
pub fn notice(tone: Tone, content: impl Render) -> Markup {
    html! { div.notice.(tone.class()) { (content) } }
}

/// A status word.
pub fn badge(tone: Tone, word: &str) -> Markup {
    html! { span.badge.(tone.class()) { (word) } }
}

/// A text to be copied whole, such as a key. `name` describes it to screen readers.
pub fn copyable(view: &View, id: &str, name: &str, text: &str) -> Markup {
    html! {
        div.copyable {
            code #(id) tabindex="0" aria-label=(name) { (text) }
            button.secondary type="button" data-copy=(id) data-copied=(view.t("page-copied")) {
                (view.t("page-copy"))
            }
        }
    }
}

/// A confirmation page of an irreversible action: its consequences, a button, and a link back.
#[derive(Debug)]
pub struct Question<'a> {
    /// The path that the button posts to.
    pub path: &'a str,
    pub consequences: Markup,
    pub yes: String,
    /// The path of the link back.
    pub back: &'a str,
}

impl Question<'_> {
    /// The confirmation as a page's content.
    pub fn show(&self, view: &View) -> Markup {
        post(
            view,
            self.path,
            html! {
                div.question { (self.consequences) }
                div.actions {
                    button.danger type="submit" { (self.yes) }
                    a.button.secondary href=(self.back) { (view.t("page-cancel")) }
                }
            },
        )
    }
}

/// Links to the next and the previous page of a list, if they exist.
pub fn paging(view: &View, newer: Option<&str>, older: Option<&str>) -> Markup {
    let ids = ("page-newer", "page-older");
    paging_as(view, ids, newer, older)
}

/// The same with other names, given as message ids.
pub fn paging_as(
    view: &View,
    (newer_id, older_id): (&str, &str),
    newer: Option<&str>,
    older: Option<&str>,
) -> Markup {
    html! {
        @if newer.is_some() || older.is_some() {
            nav.paging aria-label=(view.t("page-paging")) {
                @if let Some(path) = newer { a.button.secondary href=(path) rel="prev" { (view.t(newer_id)) } }
                @if let Some(path) = older { a.button.secondary href=(path) rel="next" { (view.t(older_id)) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::is_held;

    #[rstest]
    #[case("date", "", true)]
    #[case("date", "2026-01-15", true)]
    #[case("date", "2026-02-30", false)]
    #[case("date", "tomorrow", false)]
    #[case("date", "2026-01-15T03:30:00Z", false)]
    #[case("datetime-local", "2026-01-15T03:30", true)]
    #[case("datetime-local", "2026-01-15 03:30", false)]
    #[case("datetime-local", "2026-01-15T03:30:00Z", false)]
    #[case("number", "15", true)]
    #[case("number", "a few", false)]
    #[case("email", "sari", true)]
    fn what_an_input_does_not_hold_is_text(
        #[case] kind: &str,
        #[case] text: &str,
        #[case] is_input: bool,
    ) {
        assert_eq!(is_held(kind, text), is_input);
    }
}
