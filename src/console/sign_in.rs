//! Signs operators in with one of the operators' tokens, and out.

use actix_web::{HttpRequest, HttpResponse, http::header::SET_COOKIE, web::Data};
use dikala_entities::CredentialHash;

use super::{session::ConsoleSession, state::ConsoleState, view::ConsoleView};
use crate::{
    http::{
        error::ApiError,
        extract::Query,
        field::{FieldCode, FieldError},
    },
    pages::{
        components::Field,
        form::FormValues,
        sign_in::{SignInForm, destination, missing},
        view::View,
    },
};

fn form(view: &View) -> SignInForm {
    let token = Field::password("token", view.t("console-token"), "current-password");
    SignInForm {
        fields: vec![token.hint(view.t("console-token-hint"))],
        hint: "console-token-where",
    }
}

/// `GET /sign-in`
pub async fn show(view: View, query: Query) -> HttpResponse {
    form(&view).show(&view, query.0.text("next"))
}

/// `POST /sign-in`
pub async fn submit(
    view: View,
    state: Data<ConsoleState>,
    request: HttpRequest,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let token = typed.text("token").unwrap_or_default().trim().to_owned();
    let leave = view.go(destination(&view, typed.text("next")));
    if !state.tokens().are_asked_for() {
        return Ok(leave);
    }
    let missing = missing(&typed, &["token"]);
    if !missing.is_empty() {
        return form(&view).again(&view, typed, missing);
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
            let sentence = view.t("console-token-wrong");
            let fault = FieldError::translated("token", FieldCode::NotAllowed, sentence);
            form(&view).again(&view, typed, vec![fault])
        }
        Err(error) => Err(error),
    }
}

/// `POST /sign-out`
pub async fn sign_out(visit: ConsoleView) -> HttpResponse {
    let is_known = match &visit.known().session {
        Some(session) => visit.state().ended.add(session, visit.now()).await,
        None => true,
    };
    let told = match is_known {
        true => "console-done-signed-out",
        false => "console-done-signed-out-here",
    };
    let mut response = visit.see(visit.audience().sign_in, told);
    let headers = response.headers_mut();
    headers.insert(SET_COOKIE, visit.known().forget());
    response
}
