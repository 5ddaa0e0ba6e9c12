//! Looks up names of people and things for lists, and shortens names.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
    hash::Hash,
};

use dikala_entities::{
    ApiKeyId, OfTenant, UserId, agent, api_key, function, phone_number, user, webhook, widget,
};
use sea_orm::{ColumnTrait, DbErr, QueryFilter, QuerySelect, TryGetable, Value};

use super::view::SignedIn;

/// Longest name in a choice, in characters: it limits the page's size and the list's width.
const CHOICE_CHARS_MAX: usize = 48;

/// Names of these people, of those that belong to the tenant.
pub async fn of_people(
    visit: &SignedIn,
    ids: impl IntoIterator<Item = UserId>,
) -> Result<HashMap<UserId, String>, DbErr> {
    let (id, name) = (user::Column::Id, user::Column::Name);
    of_table::<user::Entity, _>(visit, ids, id, name).await
}

/// Names of these keys, of those that belong to the tenant.
pub async fn of_keys(
    visit: &SignedIn,
    ids: impl IntoIterator<Item = ApiKeyId>,
) -> Result<HashMap<ApiKeyId, String>, DbErr> {
    let (id, name) = (api_key::Column::Id, api_key::Column::Name);
    of_table::<api_key::Entity, _>(visit, ids, id, name).await
}

/// Names of the tenant's agents, functions, numbers, webhooks, widgets, keys and members with these ids. Those that are gone have none.
pub async fn of_things(
    visit: &SignedIn,
    ids: &BTreeSet<&str>,
) -> Result<HashMap<String, String>, DbErr> {
    let with = |prefix: &'static str| {
        let ids = ids.iter().filter(move |id| id.starts_with(prefix));
        ids.map(|id| (*id).to_owned())
    };
    let (id, name) = (agent::Column::Id, agent::Column::Name);
    let mut names = of_table::<agent::Entity, _>(visit, with("agent_"), id, name).await?;
    let (id, name) = (function::Column::Id, function::Column::Name);
    names.extend(of_table::<function::Entity, _>(visit, with("fn_"), id, name).await?);
    let (id, name) = (phone_number::Column::Id, phone_number::Column::Did);
    names.extend(of_table::<phone_number::Entity, _>(visit, with("pn_"), id, name).await?);
    let (id, name) = (webhook::Column::Id, webhook::Column::Url);
    names.extend(of_table::<webhook::Entity, _>(visit, with("wh_"), id, name).await?);
    let (id, name) = (widget::Column::Id, widget::Column::Name);
    names.extend(of_table::<widget::Entity, _>(visit, with("wgt_"), id, name).await?);
    let (id, name) = (api_key::Column::Id, api_key::Column::Name);
    names.extend(of_table::<api_key::Entity, _>(visit, with("key_"), id, name).await?);
    let (id, name) = (user::Column::Id, user::Column::Name);
    names.extend(of_table::<user::Entity, _>(visit, with("user_"), id, name).await?);
    Ok(names)
}

async fn of_table<E: OfTenant, I: Into<Value> + TryGetable + Eq + Hash>(
    visit: &SignedIn,
    ids: impl IntoIterator<Item = I>,
    id: E::Column,
    name: E::Column,
) -> Result<HashMap<I, String>, DbErr> {
    let ids: Vec<I> = ids.into_iter().collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows: Vec<(I, String)> = E::of(visit.tenant())
        .filter(id.is_in(ids))
        .select_only()
        .columns([id, name])
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
