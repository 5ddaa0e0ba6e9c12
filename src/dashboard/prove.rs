//! Whether somebody knows a password. Whoever is asked for one is asked here, so that it is counted, and takes the same work and
//! the same time whether there is such a person or not.

use std::net::IpAddr;

use dikala_entities::{Email, Secret, user};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};

use super::{
    kit::Kit,
    throttle::{self, WaitMs},
};
use crate::http::error::ApiError;

/// What came of it.
#[derive(Debug)]
pub enum Proof {
    Right(Box<user::Model>),
    /// The person is not there, has no password, or has another one.
    Wrong,
    /// Nothing was looked at.
    Wait(WaitMs),
}

/// Looks whether the person with that address, whatever was typed as one, has that password.
pub async fn prove(
    kit: &Kit,
    email: &str,
    password: &Secret,
    network: IpAddr,
) -> Result<Proof, ApiError> {
    let store = &kit.services.store;
    let now = kit.services.clock.now();
    let attempt = match throttle::begin(store, email, network, now).await? {
        Ok(attempt) => attempt,
        Err(wait) => return Ok(Proof::Wait(wait)),
    };
    // What is no address is looked for as well, and is nobody's.
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
    let is_right = match kit.passwords.is_right(password, hash).await {
        Ok(is_right) => is_right,
        Err(error) => {
            // Too many others wait: what was not looked at is no failure, or a storm of guesses would lock people out.
            attempt.give_back(store).await?;
            return Err(error);
        }
    };
    match person.filter(|_| is_right) {
        None => Ok(Proof::Wrong),
        Some(person) => {
            attempt.give_back(store).await?;
            Ok(Proof::Right(Box::new(person)))
        }
    }
}
