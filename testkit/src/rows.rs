//! Valid rows with neutral values, so that a test sets only what it is about.

use dikala_entities::{
    BridgeId, CallId, CallStatus, ChannelKind, DeliveryId, DeliveryStatus, EventId, EventKind,
    Millis, OutboundUrl, PhoneNumberId, Secret, TenantId, UrlPolicy, Vault, WebhookId, agent,
    attempt, call, delivery, event,
    webhook::{self, NewWebhook},
};
use sea_orm::{ActiveModelTrait, ConnectionTrait, EntityTrait, IntoActiveModel, ModelTrait};

pub async fn insert<M>(db: &impl ConnectionTrait, row: M)
where
    M: ModelTrait + IntoActiveModel<<M::Entity as EntityTrait>::ActiveModel>,
    <M::Entity as EntityTrait>::ActiveModel: ActiveModelTrait<Entity = M::Entity>,
{
    M::Entity::insert(row.into_active_model())
        .exec_without_returning(db)
        .await
        .expect("inserts");
}

/// An agent without functions.
pub fn agent(tenant: TenantId, now: Millis) -> agent::Model {
    agent::Model {
        name: "Ayu".to_owned(),
        system_prompt: "You answer.".to_owned(),
        tools_enabled: "[]".to_owned(),
        ..agent::Model::new(tenant, now)
    }
}

/// A ringing call.
pub fn call(tenant: TenantId, now: Millis) -> call::Model {
    let id = CallId::new(now);
    call::Model {
        id,
        tenant_id: tenant,
        bridge_id: BridgeId::new(now),
        bridge_call_id: id.to_string(),
        phone_number_id: Some(PhoneNumberId::new(now)),
        agent_id: None,
        caller_number: "+6281298765432".parse().expect("a caller"),
        callee_number: "+622150001000".parse().expect("a number"),
        channel: ChannelKind::Phone,
        status: CallStatus::Ringing,
        started_at: now,
        answered_at: None,
        joined_at: None,
        ended_at: None,
        duration_seconds: None,
        talk_time_seconds: None,
        hangup_reason: None,
        hangup_initiator: None,
        transcript_summary: None,
        ai_cost_idr: None,
        voice_provider: None,
        turn_latency_ms: None,
        stalls: None,
        interruptions: None,
        metadata: "{}".to_owned(),
        settings: None,
        agent_version: None,
        pending: None,
        answer_message_id: None,
        failure_detail: None,
        last_sign_at: now,
        owner: "node".to_owned(),
        epoch: 1,
        traceparent: None,
    }
}

/// An event of no call.
pub fn event(tenant: TenantId, at: Millis) -> event::Model {
    event::Model {
        id: EventId::new(at),
        tenant_id: tenant,
        call_id: None,
        kind: EventKind::CreditsLow,
        occurred_at: at,
        body: "{}".to_owned(),
        position: None,
        is_test: false,
        announced_at: None,
        subscribers: None,
    }
}

/// A new delivery of an event.
pub fn delivery(event: &event::Model, webhook: WebhookId) -> delivery::Model {
    let at = event.occurred_at;
    delivery::Model {
        id: DeliveryId::new(at),
        tenant_id: event.tenant_id,
        webhook_id: webhook,
        event_id: event.id,
        call_id: event.call_id,
        kind: event.kind,
        status: DeliveryStatus::Pending,
        attempts: 0,
        next_attempt_at: None,
        is_test: event.is_test,
        created_at: at,
        completed_at: None,
    }
}

/// The first attempt of a delivery, answered with 200.
pub fn attempt(delivery: &delivery::Model) -> attempt::Model {
    attempt::Model {
        delivery_id: delivery.id,
        number: 1,
        tenant_id: delivery.tenant_id,
        started_at: delivery.created_at,
        duration_ms: 1,
        status_code: Some(200),
        error_kind: None,
        response: Vec::new(),
    }
}

/// A webhook for these events, at an address where nothing listens, with an unusable secret.
pub fn webhook(
    id: WebhookId,
    tenant: TenantId,
    events: &[EventKind],
    now: Millis,
) -> webhook::Model {
    let vault = Vault::from_base64(&Vault::generate_key()).expect("a key");
    let new = NewWebhook {
        id,
        tenant,
        url: OutboundUrl::parse("https://example.com/hook", UrlPolicy::default()).expect("a URL"),
        events,
        secret: &Secret::new("secret-of-a-row"),
    };
    webhook::Model::new(new, &vault, now)
}
