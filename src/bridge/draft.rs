//! The `draft` of a call from a browser: changes of the agent for that call alone.

use dikala_entities::{AgentId, BridgeId, Store, TenantId};
use dikala_protocol::{CalledParty, ErrorCode, IncomingCall, ReplyError};
use sea_orm::{ConnectionTrait, DbErr, FromQueryResult, Statement};
use serde_json::{Map, Value};

use crate::{
    http::{error::ApiError, extract::FormFields},
    operations::{
        AgentLimits,
        agents::{self, draft::SavedAgent},
    },
};

/// Faults of a draft that a reply names; a draft can have thousands.
const FAULTS_MAX: usize = 10;

/// Reads drafts; cheap to clone.
#[derive(Clone, Debug)]
pub struct DraftReader {
    store: Store,
    limits: AgentLimits,
}

#[derive(FromQueryResult)]
struct AgentOwner {
    tenant_id: TenantId,
}

impl DraftReader {
    pub fn new(store: Store, limits: AgentLimits) -> Self {
        Self { store, limits }
    }

    /// Takes the draft out of a message and returns the settings of the call, as JSON. `None` if the call needs none, or is
    /// refused anyway: the agent is not there, or not the bridge's to call.
    pub async fn take(
        &self,
        bridge: BridgeId,
        incoming: &mut IncomingCall,
    ) -> Result<Option<String>, ReplyError> {
        match (incoming.draft.take(), &incoming.called) {
            (Some(draft), CalledParty::Agent(agent)) => {
                match self.settings(bridge, *agent, draft).await {
                    // The agent may have changed since the call was taken.
                    Err(_) if self.is_known(bridge, &incoming.bridge_call_id).await => Ok(None),
                    settings => settings.map_err(refusal),
                }
            }
            _ => Ok(None),
        }
    }

    async fn settings(
        &self,
        bridge: BridgeId,
        agent: AgentId,
        draft: Map<String, Value>,
    ) -> Result<Option<String>, ApiError> {
        let Some(tenant) = self.tenant(bridge, agent).await? else {
            return Ok(None);
        };
        let agent = match agents::find(self.store.api_reader(), tenant, agent).await {
            Err(ApiError::NotFound(_)) => return Ok(None),
            found => found?,
        };
        let saved = SavedAgent::read(&self.store, agent, &self.limits).await?;
        let form = FormFields::from_body(Value::Object(Map::from_iter([(
            "draft".to_owned(),
            Value::Object(draft),
        )])))?;
        let tried = form.read(&[], |form| Some(saved.draft_of_call(form)))?;
        tried.map(|tried| saved.settings(tried)).transpose()
    }

    /// True if the message repeats that of a call.
    async fn is_known(&self, bridge: BridgeId, bridge_call: &str) -> bool {
        let find = Statement::from_sql_and_values(
            self.store.backend(),
            "SELECT 1 FROM calls WHERE bridge_id = $1 AND bridge_call_id = $2",
            [bridge.into(), bridge_call.into()],
        );
        let known = self.store.api_reader().query_one_raw(find).await;
        known.is_ok_and(|known| known.is_some())
    }

    /// The tenant of an agent that the bridge may call.
    async fn tenant(&self, bridge: BridgeId, agent: AgentId) -> Result<Option<TenantId>, DbErr> {
        let find = Statement::from_sql_and_values(
            self.store.backend(),
            "SELECT a.tenant_id FROM agents a JOIN bridges b ON b.id = $1 AND b.is_web WHERE a.id = $2",
            [bridge.into(), agent.into()],
        );
        let owner = AgentOwner::find_by_statement(find)
            .one(self.store.api_reader())
            .await?;
        Ok(owner.map(|owner| owner.tenant_id))
    }
}

fn refusal(error: ApiError) -> ReplyError {
    match error {
        ApiError::Validation(errors) => {
            let messages = errors
                .iter()
                .take(FAULTS_MAX)
                .map(|error| match &error.message {
                    message if message.starts_with(&error.field) => message.clone(),
                    message => format!("{}: {message}", error.field),
                });
            ReplyError::invalid(messages.collect::<Vec<_>>().join(" "))
        }
        _ => ReplyError::of(ErrorCode::Unavailable),
    }
}
