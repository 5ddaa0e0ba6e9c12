//! Middleware of every page: session, CSRF check and access rights. It turns errors into pages and adds the
//! security headers to every answer.

use actix_web::{
    Error, HttpMessage, HttpResponse,
    body::{BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    http::{
        Method,
        header::{HeaderMap, HeaderValue, SET_COOKIE},
    },
    middleware::Next,
    web::Data,
};

use super::{
    PAGES, errors, is_a_page,
    layout::DONE,
    session::BrowserIdentity,
    sign_in::{SIGN_IN, is_ours},
    state::ConsoleState,
    view::ConsoleView,
};
use crate::{
    http::error::{ApiError, Missing},
    operations::{Principal, origin_of},
    operator::access::Right,
    pages::{
        cross_site::{FormTokens, TOKEN_FIELD},
        door,
        format::Zone,
        lang::Lang,
        packed,
        table::{self, PageAccess, PageMatch},
        view::{ReaderSettings, View, done_word},
    },
};

/// Checks access and turns errors into pages. Wraps all pages; other requests pass through.
pub async fn enter(
    mut req: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    if !is_a_page(&req) {
        return Ok(next.call(req).await?.map_into_boxed_body());
    }
    let Some(state) = req.app_data::<Data<ConsoleState>>().cloned() else {
        return Err(ApiError::Internal.into());
    };
    if req.method() == Method::HEAD {
        // Handled as GET; actix omits the body, because the connection knows the original method.
        req.head_mut().method = Method::GET;
    }
    let guest = PageRequest::of(state, &req).await?;
    let mut response = match guest.admit(&mut req).await {
        Ok(()) => next.call(req).await?.map_into_boxed_body(),
        Err(refusal) => req.into_response(refusal),
    };
    let failed = response.response().error().map(door::own);
    if let Some(error) = failed {
        response = response.into_response(guest.error(&error));
    }
    guest.finish(response.headers_mut());
    Ok(packed::page(response))
}

/// The access right of the session sent with a request that is not for a page.
pub async fn right_of_session(req: &ServiceRequest) -> Option<Right> {
    let state = req.app_data::<Data<ConsoleState>>()?;
    let (known, _) = BrowserIdentity::of(req.request(), &state.process.node.vault);
    state.right(&known).await
}

/// The browser that sent a request, signed in or not.
struct PageRequest {
    view: View,
    state: Data<ConsoleState>,
    known: BrowserIdentity,
    /// Present if the browser has access.
    visit: Option<ConsoleView>,
    /// The cookie with a new id, for a browser that sent none.
    fresh: Option<HeaderValue>,
    tokens: FormTokens,
}

impl PageRequest {
    async fn of(state: Data<ConsoleState>, req: &ServiceRequest) -> Result<Self, Error> {
        let request = req.request();
        let now = state.now();
        let (known, fresh) = BrowserIdentity::of(request, &state.process.node.vault);
        let right = match state.tokens().are_asked_for() {
            true => state.right_of(&known, request).await,
            // Without tokens, the listener's own middleware has decided on access.
            false => request.extensions().get::<Right>().copied(),
        };
        let tokens = FormTokens::of(&known.id);
        let reader = ReaderSettings {
            lang: Lang::En,
            zone: Zone::utc(),
        };
        let word = done_word(request);
        let mut told = DONE
            .iter()
            .filter(|(name, _)| Some(*name) == word.as_deref());
        let done = told.next().map(|(_, words)| (*words).to_owned());
        let view = View::new("", request, reader, now, tokens.clone(), done);
        let origin = origin_of(request, Principal::Operator).ok_or(ApiError::Internal)?;
        let visit = right.map(|right| {
            ConsoleView::new(view.clone(), state.clone(), right, known.clone(), origin)
        });
        Ok(Self {
            view,
            state,
            known,
            visit,
            fresh,
            tokens,
        })
    }

    fn error(&self, error: &ApiError) -> HttpResponse {
        errors::of(&self.view, self.visit.as_ref(), error)
    }

    /// Returns the error page if the request must not proceed.
    async fn admit(&self, req: &mut ServiceRequest) -> Result<(), HttpResponse> {
        let is_post = req.method() == Method::POST;
        if is_post && !door::is_from_a_page(req.headers(), None) {
            return Err(errors::foreign(&self.view, self.visit.as_ref()));
        }
        let pattern = req.match_pattern();
        let access = match table::find(PAGES, "", pattern.as_deref(), req.method()) {
            PageMatch::Page(access) => access,
            // A refused form leaves the browser at the address of its post. A reload by GET leads to the page
            // above.
            PageMatch::OtherMethods(_) if req.method() == Method::GET => {
                let pattern = pattern.as_deref().unwrap_or_default();
                let page = table::above(PAGES, "", pattern, req.path());
                return Err(match self.visit {
                    Some(_) => self.view.go(page),
                    None => self.view.go(&door::sign_in(req, SIGN_IN, "/")),
                });
            }
            PageMatch::OtherMethods(allow) => {
                return Err(self.error(&ApiError::MethodNotAllowed { allow }));
            }
            PageMatch::Nothing => return Err(self.nothing(req)),
        };
        if self.visit.is_none() && access != PageAccess::Anybody {
            return Err(self.view.go(&door::sign_in(req, SIGN_IN, "/")));
        }
        if is_post {
            let typed = door::typed(req, self.visit.is_some()).await;
            let typed = typed.map_err(|error| self.error(&error))?;
            if !self
                .tokens
                .know(typed.text(TOKEN_FIELD).unwrap_or_default())
            {
                return Err(errors::foreign(&self.view, self.visit.as_ref()));
            }
            req.extensions_mut().insert(typed);
        }
        req.extensions_mut().insert(self.view.clone());
        if let Some(visit) = &self.visit {
            if access == PageAccess::Owner && !visit.may_change() {
                return Err(errors::read_only(visit));
            }
            req.extensions_mut().insert(visit.clone());
        }
        Ok(())
    }

    /// Browsers with access get 404; others are sent to the sign-in page, so that they learn nothing about paths.
    fn nothing(&self, req: &ServiceRequest) -> HttpResponse {
        let path = req.path();
        let without_slash = path.trim_end_matches('/');
        match &self.visit {
            _ if req.method() == Method::GET && without_slash != path && is_ours(without_slash) => {
                self.view.go(without_slash)
            }
            Some(_) => self.error(&ApiError::NotFound(Missing::Route)),
            None => self.view.go(&door::sign_in(req, SIGN_IN, "/")),
        }
    }

    fn finish(&self, headers: &mut HeaderMap) {
        door::bind(headers);
        let told = headers.contains_key(SET_COOKIE);
        let mut cookies: Vec<HeaderValue> = match &self.visit {
            Some(visit) => {
                let vault = &self.state.process.node.vault;
                let touched = self.known.touched(vault, self.state.now());
                touched
                    .filter(|_| !told)
                    .into_iter()
                    .chain(visit.cookies())
                    .collect()
            }
            None => Vec::new(),
        };
        cookies.extend(self.fresh.clone().filter(|_| !told));
        for cookie in cookies {
            headers.append(SET_COOKIE, cookie);
        }
    }
}
