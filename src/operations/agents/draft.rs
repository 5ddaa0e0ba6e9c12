//! Settings of an agent that are tried and not saved.

use dikala_actors::calls::settings::CallSettings;
use dikala_entities::{Store, agent, function};
use sea_orm::{DbErr, QueryOrder};

use super::{fields, weight::AGENT_BYTES_MAX};
use crate::{
    http::{
        error::ApiError,
        extract::FormReader,
        field::{FieldCode, ValueFault},
    },
    operations::AgentLimits,
};

/// An agent with its functions, of which a draft is a change.
pub struct SavedAgent<'a> {
    agent: agent::Model,
    functions: Vec<function::Model>,
    limits: &'a AgentLimits,
}

impl<'a> SavedAgent<'a> {
    /// Reads the agent's functions, oldest first.
    pub async fn read(
        store: &Store,
        agent: agent::Model,
        limits: &'a AgentLimits,
    ) -> Result<Self, DbErr> {
        let functions = function::Entity::of_agent(&agent)
            .order_by_asc(function::Column::Id)
            .all(store.api_reader())
            .await?;
        Ok(Self {
            agent,
            functions,
            limits,
        })
    }

    /// Reads the field `draft` of a form. Returns the agent as it is saved if there is none.
    pub fn changed(&self, form: &mut FormReader<'_>) -> agent::Model {
        self.draft(form).unwrap_or_else(|| self.agent.clone())
    }

    /// As [`Self::changed`], for a call: none if the call needs no settings of its own. An agent that takes no calls is tried with
    /// a draft that changes nothing, too: the dashboard sends its whole form.
    pub fn draft_of_call(&self, form: &mut FormReader<'_>) -> Option<agent::Model> {
        let tried = self.draft(form);
        tried.filter(|tried| self.is_draft(tried) || !self.agent.is_active)
    }

    fn draft(&self, form: &mut FormReader<'_>) -> Option<agent::Model> {
        let names: Vec<String> = self.functions.iter().map(|it| it.name.clone()).collect();
        let saved = &self.agent;
        let mut is_sent = false;
        let tried = form.merged("draft", saved.clone(), saved.clone(), |form, agent| {
            is_sent = true;
            fields::read_into(form, agent, Some(&names), self.limits)
        });
        is_sent.then_some(tried)
    }

    /// True if `tried` differs from what is saved.
    pub fn is_draft(&self, tried: &agent::Model) -> bool {
        *tried != self.agent
    }

    /// The settings of a call with the tried agent, as JSON. Errors: they weigh more than those of any agent can.
    pub fn settings(self, tried: agent::Model) -> Result<String, ApiError> {
        let settings = serde_json::to_string(&CallSettings::new(tried, self.functions));
        let settings = settings.map_err(|_| ApiError::Internal)?;
        if i64::try_from(settings.len()).is_ok_and(|bytes| bytes <= AGENT_BYTES_MAX) {
            return Ok(settings);
        }
        let predicate = format!(
            "makes an agent of more than {} KiB",
            AGENT_BYTES_MAX / 1_024
        );
        let fault = ValueFault::new(FieldCode::TooLarge, predicate);
        Err(ApiError::field(fault.in_field("draft")))
    }
}
