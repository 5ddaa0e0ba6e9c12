//! Looks up names of people and keys for lists, and shortens names.

use std::{borrow::Cow, collections::HashMap};

use dikala_entities::{ApiKeyId, OfTenant, UserId, api_key, user};
use sea_orm::{ColumnTrait, DbErr, QueryFilter, QuerySelect};

use super::view::SignedIn;

/// Longest name in a choice, in characters: it limits the page's size and the list's width.
const CHOICE_CHARS_MAX: usize = 48;

/// Names of these people, of those that belong to the tenant.
pub async fn of_people(
    visit: &SignedIn,
    ids: impl IntoIterator<Item = UserId>,
) -> Result<HashMap<UserId, String>, DbErr> {
    let rows: Vec<(UserId, String)> = user::Entity::of(visit.tenant())
        .select_only()
        .columns([user::Column::Id, user::Column::Name])
        .filter(user::Column::Id.is_in(ids))
        .into_tuple()
        .all(visit.store().api_reader())
        .await?;
    Ok(rows.into_iter().collect())
}

/// Names of these keys, of those that belong to the tenant.
pub async fn of_keys(
    visit: &SignedIn,
    ids: impl IntoIterator<Item = ApiKeyId>,
) -> Result<HashMap<ApiKeyId, String>, DbErr> {
    let rows: Vec<(ApiKeyId, String)> = api_key::Entity::of(visit.tenant())
        .select_only()
        .columns([api_key::Column::Id, api_key::Column::Name])
        .filter(api_key::Column::Id.is_in(ids))
        .into_tuple()
        .all(visit.store().api_reader())
        .await?;
    Ok(rows.into_iter().collect())
}

/// The beginning of a text, with `…` if it was cut.
pub fn cut(text: &str, chars_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// A name shortened for a choice.
pub fn choice(name: &str) -> String {
    cut(name, CHOICE_CHARS_MAX).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_signs() {
        assert_eq!(cut("ééé", 2), "éé…");
        assert_eq!(cut("ééé", 3), "ééé");
        assert_eq!(cut("", 0), "");
    }
}
