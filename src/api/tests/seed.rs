//! A tenant with one of everything.

use dikala_entities::{
    API_KEY_SCHEME, AgentId, ApiKeyId, BridgeId, CallId, CallStatus, DeliveryId, DeliveryStatus,
    EventId, EventKind, FunctionId, FunctionMethod, HangupInitiator, HangupReason, Language,
    Millis, OutboundUrl, PhoneNumber, PhoneNumberId, Place, Plan, Secret, Store, TenantId,
    UrlPolicy, Vault, WebhookId, agent, api_key, call, event, function, phone_number, tenant,
    webhook::{self, NewWebhook},
};
use sea_orm::{ActiveModelTrait, EntityTrait, IntoActiveModel, ModelTrait};
use serde_json::json;

use super::world::{FUNCTION_SECRET, WEBHOOK_SECRET, write_delivery};

pub struct Seed {
    pub tenant: TenantId,
    pub key: String,
    pub key_id: ApiKeyId,
    pub agent: AgentId,
    pub number: PhoneNumberId,
    pub did: PhoneNumber,
    pub running: CallId,
    pub ended: CallId,
    pub webhook: WebhookId,
    pub delivery: DeliveryId,
}

async fn insert<M>(store: &Store, row: M)
where
    M: ModelTrait + IntoActiveModel<<M::Entity as EntityTrait>::ActiveModel>,
    <M::Entity as EntityTrait>::ActiveModel: ActiveModelTrait<Entity = M::Entity>,
{
    M::Entity::insert(row.into_active_model())
        .exec_without_returning(store.writer())
        .await
        .expect("inserts");
}

pub fn url(text: &str) -> OutboundUrl {
    OutboundUrl::parse(text, UrlPolicy::default()).expect("a URL")
}

/// What a call from before there were versions carries.
pub fn settings(agent: AgentId, escalation_number: Option<&str>) -> String {
    json!({
        "id": agent, "name": "Front desk", "systemPrompt": "Be kind.", "voiceId": null, "greetingText": null,
        "language": "id", "maxCallDurationMinutes": 10, "escalationNumber": escalation_number,
        "tools": [], "functions": []
    })
    .to_string()
}

impl Seed {
    pub async fn new(store: &Store, vault: &Vault, now: Millis) -> Self {
        let (tenant, key) = (TenantId::new(now), API_KEY_SCHEME.generate());
        let number = PhoneNumberId::new(now);
        let did = format!("+62{}", 10_000_000 + number.as_u128() % 89_999_999);
        let seed = Self {
            tenant,
            key: key.expose().to_owned(),
            key_id: ApiKeyId::new(now),
            agent: AgentId::new(now),
            number,
            did: did.parse().expect("a number"),
            running: CallId::new(now),
            ended: CallId::new(now),
            webhook: WebhookId::new(now),
            delivery: DeliveryId::new(now),
        };
        seed.write_account(store, vault, now, &key).await;
        seed.write_agent(store, now).await;
        insert(store, seed.call(seed.running, CallStatus::Answered, now)).await;
        insert(
            store,
            seed.call(seed.ended, CallStatus::Ended, now.plus_ms(-60_000)),
        )
        .await;
        insert(store, seed.event(now)).await;
        let webhook = seed.webhook_row(vault, now);
        insert(store, webhook.clone()).await;
        let delivery = write_delivery(store, &webhook, now, DeliveryStatus::Failed).await;
        Self { delivery, ..seed }
    }

    async fn write_account(
        &self,
        store: &Store,
        vault: &Vault,
        now: Millis,
        key: &dikala_entities::Credential,
    ) {
        let secret = Secret::new(FUNCTION_SECRET);
        insert(
            store,
            tenant::Model {
                id: self.tenant,
                name: "Klinik".into(),
                plan: Plan::Enterprise,
                rate_limit: Some(100_000),
                max_concurrent_calls: None,
                function_secret: vault.seal(Place::FunctionSecret, self.tenant, &secret),
                suspended_at: None,
                created_at: now,
                updated_at: now,
            },
        )
        .await;
        insert(
            store,
            api_key::Model {
                id: self.key_id,
                tenant_id: self.tenant,
                name: "test".into(),
                prefix: key.prefix().into(),
                hash: key.hash(),
                created_at: now,
                last_used_at: None,
                revoked_at: None,
                made_by: None,
            },
        )
        .await;
    }

