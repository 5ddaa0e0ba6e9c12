//! An owner's actions on a call: end it, transfer it while it runs, erase it afterwards. Each has a confirmation
//! page.

use actix_web::{HttpResponse, http::StatusCode};
use dikala_entities::{CallId, call};
use maud::{Markup, html};

use super::{
    super::{
        components::{Field, Question, post, refused, summary},
        form::{self, Fields, FormState, FormValues, Shape},
        layout,
        view::SignedIn,
    },
    path_of, record, show, words,
};
use crate::{
    http::{
        error::ApiError,
        extract::{Id, RequestBody},
    },
    operations::calls::{self, CallView},
};

const FIELDS: &Fields = &[("to", Shape::Phone)];
/// Status of a confirmation page whose action is not possible.
const NOT_ASKED: StatusCode = StatusCode::CONFLICT;
/// Status of a post whose action is not possible.
const REFUSED: StatusCode = StatusCode::UNPROCESSABLE_ENTITY;

/// `GET /dashboard/calls/{id}/hangup`
pub async fn ask_hang_up(visit: SignedIn, id: Id<CallId>) -> Result<HttpResponse, ApiError> {
    let call = record::find(&visit, id.0).await?;
    if call.status.is_final() {
        return unfit(&visit, call.id, NOT_ASKED, &ApiError::CallNotActive).await;
    }
    let question = Question {
        path: &format!("{}/hangup", path_of(call.id)),
        consequences: html! {
            (which(&visit, &call))
            p { (visit.t("calls-hangup-words")) }
        },
        yes: visit.t("calls-hangup"),
        back: &path_of(call.id),
    };
    Ok(layout::page(
        &visit,
        &visit.t("calls-hangup-title"),
        question.show(&visit),
    ))
}

/// `POST /dashboard/calls/{id}/hangup`
pub async fn hang_up(visit: SignedIn, id: Id<CallId>) -> Result<HttpResponse, ApiError> {
    let call = id.0;
    let done = calls::hang_up::<CallView>(visit.operation(), id, RequestBody::default()).await;
    match done {
        // The call's page shows the action as pending until it is done.
        Ok(_) => Ok(visit.go(&path_of(call))),
        Err(error @ ApiError::CallNotActive) => unfit(&visit, call, REFUSED, &error).await,
        Err(error) => Err(error),
    }
}

/// `GET /dashboard/calls/{id}/transfer`
pub async fn ask_transfer(visit: SignedIn, id: Id<CallId>) -> Result<HttpResponse, ApiError> {
    let call = record::find(&visit, id.0).await?;
    if call.status.is_final() {
        return unfit(&visit, call.id, NOT_ASKED, &ApiError::CallNotActive).await;
    }
    let usual = calls::agents_number(visit.store().api_reader(), &call).await?;
    let filled = FormState::with(usual.iter().map(|number| ("to", number.as_str())));
    let content = transfer_form(&visit, &call, &filled);
    Ok(layout::page(
        &visit,
        &visit.t("calls-transfer-title"),
        content,
    ))
}

fn transfer_form(visit: &SignedIn, call: &call::Model, filled: &FormState) -> Markup {
    let path = path_of(call.id);
    let to = Field::text("to", visit.t("calls-transfer-to")).hint(visit.t("calls-transfer-hint"));
    html! {
        (summary(visit, filled, std::slice::from_ref(&to)))
        (which(visit, call))
        (post(visit, &format!("{path}/transfer"), html! {
            (to.show(visit, filled))
            div.actions {
                button type="submit" { (visit.t("calls-transfer")) }
                a.button.secondary href=(path) { (visit.t("page-cancel")) }
            }
        }))
    }
}

/// `POST /dashboard/calls/{id}/transfer`
pub async fn transfer(
    visit: SignedIn,
    id: Id<CallId>,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let call = record::find(&visit, id.0).await?;
    let done = match form::body(&typed, FIELDS) {
        Ok(body) => calls::transfer(visit.operation(), id, body).await,
        Err(error) => Err(error),
    };
    match done {
        Ok(_) => Ok(visit.go(&path_of(call.id))),
        Err(error) => {
            let content = transfer_form(&visit, &call, &FormState::again(typed, error)?);
            Ok(layout::refused(
                &visit,
                &visit.t("calls-transfer-title"),
                content,
            ))
        }
    }
}

/// `GET /dashboard/calls/{id}/erase`
pub async fn ask_erase(visit: SignedIn, id: Id<CallId>) -> Result<HttpResponse, ApiError> {
    let call = record::find(&visit, id.0).await?;
    if call.is_erased() {
        return Ok(visit.go(&path_of(call.id)));
    }
    if !call.status.is_final() {
        return unfit(&visit, call.id, NOT_ASKED, &ApiError::CallStillRunning).await;
    }
    let question = Question {
        path: &format!("{}/erase", path_of(call.id)),
        consequences: html! {
            (which(&visit, &call))
            p { (visit.t("calls-erase-words")) }
            p { (visit.t("calls-erase-stays")) }
            p { strong { (visit.t("calls-erase-final")) } }
        },
        yes: visit.t("calls-erase"),
        back: &path_of(call.id),
    };
    Ok(layout::page(
        &visit,
        &visit.t("calls-erase-title"),
        question.show(&visit),
    ))
}

/// `POST /dashboard/calls/{id}/erase`
pub async fn erase(visit: SignedIn, id: Id<CallId>) -> Result<HttpResponse, ApiError> {
    let call = id.0;
    match calls::erase(visit.operation(), id).await {
        Ok(_) => Ok(visit.see(&path_of(call), "done-call-erased")),
        Err(error @ ApiError::CallStillRunning) => unfit(&visit, call, REFUSED, &error).await,
        Err(error) => Err(error),
    }
}

/// Identifies the call on a confirmation page.
fn which(visit: &SignedIn, call: &call::Model) -> Markup {
    html! {
        p {
            (words::caller(visit, &call.caller_number, call.is_erased())) ", "
            (visit.time(call.started_at)) " " (words::status(visit, call.status))
        }
    }
}

/// The call's page with the reason why the action is not possible.
async fn unfit(
    visit: &SignedIn,
    id: CallId,
    status: StatusCode,
    why: &ApiError,
) -> Result<HttpResponse, ApiError> {
    let (title, page) = show::content(visit, id, None).await?;
    let content = html! {
        (refused(visit, why))
        (page)
    };
    Ok(layout::with_heading(visit, status, &title, content))
}
