//! What a page is written with: who looks at it, in which language and time zone, and the tokens of its forms.

use std::{
    future::{Ready, ready},
    net::IpAddr,
    ops::Deref,
    rc::Rc,
};

use actix_web::{
    FromRequest, HttpMessage, HttpRequest, HttpResponse,
    dev::Payload,
    http::header::{ACCEPT_LANGUAGE, LOCATION},
    web::Data,
};
use dikala_entities::{Actor, Millis, Role, Secret, Store, TenantId, UserId};
use fluent_bundle::FluentValue;
use maud::{Markup, html};
use sea_orm::DbErr;

use super::{
    cross_site::Tokens,
    format::{self, Zone},
    kit::{Kit, header},
    lang::Lang,
    session::{self, Person},
};
use crate::{
    api::context::Services,
    audit::Origin,
    http::{error::ApiError, extract::Caller, request_id::current_request_id},
};

/// What any page is written with. Handlers of pages for everybody take it; those for who is signed in take a [`Visit`].
#[derive(Clone, Debug)]
pub struct View(Rc<Parts>);

#[derive(Debug)]
struct Parts {
    kit: Data<Kit>,
    lang: Lang,
    zone: Zone,
    now: Millis,
    path: String,
    base: String,
    tokens: Tokens,
    done: Option<String>,
    address: IpAddr,
}

impl View {
    /// For a request, and who is signed in by it.
    pub fn new(
        kit: &Data<Kit>,
        request: &HttpRequest,
        person: Option<&Person>,
        tokens: Tokens,
    ) -> Self {
        let chosen = person.and_then(|person| person.language.as_deref());
        let accepted = header(request.headers(), &ACCEPT_LANGUAGE).unwrap_or_default();
        let lang = chosen.and_then(Lang::parse);
        let lang = lang.unwrap_or_else(|| Lang::preferred(accepted));
        let query = url::form_urlencoded::parse(request.query_string().as_bytes());
        let done = query
            .into_iter()
            .find(|(name, _)| name == "done")
            .and_then(|(_, word)| lang.find(&format!("done-{word}"), &[]));
        Self(Rc::new(Parts {
            kit: kit.clone(),
            lang,
            zone: Zone::chosen(person.and_then(|person| person.time_zone.as_deref())),
            now: kit.services.clock.now(),
            path: request.path().to_owned(),
            base: kit.base_for(request),
            address: kit.address(request),
            tokens,
            done,
        }))
    }

    /// What every page can reach.
    pub fn kit(&self) -> &Kit {
        &self.0.kit
    }

    /// What the API's handlers work with.
    pub fn services(&self) -> Data<Services> {
        self.0.kit.services.clone()
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.0.kit.services.store
    }

    /// The moment at which the request came.
    pub fn now(&self) -> Millis {
        self.0.now
    }

    /// The language.
    pub fn lang(&self) -> Lang {
        self.0.lang
    }

    /// The time zone.
    pub fn zone(&self) -> &Zone {
        &self.0.zone
    }

    /// The path of the page.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// What links begin with that are passed on, without a slash at the end.
    pub fn base(&self) -> &str {
        &self.0.base
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
        self.0.lang.t(id)
    }

    /// The text of a message with what stands in it.
    pub fn tn(&self, id: &str, values: &[(&'static str, FluentValue<'_>)]) -> String {
        self.0.lang.tn(id, values)
    }

    /// A number as the language writes it.
    pub fn number(&self, value: i64) -> String {
        format::number(self.0.lang, value)
    }

    /// Whole rupiah as the language writes them.
    pub fn rupiah(&self, value: i64) -> String {
        format::rupiah(self.0.lang, value)
    }

    /// A moment in the reader's zone, with UTC where the mouse rests on it.
    pub fn time(&self, at: Millis) -> Markup {
        let text = self.0.zone.moment(self.0.lang, at);
        html! { time datetime=(at) title=(format::utc(at)) { (text) } }
    }

    /// The same, or a word where there is none.
    pub fn time_or(&self, at: Option<Millis>, otherwise: &str) -> Markup {
        match at {
            Some(at) => self.time(at),
            None => html! { span.muted { (otherwise) } },
        }
    }

    /// That person as who changes something with this request, for the audit.
    pub fn origin_of(&self, person: UserId) -> Origin {
        Origin {
            actor: Actor::User(person),
            address: Some(self.0.address),
            request_id: Some(current_request_id()),
            node: self.kit().services.http.node.clone(),
        }
    }

    /// The answer to a post that did what it was asked for: the page at `path`, which says so. `done` is the name of that message,
    /// which begins with `done-`.
    pub fn see(&self, path: &str, done: &'static str) -> HttpResponse {
        let word = done.trim_start_matches("done-");
        HttpResponse::SeeOther()
            .insert_header((LOCATION, format!("{path}?done={word}")))
            .finish()
    }

    /// The answer that leads to another page.
    pub fn go(&self, path: &str) -> HttpResponse {
        HttpResponse::SeeOther()
            .insert_header((LOCATION, path))
            .finish()
    }
}

/// A [`View`] with who is signed in.
#[derive(Clone, Debug)]
pub struct Visit {
    view: View,
    person: Rc<Person>,
}

impl Deref for Visit {
    type Target = View;

    fn deref(&self) -> &View {
        &self.view
    }
}

impl Visit {
    /// Somebody who is signed in.
    pub fn new(view: View, person: Person) -> Self {
        Self {
            view,
            person: Rc::new(person),
        }
    }

    /// Who is signed in.
    pub fn person(&self) -> &Person {
        &self.person
    }

    /// Whose data are shown; every read begins with it.
    pub fn tenant(&self) -> TenantId {
        self.person.tenant
    }

    /// Whether this person may change things.
    pub fn is_owner(&self) -> bool {
        self.person.role == Role::Owner
    }

    /// Who asks, for a handler of the API.
    pub fn caller(&self) -> Caller {
        Caller {
            tenant: self.person.tenant,
            origin: self.origin(),
            claim: None,
        }
    }

    /// Who changes something, for the audit.
    pub fn origin(&self) -> Origin {
        self.view.origin_of(self.person.id)
    }

    /// Whether the session is still in force, without counting as a use of it: for what goes on after the request.
    pub async fn is_signed_in(&self) -> Result<bool, DbErr> {
        let now = self.services().clock.now();
        session::is_in_force(self.store(), &self.person.session, now).await
    }

    /// Keeps a secret for the next page that asks for it by this name, and for that one only.
    pub async fn leave_note(&self, about: &str, text: &Secret) -> Result<(), ApiError> {
        let vault = &self.kit().services.vault;
        let left = session::leave_note(self.store(), vault, &self.person, about, text, self.now());
        Ok(left.await?)
    }

    /// Takes what was kept by this name.
    pub async fn take_note(&self, about: &str) -> Result<Option<Secret>, ApiError> {
        let vault = &self.kit().services.vault;
        let taken = session::take_note(self.store(), vault, &self.person, about, self.now());
        Ok(taken.await?)
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

impl FromRequest for Visit {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let visit = request.extensions().get::<Self>().cloned();
        ready(visit.ok_or(ApiError::Internal))
    }
}
