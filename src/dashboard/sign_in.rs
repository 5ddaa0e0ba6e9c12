//! Signs people in with a password, and out.

use std::net::IpAddr;

use actix_web::{HttpRequest, HttpResponse, http::header::SET_COOKIE};
use dikala_entities::{AuditAction, Secret};

use super::{
    components::Field,
    form::FormValues,
    prove::{self, PasswordCheck, prove},
    session,
    view::{DashboardView, SignedIn},
};
use crate::{
    audit::AuditChange,
    http::{
        error::ApiError,
        extract::Query,
        field::{FieldCode, FieldError},
    },
    pages::sign_in::{SignInForm, destination, missing},
};

fn form(view: &DashboardView) -> SignInForm {
    let email = Field::email("email", view.t("sign-in-email")).autocomplete("username");
    let password = Field::password("password", view.t("sign-in-password"), "current-password");
    SignInForm {
        fields: vec![email, password],
        hint: "sign-in-forgotten",
    }
}

/// `GET /dashboard/sign-in`
pub async fn show(view: DashboardView, query: Query) -> HttpResponse {
    form(&view).show(&view, query.0.text("next"))
}

/// `POST /dashboard/sign-in`
pub async fn submit(
    view: DashboardView,
    request: HttpRequest,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let email = typed.text("email").unwrap_or_default().trim().to_owned();
    let password = typed.text("password").unwrap_or_default().to_owned();
    let missing = missing(&typed, &["email", "password"]);
    if !missing.is_empty() {
        return form(&view).again(&view, typed, missing);
    }
    let state = view.state();
    let network = state.network(&request);
    let proved = match prove(state, &email, &Secret::new(password), network).await? {
        PasswordCheck::Right(person) => person,
        PasswordCheck::Wait(wait) => {
            tracing::info!(address = %network, "signing in was refused after too many failures");
            return Ok(prove::wait(&view, wait));
        }
        PasswordCheck::Wrong => return wrong(&view, typed, network),
    };
    let txn = view.store().begin().await?;
    let held = session::hold(&txn, &proved).await?;
    // The password may have changed while it was compared.
    let held = held.filter(|(person, _)| person.password_hash == proved.password_hash);
    let Some((person, tenant)) = held else {
        return wrong(&view, typed, network);
    };
    if tenant.suspended_at.is_some() {
        return Err(ApiError::TenantSuspended);
    }
    let token = session::begin(&txn, state, &request, &person, false).await?;
    let change = AuditChange::new(AuditAction::UserSignIn, person.id).with("password");
    let by = view.origin_of(person.id);
    by.write(&txn, person.tenant_id, change, view.now()).await?;
    txn.commit().await?;
    tracing::info!(user = %person.id, tenant = %person.tenant_id, "signed in");
    let mut response = view.go(destination(&view, typed.text("next")));
    let cookie = session::cookie(state, &token, true);
    response.headers_mut().insert(SET_COOKIE, cookie);
    Ok(response)
}

fn wrong(
    view: &DashboardView,
    typed: FormValues,
    network: IpAddr,
) -> Result<HttpResponse, ApiError> {
    tracing::info!(address = %network, "signing in failed");
    let sentence = view.t("sign-in-wrong");
    let fault = FieldError::translated("password", FieldCode::NotAllowed, sentence);
    form(view).again(view, typed, vec![fault])
}

/// `POST /dashboard/sign-out`
pub async fn sign_out(visit: SignedIn) -> Result<HttpResponse, ApiError> {
    session::finish(visit.store(), &visit.person().session).await?;
    Ok(signed_out(&visit))
}

/// The answer after a person ended their own session.
pub fn signed_out(visit: &SignedIn) -> HttpResponse {
    let mut response = visit.see("/dashboard/sign-in", "done-signed-out");
    let cookie = session::no_cookie(visit.state());
    response.headers_mut().insert(SET_COOKIE, cookie);
    response
}
