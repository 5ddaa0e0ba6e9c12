//! The complete lists: all rows of the tenant, oldest first; with `limit` or `offset` a page of them.

use actix_web::{HttpResponse, web::Data};
use dikala_entities::{
    AgentId, CallId, EventKind, agent, event, function, kept_version, phone_number, webhook, widget,
};
use sea_orm::{ColumnTrait, QueryFilter};
use utoipa::ToSchema;

use super::{
    events::EventView,
    listing::{self, Listing},
};
use crate::{
    api::context::Services,
    http::{
        error::ApiError,
        extract::{Id, Query},
    },
    operations::{
        OperationContext,
        agents::{self, AgentSummary, AgentVersion, versions_of},
        calls::{self, CallView},
        functions::Function,
        numbers::PhoneNumberView,
        webhooks::Webhook,
        widgets::Widget,
    },
};

/// Declares the description of a list, with an example.
macro_rules! described_lists {
    ($($(#[$doc:meta])* $name:ident { $field:ident: $row:ty } $example:tt)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, ToSchema)]
        #[schema(rename_all = "camelCase", example = json!($example))]
        #[expect(dead_code, reason = "the description of what is written row by row")]
        pub struct $name {
            pub $field: Vec<$row>,
            pub limit: i64,
            pub offset: i64,
            pub has_more: bool,
        }
    )*};
}

described_lists! {
    /// The versions of an agent that are kept, oldest first; with `limit` or `offset` a page of them.
    AgentVersionList { versions: AgentVersion } {"versions": []}

    /// All functions of an agent; with `limit` or `offset` a page of them.
    FunctionList { functions: Function } {"functions": []}

    /// All numbers of the tenant; with `limit` or `offset` a page of them.
    PhoneNumberList { phone_numbers: PhoneNumberView } {"phoneNumbers": [{
        "id": "pn_01k9zv3m8rj2q4w6y8a0c2e4g6", "displayNumber": "+6281234567890", "label": "Main line", "isActive": true,
        "agentId": null
    }]}

    /// The events of a call, oldest first; with `limit` or `offset` a page of them.
    EventList { events: EventView } {"events": [{
        "id": "evt_01k9zv3m8rj2q4w6y8a0c2e4g6", "event": "call.answered", "timestamp": "2026-01-15T03:30:04.000Z",
        "data": {"callId": "call_01k9zv3m8rj2q4w6y8a0c2e4g6", "agentId": "agent_01k9zv3m8rj2q4w6y8a0c2e4g6",
                 "startedAt": "2026-01-15T03:30:00.000Z"}
    }]}

    /// All webhooks of the tenant; with `limit` or `offset` a page of them.
    WebhookList { webhooks: Webhook } {"webhooks": []}

    /// All widgets of the tenant; with `limit` or `offset` a page of them.
    WidgetList { widgets: Widget } {"widgets": []}
}

/// `GET /agents`
pub async fn agents(
    context: OperationContext,
    services: Data<Services>,
    query: Query,
) -> Result<HttpResponse, ApiError> {
    let list = Listing {
        key: "agents",
        rows: context.rows::<agent::Entity>(),
        by: agent::Column::Id,
        are_few: false,
        batch: 8,
        show: listing::json::<AgentSummary, _>,
    };
    listing::answer(services, &context, &query, list).await
}

/// `GET /agents/{id}/versions`
pub async fn versions(
    context: OperationContext,
    services: Data<Services>,
    id: Id<AgentId>,
    query: Query,
) -> Result<HttpResponse, ApiError> {
    let list = Listing {
        key: "versions",
        rows: versions_of(&context, id.0).await?,
        by: kept_version::Column::Version,
        are_few: false,
        batch: 4,
        show: listing::json::<AgentVersion, _>,
    };
    listing::answer(services, &context, &query, list).await
}

/// `GET /agents/{id}/functions`
pub async fn functions(
    context: OperationContext,
    services: Data<Services>,
    id: Id<AgentId>,
    query: Query,
) -> Result<HttpResponse, ApiError> {
    let db = context.store().api_reader();
    let agent = agents::find(db, context.tenant()?, id.0).await?;
    let list = Listing {
        key: "functions",
        rows: function::Entity::of_agent(&agent),
        by: function::Column::Id,
        are_few: false,
        batch: 16,
        show: listing::json::<Function, _>,
    };
    listing::answer(services, &context, &query, list).await
}

/// `GET /phone-numbers`
pub async fn phone_numbers(
    context: OperationContext,
    services: Data<Services>,
    query: Query,
) -> Result<HttpResponse, ApiError> {
    let list = Listing {
        key: "phoneNumbers",
        rows: context.rows::<phone_number::Entity>(),
        by: phone_number::Column::Id,
        are_few: false,
        batch: 100,
        show: listing::json::<PhoneNumberView, _>,
    };
    listing::answer(services, &context, &query, list).await
}

/// `GET /calls/{id}/events`
pub async fn events(
    context: OperationContext,
    services: Data<Services>,
    id: Id<CallId>,
    query: Query,
) -> Result<HttpResponse, ApiError> {
    let call: CallView = calls::show(context.clone(), id).await?;
    let list = Listing {
        key: "events",
        rows: context
            .rows::<event::Entity>()
            .filter(event::Column::CallId.eq(call.id))
            .filter(event::Column::Kind.ne(EventKind::CallTurn)),
        // In commit order: ids begin with the clock of the node that wrote them.
        by: event::Column::Position,
        are_few: true,
        batch: 8,
        show: listing::json::<EventView, _>,
    };
    listing::answer(services, &context, &query, list).await
}

/// `GET /webhooks`
pub async fn webhooks(
    context: OperationContext,
    services: Data<Services>,
    query: Query,
) -> Result<HttpResponse, ApiError> {
    let list = Listing {
        key: "webhooks",
        rows: context.rows::<webhook::Entity>(),
        by: webhook::Column::Id,
        are_few: false,
        batch: 20,
        show: listing::json::<Webhook, _>,
    };
    listing::answer(services, &context, &query, list).await
}

/// `GET /widgets`
pub async fn widgets(
    context: OperationContext,
    services: Data<Services>,
    query: Query,
) -> Result<HttpResponse, ApiError> {
    let list = Listing {
        key: "widgets",
        rows: context.rows::<widget::Entity>(),
        by: widget::Column::Id,
        are_few: false,
        batch: 20,
        show: listing::json::<Widget, _>,
    };
    listing::answer(services, &context, &query, list).await
}
