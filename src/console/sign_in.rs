//! Signs operators in with one of the operators' tokens, and out.

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header::SET_COOKIE},
    web::Data,
};
use dikala_entities::CredentialHash;
use maud::{Markup, html};

use super::{layout, session::ConsoleSession, state::ConsoleState, view::ConsoleView};
use crate::{
    http::{
        error::ApiError,
        extract::Query,
        field::{FieldCode, FieldError, ValueFault},
    },
    pages::{
        components::{Field, fields, post, submit as submit_button},
        errors,
        form::{FormState, FormValues},
        view::View,
    },
};

pub const SIGN_IN: &str = "/sign-in";

/// `GET /sign-in`
pub async fn show(
    view: View,
    visit: Option<ConsoleView>,
    query: Query,
) -> Result<HttpResponse, ApiError> {
    let next = query.0.text("next").filter(|next| is_ours(next));
    if visit.is_some() {
        return Ok(view.go(next.unwrap_or("/")));
    }
    let filled = FormState::with(next.map(|next| ("next", next)));
    Ok(answer(&view, StatusCode::OK, &filled))
}

fn answer(view: &View, status: StatusCode, filled: &FormState) -> HttpResponse {
    layout::answer(view, None, status, "Sign in", form(view, filled))
}

fn form(view: &View, filled: &FormState) -> Markup {
    let token = Field::password("token", "Token".to_owned(), "current-password")
        .hint("operator.token, or operator.read_token to look only.".to_owned());
    html! {
        h1 { "Sign in" }
        (post(view, SIGN_IN, html! {
            input type="hidden" name="next" value=(filled.text("next"));
            (fields(view, filled, &[token]))
            (submit_button("Sign in"))
        }))
        p.muted { "You find the tokens in the configuration of the service." }
    }
}

/// `POST /sign-in`
pub async fn submit(
    view: View,
    state: Data<ConsoleState>,
    request: HttpRequest,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let token = typed.text("token").unwrap_or_default().trim().to_owned();
    let next = typed.text("next").filter(|next| is_ours(next));
    let leave = view.go(next.unwrap_or("/"));
    if !state.tokens().are_asked_for() {
        return Ok(leave);
    }
    if token.is_empty() {
        let fault = ValueFault::new(FieldCode::Required, "is required").in_field("token");
        return again(&view, typed, fault);
    }
    match state.prove(&request, &token).await {
        Ok(_) => {
            let vault = &state.process.node.vault;
            let token = CredentialHash::of(&token);
            let cookie = ConsoleSession::begin(&request, vault, &token, state.now());
            let mut response = leave;
            response.headers_mut().insert(SET_COOKIE, cookie);
            tracing::info!("an operator signed in");
            Ok(response)
        }
        Err(ApiError::InvalidOperatorToken) => {
            let sentence = "The token is wrong.".to_owned();
            let fault = FieldError::translated("token", FieldCode::NotAllowed, sentence);
            again(&view, typed, fault)
        }
        Err(error @ ApiError::RateLimited { .. }) => {
            let (title, words) = errors::words(&view, &error);
            let title = view.t(title);
            let content = html! { h1 { (title) } (words) p { (error.to_string()) } };
            let status = StatusCode::TOO_MANY_REQUESTS;
            let page = layout::answer(&view, None, status, &title, content);
            Ok(errors::with_headers(&error, page))
        }
        Err(error) => Err(error),
    }
}

fn again(view: &View, typed: FormValues, fault: FieldError) -> Result<HttpResponse, ApiError> {
    let filled = FormState::again(typed, ApiError::field(fault))?;
    Ok(answer(view, StatusCode::UNPROCESSABLE_ENTITY, &filled))
}

/// `POST /sign-out`
pub async fn sign_out(visit: ConsoleView) -> HttpResponse {
    let is_known = match &visit.known().session {
        Some(session) => visit.state().ended.add(session, visit.now()).await,
        None => true,
    };
    let told = match is_known {
        true => "done-signed-out",
        false => "done-signed-out-here",
    };
    let mut response = visit.see(SIGN_IN, told);
    let headers = response.headers_mut();
    headers.insert(SET_COOKIE, visit.known().forget());
    response
}

/// True for a path of this listener; prevents redirects to other sites.
pub fn is_ours(path: &str) -> bool {
    path.starts_with('/')
        && !path.starts_with("//")
        && path
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_led_away() {
        for ours in ["/", "/actors", "/actors/call?x=1"] {
            assert!(is_ours(ours), "{ours}");
        }
        for other in [
            "",
            "//evil.example",
            "https://evil.example",
            "/\\evil.example",
            "/a\r\nb",
            "actors",
        ] {
            assert!(!is_ours(other), "{other:?}");
        }
    }
}
