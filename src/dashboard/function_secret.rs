//! The secret that signs function requests. It is shown to owners after a password check, and can be rotated.

use actix_web::{HttpRequest, HttpResponse};
use dikala_entities::Secret;
use maud::{Markup, html};

use super::{
    account::wrong_password,
    components::{Field, Question, Tone, copyable, fields, notice, post, submit, username},
    form::{FormState, FormValues},
    layout,
    prove::{self, PasswordCheck, prove},
    view::SignedIn,
};
use crate::{
    http::{error::ApiError, extract::Id},
    operations::tenants,
};

const PATH: &str = "/dashboard/settings/function-secret";
const NOTE: &str = "function-secret";

/// `GET /dashboard/settings/function-secret`
pub async fn show(visit: SignedIn) -> Result<HttpResponse, ApiError> {
    let secret = match visit.is_owner() {
        true => visit.take_note(NOTE).await?,
        false => None,
    };
    let content = content(&visit, secret.as_ref(), &FormState::blank());
    Ok(layout::page(&visit, &visit.t("secret-title"), content))
}

fn content(visit: &SignedIn, secret: Option<&Secret>, filled: &FormState) -> Markup {
    html! {
        p.lead { (visit.t("secret-words")) }
        @if let Some(secret) = secret {
            (notice(Tone::Warning, html! {
                p { strong { (visit.t("secret-shown")) } }
                (copyable(visit, "secret", &visit.t("secret-title"), secret.expose()))
            }))
        }
        @if !visit.is_owner() {
            (notice(Tone::Plain, html! { p { (visit.t("secret-owners")) } }))
        } @else {
            section aria-labelledby="show" {
                h2 #show { (visit.t("secret-show")) }
                (show_form(visit, filled))
            }
            section aria-labelledby="rotate" {
                h2 #rotate { (visit.t("secret-rotate")) }
                p { (visit.t("secret-rotate-hint")) }
                p { a.button.secondary href={ (PATH) "/rotate" } { (visit.t("secret-rotate-submit")) } }
            }
        }
    }
}

fn show_form(visit: &SignedIn, filled: &FormState) -> Markup {
    if !visit.person().has_password {
        return html! {
            p { (visit.t("secret-no-password")) }
            p { a.button.secondary href="/dashboard/password" { (visit.t("home-set-password")) } }
        };
    }
    let password = Field::password("password", visit.t("secret-password"), "current-password");
    html! {
        (post(visit, &format!("{PATH}/show"), html! {
            (username(visit.person().email.as_str()))
            (fields(visit, filled, &[password]))
            (submit(&visit.t("secret-show")))
        }))
    }
}

/// `POST /dashboard/settings/function-secret/show`
pub async fn reveal(
    visit: SignedIn,
    request: HttpRequest,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let password = Secret::new(typed.text("password").unwrap_or_default());
    let state = visit.state();
    let network = state.network(&request);
    match prove(state, visit.person().email.as_str(), &password, network).await? {
        PasswordCheck::Right(_) => {}
        PasswordCheck::Wait(wait) => return Ok(prove::wait(&visit, wait)),
        PasswordCheck::Wrong => {
            let fault = wrong_password(&visit, "password");
            let filled = FormState::again(typed, ApiError::field(fault))?;
            let content = content(&visit, None, &filled);
            return Ok(layout::refused(&visit, &visit.t("secret-title"), content));
        }
    }
    let shown = tenants::function_secret(visit.operation(), Id(visit.tenant())).await?;
    visit.leave_note(NOTE, &shown.secret).await?;
    Ok(visit.go(PATH))
}

/// `GET /dashboard/settings/function-secret/rotate`
pub async fn ask_rotate(visit: SignedIn) -> Result<HttpResponse, ApiError> {
    let question = Question {
        path: &format!("{PATH}/rotate"),
        consequences: html! {
            p { (visit.t("secret-rotate-words")) }
            p { (visit.t("secret-rotate-final")) }
        },
        yes: visit.t("secret-rotate-submit"),
        back: PATH,
    };
    let title = visit.t("secret-rotate-title");
    Ok(layout::page(&visit, &title, question.show(&visit)))
}

/// `POST /dashboard/settings/function-secret/rotate`
pub async fn rotate(visit: SignedIn) -> Result<HttpResponse, ApiError> {
    tenants::rotate_function_secret(visit.operation(), Id(visit.tenant())).await?;
    Ok(visit.see(PATH, "done-secret-rotated"))
}
