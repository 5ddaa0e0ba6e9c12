//! Lists of agents and of their versions.

use actix_web::{HttpResponse, web::Data};
use dikala_entities::{AgentId, agent, kept_version};
use utoipa::ToSchema;

use super::listing::{self, Listing};
use crate::{
    api::context::Services,
    http::{
        error::ApiError,
        extract::{Id, Query, TenantRequest},
    },
    operations::{
        OperationContext,
        agents::{AgentSummary, AgentVersion, versions_of},
    },
};

/// Agents per query of a list.
const BATCH: u64 = 8;
/// Versions per query of a list.
const VERSIONS_BATCH: u64 = 4;

/// The versions of an agent that are kept, oldest first; with `limit` or `offset` a page of them.
#[derive(Clone, Debug, ToSchema)]
#[schema(rename_all = "camelCase", example = json!({"versions": []}))]
#[expect(dead_code, reason = "the description of what is written row by row")]
pub struct AgentVersionList {
    pub versions: Vec<AgentVersion>,
    pub limit: i64,
    pub offset: i64,
    pub has_more: bool,
}

/// `GET /agents`
pub async fn list_all(
    context: OperationContext,
    caller: TenantRequest,
    services: Data<Services>,
    query: Query,
) -> Result<HttpResponse, ApiError> {
    let list = Listing {
        key: "agents",
        rows: context.rows::<agent::Entity>(),
        by: agent::Column::Id,
        batch: BATCH,
        show: listing::json::<AgentSummary, _>,
    };
    listing::answer(services, &caller, &query, list).await
}

/// `GET /agents/{id}/versions`
pub async fn list_versions(
    context: OperationContext,
    caller: TenantRequest,
    services: Data<Services>,
    id: Id<AgentId>,
    query: Query,
) -> Result<HttpResponse, ApiError> {
    let list = Listing {
        key: "versions",
        rows: versions_of(&context, id.0).await?,
        by: kept_version::Column::Version,
        batch: VERSIONS_BATCH,
        show: listing::json::<AgentVersion, _>,
    };
    listing::answer(services, &caller, &query, list).await
}
