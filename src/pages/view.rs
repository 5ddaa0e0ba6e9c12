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
    cross_site::FormTokens,
    format::{self, Zone},
    lang::Lang,
};
use crate::http::error::ApiError;

/// A reader's language and time zone.
#[derive(Clone, Debug)]
pub struct ReaderSettings {
    pub lang: Lang,
    pub zone: Zone,
}

/// The context of any page.
#[derive(Clone, Debug)]
pub struct View(Rc<Parts>);

#[derive(Debug)]
struct Parts {
    base: &'static str,
    reader: ReaderSettings,
    now: Millis,
    path: String,
    tokens: FormTokens,
    done: Option<String>,
}

/// The word in the address that names the completed post's confirmation.
pub fn done_word(request: &HttpRequest) -> Option<String> {
    let mut query = url::form_urlencoded::parse(request.query_string().as_bytes());
    let (_, word) = query.find(|(name, _)| name == "done")?;
    Some(word.into_owned())
}

impl View {
    /// The context of a request to a room with this base path. `done` is the confirmation of the post that led
    /// here.
    pub fn new(
        base: &'static str,
        request: &HttpRequest,
        reader: ReaderSettings,
        now: Millis,
        tokens: FormTokens,
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

    /// The room's base path, without a trailing slash.
    pub fn room(&self) -> &'static str {
        self.0.base
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
    /// its message id, which begins with `done-`.
    pub fn see(&self, path: &str, done: &'static str) -> HttpResponse {
        let word = done.trim_start_matches("done-");
        self.go(&format!("{path}?done={word}"))
    }

    /// A redirect (303) to another page.
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
