//! Middleware of every page: session, CSRF check and access rights. It turns errors into pages and adds the
//! security headers to every answer.

use actix_web::{
    Error, HttpMessage, HttpRequest, HttpResponse,
    body::{BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    http::{
        Method,
        header::{HeaderMap, HeaderValue, SET_COOKIE},
    },
    middleware::Next,
    web::Data,
};
use dikala_entities::{Role, SESSION_SCHEME, TenantId};

use super::{
    BASE, PAGES,
    cross_site::{FormTokens, TOKEN_FIELD},
    errors,
    session::{self, Person},
    state::DashboardState,
    view::{DashboardView, SignedIn},
};
use crate::{
    http::error::{ApiError, Missing},
    pages::{
        door, packed,
        table::{self, PageAccess, PageMatch},
    },
};

const SIGN_IN: &str = "/dashboard/sign-in";

/// Checks access and turns errors into pages. Wraps all pages.
pub async fn enter(
    mut req: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let Some(state) = req.app_data::<Data<DashboardState>>().cloned() else {
        return Err(ApiError::Internal.into());
    };
    if req.method() == Method::HEAD {
        // Handled as GET; actix omits the body, because the connection knows the original method.
        req.head_mut().method = Method::GET;
    }
    let guest = PageRequest::of(&state, req.request()).await;
    let mut response = match guest.admit(&state, &mut req).await {
        Ok(()) => {
            req.extensions_mut().insert(guest.view.clone());
            let turn = guest.turn(&state, req.method()).await;
            match turn {
                // While the path is matched further, no clone of the request may exist.
                Ok(_turn) => next.call(req).await?.map_into_boxed_body(),
                Err(error) => req.into_response(guest.error(&error)),
            }
        }
        Err(refusal) => req.into_response(refusal),
    };
    let failed = response.response().error().map(door::own);
    if let Some(error) = failed {
        response = response.into_response(guest.error(&error));
    }
    guest.finish(response.headers_mut());
    Ok(packed::page(response))
}

/// The browser that sent a request, signed in or not.
struct PageRequest {
    view: DashboardView,
    person: Option<Person>,
    /// A new cookie, for a browser that sent none.
    cookie: Option<HeaderValue>,
    /// The error if the session could not be looked up.
    fault: Option<ApiError>,
    tokens: FormTokens,
}

impl PageRequest {
    async fn of(state: &Data<DashboardState>, request: &HttpRequest) -> Self {
        let shown = session::shown(state, request);
        let now = state.services.clock.now();
        let found = match &shown {
            Some(token) => session::find(&state.services.store, token, now).await,
            None => Ok(None),
        };
        // A browser without a session gets a token too: the sign-in form is bound to it.
        let token = shown.clone().unwrap_or_else(|| SESSION_SCHEME.generate());
        let cookie = shown
            .is_none()
            .then(|| session::cookie(state, &token, false));
        let (person, fault) = match found {
            Ok(person) => (person, None),
            Err(error) => (None, Some(error.into())),
        };
        let tokens = FormTokens::of(&token);
        if let Some(person) = &person {
            request.extensions_mut().insert::<TenantId>(person.tenant);
        }
        Self {
            view: DashboardView::new(state, request, person.as_ref(), tokens.clone()),
            person,
            cookie,
            fault,
            tokens,
        }
    }

    fn error(&self, error: &ApiError) -> HttpResponse {
        errors::of(&self.view, self.person.as_ref(), error)
    }

    /// Returns the error page if the request must not proceed.
    async fn admit(
        &self,
        state: &DashboardState,
        req: &mut ServiceRequest,
    ) -> Result<(), HttpResponse> {
        let is_post = req.method() == Method::POST;
        if is_post && !door::is_from_a_page(req.headers(), state.public_base()) {
            return Err(errors::foreign(&self.view, self.person.as_ref()));
        }
        if let Some(fault) = &self.fault {
            return Err(self.error(fault));
        }
        let pattern = req.match_pattern();
        let access = match table::find(PAGES, BASE, pattern.as_deref(), req.method()) {
            PageMatch::Page(access) => access,
            // A refused form leaves the browser at the address of its post. A reload by GET leads to the page
            // above.
            PageMatch::OtherMethods(_) if req.method() == Method::GET => {
                let pattern = pattern.as_deref().unwrap_or_default();
                let page = table::above(PAGES, BASE, pattern, req.path());
                return Err(match self.person {
                    Some(_) => self.view.go(page),
                    None => self.view.go(&door::sign_in(req, SIGN_IN, BASE)),
                });
            }
            PageMatch::OtherMethods(allow) => {
                return Err(self.error(&ApiError::MethodNotAllowed { allow }));
            }
            PageMatch::Nothing => return Err(self.nothing(req)),
        };
        if self.person.is_none() && access != PageAccess::Anybody {
            return Err(self.view.go(&door::sign_in(req, SIGN_IN, BASE)));
        }
        if is_post {
            let typed = door::typed(req, self.person.is_some()).await;
            let typed = typed.map_err(|error| self.error(&error))?;
            if !self
                .tokens
                .know(typed.text(TOKEN_FIELD).unwrap_or_default())
            {
                return Err(errors::foreign(&self.view, self.person.as_ref()));
            }
            req.extensions_mut().insert(typed);
        }
        if let Some(person) = &self.person {
            if is_post {
                let gate = &state.services.http.gate;
                let counted = gate.post(person.tenant, self.view.now());
                counted.map_err(|error| self.error(&error))?;
            }
            if access == PageAccess::Owner && person.role != Role::Owner {
                return Err(errors::viewer(&self.view, person));
            }
            let visit = SignedIn::new(self.view.clone(), person.clone());
            req.extensions_mut().insert(visit);
        }
        Ok(())
    }

    /// Signed-in people get 404; others are sent to the sign-in page, so that they learn nothing about paths.
    fn nothing(&self, req: &ServiceRequest) -> HttpResponse {
        let path = req.path();
        let without_slash = path.trim_end_matches('/');
        match &self.person {
            _ if req.method() == Method::GET && without_slash != path => {
                self.view.go(without_slash)
            }
            Some(_) => self.error(&ApiError::NotFound(Missing::Route)),
            None => self.view.go(&door::sign_in(req, SIGN_IN, BASE)),
        }
    }

    /// Takes a permit of the fair read semaphore, as the API's reads do.
    async fn turn(
        &self,
        state: &DashboardState,
        method: &Method,
    ) -> Result<impl Sized + use<>, ApiError> {
        match &self.person {
            Some(person) if method == Method::GET => {
                state.services.http.gate.read(person.tenant).await.map(Some)
            }
            _ => Ok(None),
        }
    }

    fn finish(&self, headers: &mut HeaderMap) {
        door::bind(headers);
        if let Some(cookie) = &self.cookie
            && !headers.contains_key(SET_COOKIE)
        {
            headers.insert(SET_COOKIE, cookie.clone());
        }
    }
}
