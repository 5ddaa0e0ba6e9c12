//! Checks a password. All checks go through here: each is counted, and takes the same time whether the person
//! exists or not.

use std::net::IpAddr;

use actix_web::{
    HttpResponse,
    http::{StatusCode, header::RETRY_AFTER},
};
use dikala_entities::{Email, Secret, user};
use maud::html;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};

use super::{
    state::DashboardState,
    throttle::{self, WaitMs},
};
use crate::{
    http::error::ApiError,
    pages::{errors, view::View},
};

/// Result of a check.
#[derive(Debug)]
pub enum PasswordCheck {
    Right(Box<user::Model>),
    /// The person does not exist, has no password, or has another one.
    Wrong,
    /// The limit is reached; the password was not checked.
    Wait(WaitMs),
}

/// Checks the password of the person with this email address.
pub async fn prove(
    state: &DashboardState,
    email: &str,
    password: &Secret,
    network: IpAddr,
) -> Result<PasswordCheck, ApiError> {
    let store = &state.services.store;
    let now = state.services.clock.now();
    let attempt = match throttle::begin(store, email, network, now).await? {
        Ok(attempt) => attempt,
        Err(wait) => return Ok(PasswordCheck::Wait(wait)),
    };
    // An invalid address takes the same path and matches nobody.
    let folded = email
        .parse::<Email>()
        .map_or_else(|_| String::new(), |email| email.to_string());
    let person = user::Entity::find()
        .filter(user::Column::Email.eq(folded))
        .one(store.reader())
        .await?;
    let hash = person
        .as_ref()
        .and_then(|person| person.password_hash.clone());
    let is_right = match state.passwords.is_right(password, hash).await {
        Ok(is_right) => is_right,
        Err(error) => {
            // The queue is full. An unchecked password is no failure; otherwise a flood of guesses could lock
            // people out.
            attempt.give_back(store).await?;
            return Err(error);
        }
    };
    match person.filter(|_| is_right) {
        None => Ok(PasswordCheck::Wrong),
        Some(person) => {
            attempt.give_back(store).await?;
            Ok(PasswordCheck::Right(Box::new(person)))
        }
    }
}

/// The page after too many failed checks.
pub fn wait(view: &View, wait: WaitMs) -> HttpResponse {
    let seconds = wait.seconds();
    let minutes = seconds.saturating_add(59).div_euclid(60);
    let words = html! { p { (view.tn("error-wait-words", &[("minutes", minutes.into())])) } };
    let mut page = errors::page(view, StatusCode::TOO_MANY_REQUESTS, "error-wait", words);
    page.headers_mut().insert(RETRY_AFTER, seconds.into());
    page
}
