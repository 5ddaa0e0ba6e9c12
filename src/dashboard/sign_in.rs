//! Signs people in with a password, and out.

use std::net::IpAddr;

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header::SET_COOKIE},
};
use dikala_entities::{AuditAction, Secret};
use maud::{Markup, html};

use super::{
    components::{Field, fields, post, submit as submit_button},
    errors,
    form::{FormState, FormValues},
    layout,
    prove::{PasswordCheck, prove},
    session,
    view::{DashboardView, SignedIn},
};
use crate::{
    audit::AuditChange,
    http::{
        error::ApiError,
        extract::Query,
        field::{FieldCode, FieldError, ValueFault},
    },
};

/// `GET /dashboard/sign-in`
pub async fn show(
    view: DashboardView,
    visit: Option<SignedIn>,
    query: Query,
) -> Result<HttpResponse, ApiError> {
    let next = query.0.text("next").filter(|next| is_ours(next));
    if visit.is_some() {
        return Ok(view.go(next.unwrap_or("/dashboard")));
    }
    let filled = FormState::with(next.map(|next| ("next", next)));
    Ok(answer(&view, StatusCode::OK, &filled))
}

fn answer(view: &DashboardView, status: StatusCode, filled: &FormState) -> HttpResponse {
    let title = view.t("sign-in-title");
    layout::answer(view, None, status, &title, form(view, filled))
}

fn form(view: &DashboardView, filled: &FormState) -> Markup {
    let email = Field::email("email", view.t("sign-in-email")).autocomplete("username");
    let password = Field::password("password", view.t("sign-in-password"), "current-password");
    html! {
        h1 { (view.t("sign-in-title")) }
        (post(view, "/dashboard/sign-in", html! {
            input type="hidden" name="next" value=(filled.text("next"));
            (fields(view, filled, &[email, password]))
            (submit_button(&view.t("sign-in-submit")))
        }))
        p.muted { (view.t("sign-in-forgotten")) }
    }
}

/// True for a path within the dashboard; prevents redirects to other sites.
fn is_ours(path: &str) -> bool {
    let rest = path.strip_prefix("/dashboard");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
        && path
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

/// `POST /dashboard/sign-in`
pub async fn submit(
    view: DashboardView,
    request: HttpRequest,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let email = typed.text("email").unwrap_or_default().trim().to_owned();
    let password = typed.text("password").unwrap_or_default().to_owned();
    let required = |name: &str| ValueFault::new(FieldCode::Required, "is required").in_field(name);
    let missing: Vec<FieldError> = [("email", &email), ("password", &password)]
        .into_iter()
        .filter(|(_, text)| text.is_empty())
        .map(|(name, _)| required(name))
        .collect();
    if !missing.is_empty() {
        return again(&view, typed, missing);
    }
    let state = view.state();
    let network = state.network(&request);
    let proved = match prove(state, &email, &Secret::new(password), network).await? {
        PasswordCheck::Right(person) => person,
        PasswordCheck::Wait(wait) => {
            tracing::info!(address = %network, "signing in was refused after too many failures");
            return Ok(errors::wait(&view, None, wait));
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
        return Ok(errors::suspended(&view));
    }
    let token = session::begin(&txn, state, &request, &person, false).await?;
    let change = AuditChange::new(AuditAction::UserSignIn, person.id).with("password");
    let by = view.origin_of(person.id);
    by.write(&txn, person.tenant_id, change, view.now()).await?;
    txn.commit().await?;
    tracing::info!(user = %person.id, tenant = %person.tenant_id, "signed in");
    let next = typed.text("next").filter(|next| is_ours(next));
    let mut response = view.go(next.unwrap_or("/dashboard"));
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
    again(view, typed, vec![fault])
}

fn again(
    view: &DashboardView,
    typed: FormValues,
    faults: Vec<FieldError>,
) -> Result<HttpResponse, ApiError> {
    let filled = FormState::again(typed, ApiError::Validation(faults))?;
    Ok(answer(view, StatusCode::UNPROCESSABLE_ENTITY, &filled))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_led_away() {
        for ours in [
            "/dashboard",
            "/dashboard/settings/keys",
            "/dashboard?x=1",
            "/dashboard/calls?from=2026-01-01",
        ] {
            assert!(is_ours(ours), "{ours}");
        }
        for other in [
            "",
            "/",
            "//evil.example",
            "https://evil.example",
            "/dashboardx",
            "/dashboard\\evil",
            "/dashboard/\r\nx",
        ] {
            assert!(!is_ours(other), "{other:?}");
        }
    }
}
