//! Middleware of every page: session, CSRF check and access rights. It turns errors into pages and adds the
//! security headers to every answer.

use actix_web::{
    Error, HttpMessage, HttpResponse,
    body::{BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    http::header::{HeaderMap, HeaderValue, SET_COOKIE},
    middleware::Next,
    web::Data,
};
use maud::html;

use super::{
    audience::CONSOLE, is_a_page, session::BrowserIdentity, state::ConsoleState, view::ConsoleView,
};
use crate::{
    http::error::ApiError,
    operations::{Principal, origin_of},
    operator::access::Right,
    pages::{
        cross_site::FormTokens,
        door,
        format::Zone,
        lang::Lang,
        packed,
        view::{PageAccount, ReaderSettings, View},
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
    door::read_head_as_get(&mut req);
    let guest = PageRequest::of(state, &req).await?;
    let response = match guest.admit(&mut req).await {
        Ok(()) => next.call(req).await?.map_into_boxed_body(),
        Err(refusal) => req.into_response(refusal),
    };
    let mut response = door::paged(&guest.view, response);
    guest.set_cookies(response.headers_mut());
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
    /// The cookie with a new id, for a browser that sent none with its own request.
    fresh: Option<HeaderValue>,
}

impl PageRequest {
    async fn of(state: Data<ConsoleState>, req: &ServiceRequest) -> Result<Self, Error> {
        let request = req.request();
        let (known, fresh) = BrowserIdentity::of(request, &state.process.node.vault);
        let right = match state.tokens().are_asked_for() {
            true => state.right_of(&known, request).await,
            // Without tokens, the listener's own middleware has decided on access.
            false => request.extensions().get::<Right>().copied(),
        };
        let lang = Lang::of(request.headers(), None);
        let alarms = match right {
            Some(_) => state.process.overview.look().await.critical(),
            None => 0,
        };
        let reader = ReaderSettings {
            lang,
            zone: Zone::utc(),
            account: right.map(|right| account(&state, lang, right, alarms)),
        };
        let tokens = FormTokens::of(&known.id);
        let view = View::new(&CONSOLE, request, reader, state.now(), tokens);
        let origin = origin_of(request, Principal::Operator).ok_or(ApiError::Internal)?;
        let visit =
            right.map(|_| ConsoleView::new(view.clone(), state.clone(), known.clone(), origin));
        Ok(Self {
            view,
            state,
            known,
            visit,
            fresh: fresh.filter(|_| !door::is_foreign(request, None)),
        })
    }

    /// Returns the error page if the request must not proceed.
    async fn admit(&self, req: &mut ServiceRequest) -> Result<(), HttpResponse> {
        door::admit(&self.view, None, req).await?;
        req.extensions_mut().insert(self.view.clone());
        if let Some(visit) = &self.visit {
            req.extensions_mut().insert(visit.clone());
        }
        Ok(())
    }

    fn set_cookies(&self, headers: &mut HeaderMap) {
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

fn account(state: &ConsoleState, lang: Lang, right: Right, alarms: usize) -> PageAccount {
    let node = state.process.node.member.name().to_string();
    let access = match right {
        Right::Full => "console-full-access",
        Right::Read => "console-view-only",
    };
    PageAccount {
        scope: lang.tn("console-node-of", &[("node", node.into())]),
        label: html! { span.muted { (lang.t(access)) } },
        is_person: false,
        can_sign_out: state.tokens().are_asked_for(),
        may_change: right == Right::Full,
        alarms: Some((alarms, "console-critical")),
    }
}
