//! What a page is written with: in which language and time zone it is read, and the tokens of its forms.

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
    cross_site::Tokens,
    format::{self, Zone},
    lang::Lang,
};
use crate::http::error::ApiError;

/// How somebody reads pages.
#[derive(Clone, Debug)]
pub struct Reader {
    pub lang: Lang,
    pub zone: Zone,
}

/// What any page is written with.
#[derive(Clone, Debug)]
pub struct View(Rc<Parts>);

#[derive(Debug)]
struct Parts {
    base: &'static str,
    reader: Reader,
    now: Millis,
    path: String,
    tokens: Tokens,
    done: Option<String>,
}

/// The word for what the post did that led to a page.
pub fn done_word(request: &HttpRequest) -> Option<String> {
    let mut query = url::form_urlencoded::parse(request.query_string().as_bytes());
    let (_, word) = query.find(|(name, _)| name == "done")?;
    Some(word.into_owned())
}

impl View {
    /// For a request to one of the pages whose paths begin with `base`. `done` is what the post did that led here, in words.
    pub fn new(
        base: &'static str,
        request: &HttpRequest,
        reader: Reader,
        now: Millis,
        tokens: Tokens,
        done: Option<String>,
    ) -> Self {
        Self(Rc::new(Parts {
            base,
            reader,
            now,
            path: request.path().to_owned(),
            tokens,
            done,
        }))
    }

    /// What the paths of all pages begin with, without a slash at the end.
    pub fn room(&self) -> &'static str {
        self.0.base
    }

    /// The moment at which the request came.
    pub fn now(&self) -> Millis {
        self.0.now
    }

    /// The language.
    pub fn lang(&self) -> Lang {
        self.0.reader.lang
    }

    /// The time zone.
    pub fn zone(&self) -> &Zone {
        &self.0.reader.zone
    }

    /// The path of the page.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// A token for one form.
    pub fn token(&self) -> String {
        self.0.tokens.make()
    }

    /// What the post did that led here, in words.
    pub fn done(&self) -> Option<&str> {
        self.0.done.as_deref()
    }

    /// The text of a message.
    pub fn t(&self, id: &str) -> String {
        self.lang().t(id)
    }

    /// The text of a message with what stands in it.
    pub fn tn(&self, id: &str, values: &[(&'static str, FluentValue<'_>)]) -> String {
        self.lang().tn(id, values)
    }

    /// A number as the language writes it.
    pub fn number(&self, value: i64) -> String {
        format::number(self.lang(), value)
    }

    /// Whole rupiah as the language writes them.
    pub fn rupiah(&self, value: i64) -> String {
        format::rupiah(self.lang(), value)
    }

    /// A moment in the reader's zone, with UTC where the mouse rests on it.
    pub fn time(&self, at: Millis) -> Markup {
        let text = self.zone().moment(self.lang(), at);
        html! { time datetime=(at) title=(format::utc(at)) { (text) } }
    }

    /// The same, or a word where there is none.
    pub fn time_or(&self, at: Option<Millis>, otherwise: &str) -> Markup {
        match at {
            Some(at) => self.time(at),
            None => html! { span.muted { (otherwise) } },
        }
    }

    /// The answer to a post that did what it was asked for: the page at `path`, which says so. `done` is the name of that message,
    /// which begins with `done-`.
    pub fn see(&self, path: &str, done: &'static str) -> HttpResponse {
        let word = done.trim_start_matches("done-");
        self.go(&format!("{path}?done={word}"))
    }

    /// The answer that leads to another page.
    pub fn go(&self, path: &str) -> HttpResponse {
        HttpResponse::SeeOther()
            .insert_header((LOCATION, path))
            .finish()
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
