//! Middleware of every page: session, CSRF check and access rights. It turns errors into pages and adds the
//! security headers to every answer.

use actix_web::{
    Error, HttpMessage, HttpRequest, HttpResponse,
    body::{BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    http::{
        Method,
        header::{HeaderValue, SET_COOKIE},
    },
    middleware::Next,
    web::Data,
};
use dikala_entities::{SESSION_SCHEME, TenantId};

use super::{
    cross_site::FormTokens,
    session::{self, Person},
    state::DashboardState,
    view::{DashboardView, SignedIn},
};
use crate::{
    http::error::ApiError,
    pages::{door, errors, packed},
};

/// Checks access and turns errors into pages. Wraps all pages.
pub async fn enter(
    mut req: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let Some(state) = req.app_data::<Data<DashboardState>>().cloned() else {
        return Err(ApiError::Internal.into());
    };
    door::read_head_as_get(&mut req);
    let guest = PageRequest::of(&state, req.request()).await;
    let response = match guest.admit(&state, &mut req).await {
        Ok(()) => {
            req.extensions_mut().insert(guest.view.clone());
            let turn = guest.turn(&state, req.method()).await;
            match turn {
                // While the path is matched further, no clone of the request may exist.
                Ok(_turn) => next.call(req).await?.map_into_boxed_body(),
                Err(error) => req.into_response(errors::of(&guest.view, &error)),
            }
        }
        Err(refusal) => req.into_response(refusal),
    };
    let mut response = door::paged(&guest.view, response);
    let headers = response.headers_mut();
    if let Some(cookie) = guest.cookie
        && !headers.contains_key(SET_COOKIE)
    {
        headers.insert(SET_COOKIE, cookie);
    }
    Ok(packed::page(response))
}

/// The browser that sent a request, signed in or not.
struct PageRequest {
    view: DashboardView,
    person: Option<Person>,
    /// A new cookie, for a browser that sent none with its own request.
    cookie: Option<HeaderValue>,
    /// The error if the session could not be looked up.
    fault: Option<ApiError>,
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
        let needs_cookie = shown.is_none() && !door::is_foreign(request, state.public_base());
        let cookie = needs_cookie.then(|| session::cookie(state, &token, false));
        let (person, fault) = match found {
            Ok(person) => (person, None),
            Err(error) => (None, Some(error.into())),
        };
        if let Some(person) = &person {
            request.extensions_mut().insert::<TenantId>(person.tenant);
        }
        let tokens = FormTokens::of(&token);
        Self {
            view: DashboardView::new(state, request, person.as_ref(), tokens),
            person,
            cookie,
            fault,
        }
    }

    /// Returns the error page if the request must not proceed.
    async fn admit(
        &self,
        state: &DashboardState,
        req: &mut ServiceRequest,
    ) -> Result<(), HttpResponse> {
        let error = |error: &ApiError| errors::of(&self.view, error);
        if let Some(fault) = &self.fault {
            return Err(error(fault));
        }
        door::admit(&self.view, state.public_base(), req).await?;
        if let Some(person) = &self.person {
            if req.method() == Method::POST {
                let gate = &state.services.http.gate;
                let counted = gate.post(person.tenant, self.view.now());
                counted.map_err(|refused| error(&refused))?;
            }
            let visit = SignedIn::new(self.view.clone(), person.clone());
            req.extensions_mut().insert(visit);
        }
        Ok(())
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
}
