//! The context of a dashboard page, besides what [every page](crate::pages::view) has.

use std::{
    future::{Ready, ready},
    net::IpAddr,
    ops::Deref,
    rc::Rc,
};

use actix_web::{FromRequest, HttpMessage, HttpRequest, dev::Payload, web::Data};
use dikala_entities::{Actor, Role, Secret, Store, TenantId, UserId};
use maud::html;
use sea_orm::DbErr;

use super::{
    audience::DASHBOARD,
    cross_site::FormTokens,
    format::Zone,
    lang::Lang,
    session::{self, Person},
    state::DashboardState,
};
use crate::{
    api::context::Services,
    audit::ChangeOrigin,
    http::{error::ApiError, request_id::current_request_id},
    operations::{OperationContext, Principal},
    pages::view::{PageAccount, ReaderSettings, View as Page},
};

/// The context of any page. Handlers of public pages take it; those of pages for signed-in people take a [`SignedIn`].
#[derive(Clone, Debug)]
pub struct DashboardView {
    page: Page,
    parts: Rc<Parts>,
}

#[derive(Debug)]
struct Parts {
    state: Data<DashboardState>,
    base: String,
    address: IpAddr,
}

fn account(person: &Person) -> PageAccount {
    PageAccount {
        alarms: None,
        scope: person.tenant_name.clone(),
        label: html! { strong { (person.name) } " " span.muted { (person.email) } },
        is_person: true,
        can_sign_out: true,
        may_change: person.role == Role::Owner,
    }
}

impl Deref for DashboardView {
    type Target = Page;

    fn deref(&self) -> &Page {
        &self.page
    }
}

impl DashboardView {
    /// The view for a request by this person, if anybody is signed in.
    pub fn new(
        state: &Data<DashboardState>,
        request: &HttpRequest,
        person: Option<&Person>,
        tokens: FormTokens,
    ) -> Self {
        let chosen = person.and_then(|person| person.language.as_deref());
        let reader = ReaderSettings {
            lang: Lang::of(request.headers(), chosen),
            zone: Zone::chosen(person.and_then(|person| person.time_zone.as_deref())),
            account: person.map(account),
        };
        let now = state.services.clock.now();
        Self {
            page: Page::new(&DASHBOARD, request, reader, now, tokens),
            parts: Rc::new(Parts {
                state: state.clone(),
                base: state.base_for(request),
                address: state.address(request),
            }),
        }
    }

    pub fn state(&self) -> &DashboardState {
        &self.parts.state
    }

    /// The API's services.
    pub fn services(&self) -> Data<Services> {
        self.parts.state.services.clone()
    }

    pub fn store(&self) -> &Store {
        &self.parts.state.services.store
    }

    /// Prefix of absolute links, without a trailing slash.
    pub fn base(&self) -> &str {
        &self.parts.base
    }

    /// This person as the author of a change, for the audit log.
    pub fn origin_of(&self, person: UserId) -> ChangeOrigin {
        ChangeOrigin {
            actor: Actor::User(person),
            address: Some(self.parts.address),
            request_id: Some(current_request_id()),
            node: self.state().services.http.member.name().clone(),
        }
    }
}

/// A [`DashboardView`] with the signed-in person.
#[derive(Clone, Debug)]
pub struct SignedIn {
    view: DashboardView,
    person: Rc<Person>,
}

impl Deref for SignedIn {
    type Target = DashboardView;

    fn deref(&self) -> &DashboardView {
        &self.view
    }
}

impl SignedIn {
    pub fn new(view: DashboardView, person: Person) -> Self {
        Self {
            view,
            person: Rc::new(person),
        }
    }

    pub fn person(&self) -> &Person {
        &self.person
    }

    /// The tenant; every read starts from it.
    pub fn tenant(&self) -> TenantId {
        self.person.tenant
    }

    /// True if this person may change things.
    pub fn is_owner(&self) -> bool {
        self.may_change()
    }

    /// The context of an operation.
    pub fn operation(&self) -> OperationContext {
        let principal = Principal::Person {
            tenant: self.person.tenant,
            user: self.person.id,
            role: self.person.role,
        };
        let resources = self.services().operations.clone();
        OperationContext::new(resources, principal, self.origin())
    }

    /// The person as the author of a change, for the audit log.
    pub fn origin(&self) -> ChangeOrigin {
        self.view.origin_of(self.person.id)
    }

    /// True if the session is still active. Does not extend the session, so work that outlives the request can use
    /// it.
    pub async fn is_signed_in(&self) -> Result<bool, DbErr> {
        let now = self.services().clock.now();
        session::is_in_force(self.store().reader(), &self.person.session, now).await
    }

    /// Stores a secret that the next page takes once by this key.
    pub async fn leave_note(&self, about: &str, text: &Secret) -> Result<(), ApiError> {
        let vault = &self.state().services.vault;
        let left = session::leave_note(self.store(), vault, &self.person, about, text, self.now());
        Ok(left.await?)
    }

    /// Takes the secret stored under this key.
    pub async fn take_note(&self, about: &str) -> Result<Option<Secret>, ApiError> {
        let vault = &self.state().services.vault;
        let taken = session::take_note(self.store(), vault, &self.person, about, self.now());
        Ok(taken.await?)
    }
}

impl FromRequest for DashboardView {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let view = request.extensions().get::<Self>().cloned();
        ready(view.ok_or(ApiError::Internal))
    }
}

impl FromRequest for SignedIn {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let visit = request.extensions().get::<Self>().cloned();
        ready(visit.ok_or(ApiError::Internal))
    }
}
