//! The scope of an `Idempotency-Key`.

use std::{fmt, str::FromStr};

use sea_orm::DeriveValueType;
use serde::{Serialize, Serializer};

use super::{IdError, TenantId};

/// The operators' scope as text.
const OPERATORS: &str = "operators";

/// The scope of an `Idempotency-Key`: equal keys in different scopes are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, DeriveValueType)]
#[sea_orm(value_type = "String")]
pub enum IdempotencyScope {
    Tenant(TenantId),
    Operators,
}

impl fmt::Display for IdempotencyScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tenant(id) => id.fmt(f),
            Self::Operators => f.write_str(OPERATORS),
        }
    }
}

impl Serialize for IdempotencyScope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for IdempotencyScope {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        match text {
            OPERATORS => Ok(Self::Operators),
            id => id.parse().map(Self::Tenant),
        }
    }
}

// Required by the ORM of every part of a primary key; it is never a number.
impl sea_orm::TryFromU64 for IdempotencyScope {
    fn try_from_u64(_: u64) -> Result<Self, sea_orm::DbErr> {
        Err(sea_orm::DbErr::ConvertFromU64("IdempotencyScope"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::Millis;

    #[test]
    fn a_scope_is_read_as_it_is_written() {
        let tenant = TenantId::new(Millis::from_i64(1_768_447_800_000));
        for scope in [
            IdempotencyScope::Tenant(tenant),
            IdempotencyScope::Operators,
        ] {
            assert_eq!(scope.to_string().parse(), Ok(scope));
        }
        assert!("operator".parse::<IdempotencyScope>().is_err());
    }
}