    async fn write_agent(&self, store: &Store, now: Millis) {
        insert(
            store,
            agent::Model {
                id: self.agent,
                tenant_id: self.tenant,
                name: "Front desk".into(),
                system_prompt: "Be kind.".into(),
                voice_id: None,
                greeting_text: None,
                language: Language::default(),
                max_call_duration_minutes: 10,
                escalation_number: None,
                tools_enabled: json!(["end_call", "check_stock"]).to_string(),
                is_active: true,
                created_at: now,
                updated_at: now,
                version: 0,
                weight: 0,
            },
        )
        .await;
        insert(
            store,
            function::Model {
                id: FunctionId::new(now),
                tenant_id: self.tenant,
                agent_id: self.agent,
                name: "check_stock".into(),
                description: "Stock".into(),
                endpoint: url("https://example.com/stock"),
                method: FunctionMethod::Get,
                parameters: json!({"type": "object", "properties": {}, "required": []}).to_string(),
                created_at: now,
                updated_at: now,
            },
        )
        .await;
        insert(
            store,
            phone_number::Model {
                id: self.number,
                tenant_id: self.tenant,
                did: self.did.clone(),
                label: "Main".into(),
                is_active: true,
                agent_id: Some(self.agent),
                created_at: now,
                updated_at: now,
            },
        )
        .await;
    }

    pub fn call(&self, id: CallId, status: CallStatus, started_at: Millis) -> call::Model {
        let over = status.is_final();
        call::Model {
            traceparent: None,
            id,
            tenant_id: self.tenant,
            bridge_id: BridgeId::new(started_at),
            bridge_call_id: id.to_string(),
            phone_number_id: self.number,
            agent_id: Some(self.agent),
            caller_number: "+6281298765432".parse().expect("a caller"),
            callee_number: "+6281234567890".parse().expect("a number"),
            status,
            started_at,
            answered_at: Some(started_at.plus_ms(4_000)),
            ended_at: over.then(|| started_at.plus_ms(34_000)),
            duration_seconds: over.then_some(34),
            talk_time_seconds: over.then_some(30),
            hangup_reason: over.then_some(HangupReason::Normal),
            hangup_initiator: over.then_some(HangupInitiator::Caller),
            transcript_summary: None,
            ai_cost_idr: over.then_some(0),
            metadata: json!({"campaign": "x"}).to_string(),
            settings: Some(settings(self.agent, Some("+628111111111"))),
            agent_version: None,
            pending: None,
            answer_message_id: None,
            failure_detail: None,
            last_sign_at: started_at,
            owner: "n1".into(),
            epoch: 1,
        }
    }

    fn event(&self, now: Millis) -> event::Model {
        event::Model {
            id: EventId::new(now),
            tenant_id: self.tenant,
            call_id: Some(self.ended),
            kind: EventKind::CallAnswered,
            occurred_at: now,
            body:
                json!({"event": "call.answered", "timestamp": now, "data": {"callId": self.ended}})
                    .to_string(),
            position: None,
            is_test: false,
        }
    }

    fn webhook_row(&self, vault: &Vault, now: Millis) -> webhook::Model {
        let new = NewWebhook {
            id: self.webhook,
            tenant: self.tenant,
            url: url("https://example.com/hooks"),
            events: &[EventKind::CreditsLow],
            secret: &Secret::new(WEBHOOK_SECRET),
        };
        webhook::Model::new(new, vault, now)
    }
}

/// Writes one more call.
pub async fn write_call(store: &Store, row: call::Model) {
    insert(store, row).await;
}
