//! A tenant with one of everything.

use dikala_entities::{
    API_KEY_SCHEME, AgentId, ApiKeyId, CallId, CallStatus, DeliveryId, DeliveryStatus, EventKind,
    FunctionId, FunctionMethod, HangupInitiator, HangupReason, Millis, OutboundUrl, PhoneNumber,
    PhoneNumberId, Plan, Secret, SecretPlace, Store, TenantId, UrlPolicy, Vault, WIDGET_SCHEME,
    WebhookId, WidgetId, agent, api_key, call, event, function, phone_number, tenant,
    webhook::{self, NewWebhook},
    widget,
};
use dikala_testkit::rows;
use serde_json::json;

use super::world::{FUNCTION_SECRET, WEBHOOK_SECRET, write_delivery};

pub struct TenantSeed {
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
    pub widget: WidgetId,
}

pub fn url(text: &str) -> OutboundUrl {
    OutboundUrl::parse(text, UrlPolicy::default()).expect("a URL")
}

/// The settings of a call from before agents had versions.
pub fn settings(agent: AgentId, escalation_number: Option<&str>) -> String {
    json!({
        "id": agent, "name": "Front desk", "systemPrompt": "Be kind.", "voiceId": null, "greetingText": null,
        "language": "id", "maxCallDurationMinutes": 10, "escalationNumber": escalation_number,
        "tools": [], "functions": []
    })
    .to_string()
}

impl TenantSeed {
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
            widget: WidgetId::new(now),
        };
        seed.write_account(store, vault, now, &key).await;
        seed.write_agent(store, now).await;
        seed.write_widget(store, now).await;
        rows::insert(
            store.writer(),
            seed.call(seed.running, CallStatus::Answered, now),
        )
        .await;
        rows::insert(
            store.writer(),
            seed.call(seed.ended, CallStatus::Ended, now.plus_ms(-60_000)),
        )
        .await;
        rows::insert(store.writer(), seed.event(now)).await;
        let webhook = seed.webhook_row(vault, now);
        rows::insert(store.writer(), webhook.clone()).await;
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
        rows::insert(
            store.writer(),
            tenant::Model {
                id: self.tenant,
                name: "Klinik".into(),
                plan: Plan::Enterprise,
                rate_limit: Some(100_000),
                max_concurrent_calls: None,
                function_secret: vault.seal(SecretPlace::FunctionSecret, self.tenant, &secret),
                suspended_at: None,
                created_at: now,
                updated_at: now,
            },
        )
        .await;
        rows::insert(
            store.writer(),
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
        rows::insert(
            store.writer(),
            agent::Model {
                id: self.agent,
                name: "Front desk".into(),
                system_prompt: "Be kind.".into(),
                tools_enabled: json!(["end_call", "check_stock"]).to_string(),
                ..rows::agent(self.tenant, now)
            },
        )
        .await;
        rows::insert(
            store.writer(),
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
        rows::insert(
            store.writer(),
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

    async fn write_widget(&self, store: &Store, now: Millis) {
        rows::insert(
            store.writer(),
            widget::Model {
                id: self.widget,
                tenant_id: self.tenant,
                agent_id: self.agent,
                name: "Shop".into(),
                key: WIDGET_SCHEME.generate().expose().into(),
                origins: json!(["https://shop.example.com"]).to_string(),
                calls_per_visitor: 5,
                max_concurrent: 5,
                texts: "{}".into(),
                color: None,
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
            bridge_call_id: id.to_string(),
            phone_number_id: Some(self.number),
            agent_id: Some(self.agent),
            status,
            answered_at: Some(started_at.plus_ms(4_000)),
            ended_at: over.then(|| started_at.plus_ms(34_000)),
            duration_seconds: over.then_some(34),
            talk_time_seconds: over.then_some(30),
            hangup_reason: over.then_some(HangupReason::Normal),
            hangup_initiator: over.then_some(HangupInitiator::Caller),
            ai_cost_idr: over.then_some(0),
            metadata: json!({"campaign": "x"}).to_string(),
            settings: Some(settings(self.agent, Some("+628111111111"))),
            ..rows::call(self.tenant, started_at)
        }
    }

    fn event(&self, now: Millis) -> event::Model {
        event::Model {
            call_id: Some(self.ended),
            position: Some(0),
            kind: EventKind::CallAnswered,
            body:
                json!({"event": "call.answered", "timestamp": now, "data": {"callId": self.ended}})
                    .to_string(),
            ..rows::event(self.tenant, now)
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

pub async fn write_call(store: &Store, row: call::Model) {
    rows::insert(store.writer(), row).await;
}
