//! Choosing one of the tenant's agents in a form.

use std::collections::BTreeMap;

use dikala_entities::{AgentId, OfTenant, agent};
use sea_orm::{ColumnTrait, QueryFilter, QueryOrder, QuerySelect, Select};

use super::{names, view::SignedIn};
use crate::http::error::ApiError;

/// An agent that can be chosen.
#[derive(Clone, Debug)]
pub struct Choice {
    pub name: String,
    pub is_active: bool,
}

pub type AgentChoices = BTreeMap<AgentId, Choice>;

fn agents_of(visit: &SignedIn) -> Select<agent::Entity> {
    agent::Entity::of(visit.tenant()).select_only().columns([
        agent::Column::Id,
        agent::Column::Name,
        agent::Column::IsActive,
    ])
}

async fn read(visit: &SignedIn, agents: Select<agent::Entity>) -> Result<AgentChoices, ApiError> {
    let rows: Vec<(AgentId, String, bool)> =
        agents.into_tuple().all(visit.store().api_reader()).await?;
    let choice = |(id, name, is_active)| (id, Choice { name, is_active });
    Ok(rows.into_iter().map(choice).collect())
}

/// The tenant's newest agents, at most `most`.
pub async fn newest(visit: &SignedIn, most: u64) -> Result<AgentChoices, ApiError> {
    let agents = agents_of(visit)
        .order_by_desc(agent::Column::Id)
        .limit(most);
    read(visit, agents).await
}

/// The agents with these ids that still exist.
pub async fn of(
    visit: &SignedIn,
    ids: impl IntoIterator<Item = AgentId>,
) -> Result<AgentChoices, ApiError> {
    read(visit, agents_of(visit).filter(agent::Column::Id.is_in(ids))).await
}

/// Value and name of each choice, the newest agent first.
pub fn options(visit: &SignedIn, choices: &AgentChoices) -> Vec<(String, String)> {
    let named = |(id, agent): (&AgentId, &Choice)| {
        let name = match agent.is_active {
            true => names::choice(&agent.name),
            false => format!(
                "{} ({})",
                names::choice(&agent.name),
                visit.t("agents-inactive")
            ),
        };
        (id.to_string(), name)
    };
    choices.iter().rev().map(named).collect()
}
