//! Who looks at a page, and what it reaches besides what [every page](crate::pages::view) is written with.

use std::{
    future::{Ready, ready},
    net::IpAddr,
    ops::Deref,
    rc::Rc,
};

use actix_web::{
    FromRequest, HttpMessage, HttpRequest, dev::Payload, http::header::ACCEPT_LANGUAGE, web::Data,
};
use dikala_entities::{Actor, Role, Secret, Store, TenantId, UserId};
use sea_orm::DbErr;

use super::{
    cross_site::Tokens,
    format::Zone,
    kit::Kit,
    lang::Lang,
    session::{self, Person},
};
use crate::{
    api::context::Services,
    audit::Origin,
    http::{error::ApiError, extract::Caller, request_id::current_request_id},
    pages::{
        headers::header,
        view::{Reader, View as Page, done_word},
    },
};

/// What any page is written with. Handlers of pages for everybody take it; those for who is signed in take a [`Visit`].
#[derive(Clone, Debug)]
pub struct View {
    page: Page,
    parts: Rc<Parts>,
}

#[derive(Debug)]
struct Parts {
    kit: Data<Kit>,
    base: String,
    address: IpAddr,
}

impl Deref for View {
    type Target = Page;

    fn deref(&self) -> &Page {
        &self.page
    }
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
        let zone = Zone::chosen(person.and_then(|person| person.time_zone.as_deref()));
        let done = done_word(request).and_then(|word| lang.find(&format!("done-{word}"), &[]));
        let now = kit.services.clock.now();
        let reader = Reader { lang, zone };
        Self {
            page: Page::new(super::BASE, request, reader, now, tokens, done),
            parts: Rc::new(Parts {
                kit: kit.clone(),
                base: kit.base_for(request),
                address: kit.address(request),
            }),
        }
    }

    /// What every page can reach.
    pub fn kit(&self) -> &Kit {
        &self.parts.kit
    }

    /// What the API's handlers work with.
    pub fn services(&self) -> Data<Services> {
        self.parts.kit.services.clone()
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.parts.kit.services.store
    }

    /// What links begin with that are passed on, without a slash at the end.
    pub fn base(&self) -> &str {
        &self.parts.base
    }

    /// That person as who changes something with this request, for the audit.
    pub fn origin_of(&self, person: UserId) -> Origin {
        Origin {
            actor: Actor::User(person),
            address: Some(self.parts.address),
            request_id: Some(current_request_id()),
            node: self.kit().services.http.member.name().clone(),
        }
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
        session::is_in_force(self.store().reader(), &self.person.session, now).await
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
