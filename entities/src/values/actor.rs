//! The actor of a change.

use std::{fmt, str::FromStr};

use sea_orm::DeriveValueType;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{ApiKeyId, UserId};

/// The actor of a change: `key_…`, `user_…`, `operator` or `cli`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, DeriveValueType)]
#[sea_orm(value_type = "String")]
pub enum Actor {
    /// A program of the tenant, by its API key.
    Key(ApiKeyId),
    /// A person who signed in for the tenant.
    User(UserId),
    /// An operator, over the operators' listener.
    Operator,
    /// An operator, on the command line.
    Cli,
}

/// The text names no actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be the id of a key or a user, operator or cli")]
pub struct ActorError;

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(id) => id.fmt(f),
            Self::User(id) => id.fmt(f),
            Self::Operator => f.write_str("operator"),
            Self::Cli => f.write_str("cli"),
        }
    }
}

impl FromStr for Actor {
    type Err = ActorError;

    fn from_str(text: &str) -> Result<Self, ActorError> {
        let key = || text.parse().map(Self::Key).ok();
        let user = || text.parse().map(Self::User).ok();
        match text {
            "operator" => Ok(Self::Operator),
            "cli" => Ok(Self::Cli),
            _ => key().or_else(user).ok_or(ActorError),
        }
    }
}

impl Serialize for Actor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Actor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::Millis;

    #[test]
    fn an_actor_is_read_as_it_is_shown() {
        let now = Millis::from_i64(1_768_447_800_000);
        for actor in [
            Actor::Key(ApiKeyId::new(now)),
            Actor::User(UserId::new(now)),
            Actor::Operator,
            Actor::Cli,
        ] {
            assert_eq!(actor.to_string().parse(), Ok(actor));
        }
        for nobody in ["", "key_", "Operator", "ten_01k9zv3m8rj2q4w6y8a0c2e4g6"] {
            assert_eq!(nobody.parse::<Actor>(), Err(ActorError), "{nobody:?}");
        }
    }
}
