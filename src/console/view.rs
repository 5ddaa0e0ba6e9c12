//! The context of a console page, besides what [every page](crate::pages::view) has.

use std::{
    cell::RefCell,
    future::{Ready, ready},
    ops::Deref,
    rc::Rc,
};

use actix_web::{
    FromRequest, HttpMessage, HttpRequest, dev::Payload, http::header::HeaderValue, web::Data,
};
use dikala_entities::{Millis, Secret, Store};
use maud::{Markup, html};

use super::{session::BrowserIdentity, state::ConsoleState};
use crate::{
    audit::ChangeOrigin,
    http::error::ApiError,
    operations::{OperationContext, Principal},
    operator_api::OperatorContext,
    pages::{format::utc, live, view::View},
};

/// A [`View`] with the browser's access right. Handlers of pages take it.
#[derive(Clone, Debug)]
pub struct ConsoleView(Rc<Parts>);

#[derive(Debug)]
struct Parts {
    view: View,
    state: Data<ConsoleState>,
    known: BrowserIdentity,
    origin: ChangeOrigin,
    /// Cookies to set in the answer.
    cookies: RefCell<Vec<HeaderValue>>,
}

impl Deref for ConsoleView {
    type Target = View;

    fn deref(&self) -> &View {
        &self.0.view
    }
}

impl ConsoleView {
    pub fn new(
        view: View,
        state: Data<ConsoleState>,
        known: BrowserIdentity,
        origin: ChangeOrigin,
    ) -> Self {
        Self(Rc::new(Parts {
            view,
            state,
            known,
            origin,
            cookies: RefCell::default(),
        }))
    }

    pub fn state(&self) -> &ConsoleState {
        &self.0.state
    }

    /// The context of the operators' API, the first parameter of its handlers.
    pub fn process(&self) -> Data<OperatorContext> {
        self.0.state.process.clone()
    }

    /// The name of this node.
    pub fn node(&self) -> String {
        self.0.state.process.node.member.name().to_string()
    }

    pub fn store(&self) -> &Store {
        &self.0.state.process.node.store
    }

    /// The context of an operation.
    pub fn operation(&self) -> OperationContext {
        let resources = self.0.state.process.operations.clone();
        OperationContext::new(resources, Principal::Operator, self.0.origin.clone())
    }

    /// The browser's identity.
    pub fn known(&self) -> &BrowserIdentity {
        &self.0.known
    }

    /// True if the session is still active. Does not extend the session, so work that outlives the request can use
    /// it.
    pub async fn still_may(&self) -> bool {
        let state = self.state();
        // Access by a token lasts as long as the process.
        self.0.known.session.is_none() || state.right(&self.0.known).await.is_some()
    }

    /// Stores a secret that the next page takes once by this key.
    pub fn leave_note(&self, about: &str, text: &Secret) {
        let vault = &self.process().node.vault;
        let note = self.0.known.leave_note(vault, about, text, self.now());
        self.0.cookies.borrow_mut().push(note);
    }

    /// Takes the secret stored under this key.
    pub fn take_note(&self, about: &str) -> Option<Secret> {
        let vault = &self.process().node.vault;
        let known = &self.0.known;
        let note = known.note(vault, about, self.now())?;
        self.0.cookies.borrow_mut().push(known.forget_note());
        Some(note)
    }

    /// Content with the live elements of this name, below the status of their updates. `more` is an encoded query,
    /// beginning with `&`.
    pub fn followed(&self, name: &str, more: &str, content: &Markup) -> Markup {
        html! {
            (live::sign(self))
            (live::followed(self, name, more, 0, content))
        }
    }

    /// A time with seconds, and with its day unless that is today. The zone is that of the page.
    pub fn precise(&self, at: Millis) -> Markup {
        let (lang, zone, now) = (self.lang(), self.zone(), self.state().now());
        let clock = zone.clock_with_seconds(lang, at);
        let text = match zone.date(at) == zone.date(now) {
            true => clock,
            false => format!("{} {clock}", zone.weekday(lang, at, now)),
        };
        html! { time datetime=(at) title=(utc(at)) { (text) } }
    }

    /// The day of a time, and the page's zone: `15 Jan 2026, UTC`.
    pub fn day(&self, at: Millis) -> Markup {
        let zone = self.zone();
        html! { (zone.day(self.lang(), at)) ", " (zone.short_name(at)) }
    }

    /// Cookies to set in the answer.
    pub fn cookies(&self) -> Vec<HeaderValue> {
        self.0.cookies.take()
    }
}

impl FromRequest for ConsoleView {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let visit = request.extensions().get::<Self>().cloned();
        ready(visit.ok_or(ApiError::Internal))
    }
}
