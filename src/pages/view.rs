//! The context of a page: language, time zone, and CSRF tokens.

use std::{
    future::{Ready, ready},
    rc::Rc,
};

use actix_web::{
    FromRequest, HttpMessage, HttpRequest, HttpResponse, dev::Payload, http::header::LOCATION,
};
use dikala_entities::Millis;
use fluent_bundle::FluentValue;
use maud::{Markup, html};

use super::{
    audience::PageAudience,
    cross_site::FormTokens,
    format::{self, Zone},
    lang::Lang,
};
use crate::http::error::ApiError;

/// The first of the characters that mark the places of elements in a text. No text contains them.
const FIRST_MARK: char = '\u{e000}';

/// A reader's language and time zone, and the account if the reader is signed in.
#[derive(Debug)]
pub struct ReaderSettings {
    pub lang: Lang,
    pub zone: Zone,
    pub account: Option<PageAccount>,
}

/// A signed-in reader, as the navigation shows one.
#[derive(Debug)]
pub struct PageAccount {
    /// The tenant or node whose data are shown.
    pub scope: String,
    /// The person, or the access right.
    pub label: Markup,
    /// True for a person, whose account opens as a menu.
    pub is_person: bool,
    pub can_sign_out: bool,
    pub may_change: bool,
    /// The number of alarms in the title and beside the home page, with its message.
    pub alarms: Option<(usize, &'static str)>,
}

/// The context of any page.
#[derive(Clone, Debug)]
pub struct View(Rc<Parts>);

#[derive(Debug)]
struct Parts {
    audience: &'static PageAudience,
    reader: ReaderSettings,
    now: Millis,
    path: String,
    tokens: FormTokens,
    done: Option<String>,
}

/// The confirmation that the word in the address names.
fn confirmation(audience: &PageAudience, request: &HttpRequest, lang: Lang) -> Option<String> {
    let mut query = url::form_urlencoded::parse(request.query_string().as_bytes());
    let (_, word) = query.find(|(name, _)| name == "done")?;
    lang.find(&format!("{}{word}", audience.messages.done), &[])
}

impl View {
    /// The context of a request to a page of this audience.
    pub fn new(
        audience: &'static PageAudience,
        request: &HttpRequest,
        reader: ReaderSettings,
        now: Millis,
        tokens: FormTokens,
    ) -> Self {
        Self(Rc::new(Parts {
            audience,
            done: confirmation(audience, request, reader.lang),
            reader,
            now,
            path: request.path().to_owned(),
            tokens,
        }))
    }

    pub fn audience(&self) -> &'static PageAudience {
        self.0.audience
    }

    /// The account of a signed-in reader.
    pub fn account(&self) -> Option<&PageAccount> {
        self.0.reader.account.as_ref()
    }

    /// True if the reader may change things. Middleware refuses such posts otherwise.
    pub fn may_change(&self) -> bool {
        self.account().is_some_and(|account| account.may_change)
    }

    /// The time of the request.
    pub fn now(&self) -> Millis {
        self.0.now
    }

    pub fn lang(&self) -> Lang {
        self.0.reader.lang
    }

    pub fn zone(&self) -> &Zone {
        &self.0.reader.zone
    }

    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// A CSRF token for one form.
    pub fn token(&self) -> String {
        self.0.tokens.make()
    }

    /// True if the token comes from a form of this browser.
    pub fn knows(&self, token: &str) -> bool {
        self.0.tokens.know(token)
    }

    /// The confirmation of the post that led here.
    pub fn done(&self) -> Option<&str> {
        self.0.done.as_deref()
    }

    pub fn t(&self, id: &str) -> String {
        self.lang().t(id)
    }

    /// The text of a message with its variables filled in.
    pub fn tn(&self, id: &str, values: &[(&'static str, FluentValue<'_>)]) -> String {
        self.lang().tn(id, values)
    }

    /// The columns of a table, from a message that lists them with `|` between.
    pub fn columns(&self, id: &str) -> Vec<String> {
        self.t(id).split(" | ").map(str::to_owned).collect()
    }

