//! The list of a tenant's webhooks.

use actix_web::{HttpResponse, web::Data};
use dikala_entities::webhook;
use utoipa::ToSchema;

use super::listing::{self, Listing};
use crate::{
    api::context::Services,
    http::{
        error::ApiError,
        extract::{Query, TenantRequest},
    },
    operations::{OperationContext, webhooks::Webhook},
};

/// Webhooks per query of a list.
const BATCH: u64 = 20;

/// All webhooks of the tenant; with `limit` or `offset` a page of them.
#[derive(Clone, Debug, ToSchema)]
#[schema(rename_all = "camelCase", example = json!({"webhooks": []}))]
#[expect(dead_code, reason = "the description of what is written row by row")]
pub struct WebhookList {
    pub webhooks: Vec<Webhook>,
    pub limit: i64,
    pub offset: i64,
    pub has_more: bool,
}

/// `GET /webhooks`
pub async fn list_all(
    context: OperationContext,
    caller: TenantRequest,
    services: Data<Services>,
    query: Query,
) -> Result<HttpResponse, ApiError> {
    let list = Listing {
        key: "webhooks",
        rows: context.rows::<webhook::Entity>(),
        by: webhook::Column::Id,
        batch: BATCH,
        show: listing::json::<Webhook, _>,
    };
    listing::answer(services, &caller, &query, list).await
}
