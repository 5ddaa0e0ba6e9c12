//! Limits on the size of a tenant's agents, because every call, list and version carries it.

use dikala_actors::calls::versions::{self, KEPT_MAX};
use dikala_entities::{Millis, agent, store::Transaction, tenant};
use sea_orm::{EntityTrait, QuerySelect};

use crate::{
    http::{
        error::{ApiError, Missing},
        field::{FieldCode, ValueFault},
    },
    operations::AgentLimits,
};

/// The largest agent with its functions, in bytes of JSON.
pub const AGENT_BYTES_MAX: i64 = 256 * 1024;

/// A tenant's present and earlier versions may weigh this many times its configuration limit. Versions that calls
/// name do not count. This is enough for the newest versions of every agent, and the changes of a few minutes.
const KEPT_TIMES: i64 = KEPT_MAX + 2;

/// Fields with sizes in bytes.
pub type FieldSizes = Vec<(&'static str, usize)>;

/// The growth of each field.
pub fn growth(before: &FieldSizes, after: FieldSizes) -> FieldSizes {
    let grown = after.into_iter().zip(before);
    grown
        .map(|((field, after), (_, before))| (field, after.saturating_sub(*before)))
        .collect()
}

/// Records the version after a change of an agent or its functions. Refuses it if the agent or the account became too
/// heavy, or if there is no room for more versions. The error names the field that grew most. A change that adds no
/// weight is never refused for weight.
pub async fn renew(
    txn: &Transaction,
    limits: &AgentLimits,
    agent: agent::Model,
    growth: &FieldSizes,
    now: Millis,
) -> Result<agent::Model, ApiError> {
    let recorded = versions::record(txn, &agent, now).await?;
    if recorded.version != agent.version {
        // Under the tenant's row lock, so that two concurrent requests cannot both take the last room.
        let tenant = tenant::Entity::find_by_id(agent.tenant_id)
            .lock_exclusive()
            .one(txn)
            .await?
            .ok_or(ApiError::NotFound(Missing::Agent))?;
        let most = limits.configuration_bytes(tenant.plan);
        if recorded.weight > agent.weight {
            expect_light(txn, &agent, recorded.weight, growth, most).await?;
        }
        expect_room(txn, &agent, recorded.version, most, now).await?;
    }
    Ok(agent::Model {
        version: recorded.version,
        weight: recorded.weight,
        ..agent
    })
}

async fn expect_light(
    txn: &Transaction,
    agent: &agent::Model,
    weight: i64,
    growth: &FieldSizes,
    most: i64,
) -> Result<(), ApiError> {
    let blame = growth.iter().max_by_key(|(_, bytes)| *bytes);
    let field = blame.map_or("name", |(field, _)| *field);
    let too_large = |predicate: String, sentence| {
        let fault = ValueFault::new(FieldCode::TooLarge, predicate).in_words(sentence);
        Err(ApiError::field(fault.in_field(field)))
    };
    if weight > AGENT_BYTES_MAX {
        let predicate = format!(
            "makes the agent with its functions weigh {weight} bytes of JSON of at most {AGENT_BYTES_MAX}; shorten it, or delete \
             a function"
        );
        return too_large(predicate, "fault-agent-too-large");
    }
    let all = versions::weight_of_all(txn, agent.tenant_id).await?;
    if all > most {
        let predicate = format!(
            "makes all agents of the account with their functions weigh {all} bytes of JSON of at most {most}; shorten it, or \
             delete an agent"
        );
        return too_large(predicate, "fault-agents-too-large");
    }
    Ok(())
}

/// Removes earlier versions of this agent if there is no room.
async fn expect_room(
    txn: &Transaction,
    agent: &agent::Model,
    version: i64,
    most: i64,
    now: Millis,
) -> Result<(), ApiError> {
    let most = most.saturating_mul(KEPT_TIMES);
    if versions::are_within(txn, agent.tenant_id, most).await? {
        return Ok(());
    }
    versions::make_room(txn, agent.id, version, now).await?;
    if versions::are_within(txn, agent.tenant_id, most).await? {
        return Ok(());
    }
    Err(ApiError::TooManyVersions(most))
}