    /// The text of a message with elements as its values. Words between backticks become code.
    pub fn rich(&self, id: &str, values: &[(&'static str, Markup)]) -> Markup {
        let marks = FIRST_MARK..=char::MAX;
        let marked: Vec<(char, &(&'static str, Markup))> = marks.zip(values).collect();
        let args: Vec<(&'static str, FluentValue<'_>)> = marked
            .iter()
            .map(|(mark, (name, _))| (*name, mark.to_string().into()))
            .collect();
        let places: Vec<(char, &Markup)> =
            marked.iter().map(|(mark, (_, it))| (*mark, it)).collect();
        placed(&self.tn(id, &args), &places)
    }

    /// A text with elements in the places of these characters. Words between backticks become code.
    pub fn linked(&self, text: &str, elements: &[(char, Markup)]) -> Markup {
        let places: Vec<(char, &Markup)> = elements.iter().map(|(mark, it)| (*mark, it)).collect();
        placed(text, &places)
    }

    /// A number in the reader's language.
    pub fn number(&self, value: i64) -> String {
        format::number(self.lang(), value)
    }

    /// Whole rupiah in the reader's language.
    pub fn rupiah(&self, value: i64) -> String {
        format::rupiah(self.lang(), value)
    }

    /// A time in the reader's zone, with UTC as its tooltip.
    pub fn time(&self, at: Millis) -> Markup {
        let text = self.zone().moment(self.lang(), at);
        html! { time datetime=(at) title=(format::utc(at)) { (text) } }
    }

    /// As [`Self::time`], or `otherwise` if there is no time.
    pub fn time_or(&self, at: Option<Millis>, otherwise: &str) -> Markup {
        match at {
            Some(at) => self.time(at),
            None => html! { span.muted { (otherwise) } },
        }
    }

    /// The answer to a successful post: a redirect to the page at `path`, which shows the confirmation. `done` is
    /// its message id.
    pub fn see(&self, path: &str, done: &'static str) -> HttpResponse {
        let word = done.trim_start_matches(self.audience().messages.done);
        self.go(&format!("{path}?done={word}"))
    }

    /// A redirect (303) to another page.
    pub fn go(&self, path: &str) -> HttpResponse {
        HttpResponse::SeeOther()
            .insert_header((LOCATION, path))
            .finish()
    }
}

/// A text with elements in the places of their marks. Words between backticks become code.
fn placed(text: &str, marked: &[(char, &Markup)]) -> Markup {
    let element = |sign: char| marked.iter().find(|(mark, _)| *mark == sign);
    let is_mark = |sign: char| element(sign).is_some();
    html! {
        @for (nth, words) in text.split('`').enumerate() {
            @if nth % 2 == 1 { code { (words) } }
            @else {
                @for piece in words.split_inclusive(is_mark) {
                    (piece.trim_end_matches(is_mark))
                    @if let Some((_, element)) = piece.chars().next_back().and_then(element) { (element) }
                }
            }
        }
    }
}

impl FromRequest for View {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let view = request.extensions().get::<Self>().cloned();
        ready(view.ok_or(ApiError::Internal))
    }
}

#[cfg(test)]
pub mod tests {
    use dikala_entities::SESSION_SCHEME;

    use super::*;
    use crate::pages::audience::AudienceMessages;

    static NOBODY: PageAudience = PageAudience {
        brand: "",
        wide: false,
        base: "/room",
        home: "/room",
        sign_in: "",
        sign_out: "",
        pages: &[],
        search: None,
        groups: &[],
        belong: &[],
        messages: AudienceMessages {
            done: "done-",
            home: "",
            foreign: ("", ""),
            view_only: "",
        },
    };

    /// The view of a signed-out reader.
    pub fn view_in(lang: Lang) -> View {
        let reader = ReaderSettings {
            lang,
            zone: Zone::utc(),
            account: None,
        };
        let request = actix_web::test::TestRequest::default().to_http_request();
        let tokens = FormTokens::of(&SESSION_SCHEME.generate());
        View::new(&NOBODY, &request, reader, Millis::from_i64(0), tokens)
    }

    #[test]
    fn elements_stand_in_texts_and_texts_stay_escaped() {
        let view = view_in(Lang::En);
        let name = html! { strong { ("A & \u{e000}") } };
        let said = view.rich("members-remove-of", &[("name", name)]);
        assert_eq!(
            said.into_string(),
            "Remove <strong>A &amp; \u{e000}</strong>"
        );
        let said = view.rich("console-view-only-words", &[]).into_string();
        assert!(said.contains("<code>operator.token</code> to"), "{said}");
    }
}
