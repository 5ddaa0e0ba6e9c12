//! Who looks at a page, and what it reaches besides what [every page](crate::pages::view) is written with.

use std::{
    cell::RefCell,
    future::{Ready, ready},
    ops::Deref,
    rc::Rc,
};

use actix_web::{
    FromRequest, HttpMessage, HttpRequest, dev::Payload, http::header::HeaderValue, web::Data,
};
use dikala_entities::{Secret, Store};

use super::{kit::Kit, session::Known};
use crate::{
    http::{error::ApiError, extract::Operator},
    operator::access::Right,
    operator_api::Desk,
    pages::view::View,
};

/// A [`View`] with who looks at it. Handlers of pages take it.
#[derive(Clone, Debug)]
pub struct Visit(Rc<Parts>);

#[derive(Debug)]
struct Parts {
    view: View,
    kit: Data<Kit>,
    right: Right,
    known: Known,
    operator: Operator,
    /// Cookies that the answer sets.
    cookies: RefCell<Vec<HeaderValue>>,
}

impl Deref for Visit {
    type Target = View;

    fn deref(&self) -> &View {
        &self.0.view
    }
}

impl Visit {
    /// Somebody who may come.
    pub fn new(view: View, kit: Data<Kit>, right: Right, known: Known, operator: Operator) -> Self {
        Self(Rc::new(Parts {
            view,
            kit,
            right,
            known,
            operator,
            cookies: RefCell::default(),
        }))
    }

    /// What every page can reach.
    pub fn kit(&self) -> &Kit {
        &self.0.kit
    }

    /// What the operators' API works with: the first thing that its handlers take.
    pub fn desk(&self) -> Data<Desk> {
        self.0.kit.desk.clone()
    }

    /// The name of the node that answers.
    pub fn node(&self) -> String {
        self.0.kit.desk.node.member.name().to_string()
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.0.kit.desk.node.store
    }

    /// Who asks, for a handler of the operators' API.
    pub fn operator(&self) -> Operator {
        self.0.operator.clone()
    }

    /// Whether buttons that change something are shown. Who may not is refused before a handler in any case.
    pub fn may_change(&self) -> bool {
        self.0.right == Right::Full
    }

    /// Whether there is a session that one can sign out of.
    pub fn is_signed_in(&self) -> bool {
        self.0.kit.tokens().are_asked_for()
    }

    /// What the browser is known by.
    pub fn known(&self) -> &Known {
        &self.0.known
    }

    /// Whether its session is still in force, without counting as a use of it: for what goes on after the request.
    pub async fn still_may(&self) -> bool {
        let kit = self.kit();
        // Who came with a token has it as long as the process runs.
        self.0.known.session.is_none() || kit.right(&self.0.known).await.is_some()
    }

    /// Keeps a secret for the next page that asks for it by this name, and for that one only.
    pub fn leave_note(&self, about: &str, text: &Secret) {
        let vault = &self.desk().node.vault;
        let note = self.0.known.leave_note(vault, about, text, self.now());
        self.0.cookies.borrow_mut().push(note);
    }

    /// Takes what was kept by this name.
    pub fn take_note(&self, about: &str) -> Option<Secret> {
        let vault = &self.desk().node.vault;
        let known = &self.0.known;
        let note = known.note(vault, about, self.now())?;
        self.0.cookies.borrow_mut().push(known.forget_note());
        Some(note)
    }

    /// Cookies that the answer sets.
    pub fn cookies(&self) -> Vec<HeaderValue> {
        self.0.cookies.take()
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
