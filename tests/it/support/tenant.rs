//! A customer of the service with everything that a call needs.

use std::sync::atomic::{AtomicU32, Ordering};

use dikala_testkit::eventually;
use serde_json::{Value, json};

use super::{
    bridge::{BridgeTransport, TestBridge},
    rest::Rest,
    server::Server,
};

/// Settings of a new tenant.
#[derive(Clone, Debug)]
pub struct TenantPlan {
    pub minutes: u32,
    pub low_threshold: Option<u32>,
    pub concurrent_calls: Option<u32>,
}

/// A tenant with key, number, agent, bridge and credit.
pub struct Tenant {
    pub id: String,
    pub key: String,
    pub did: String,
    pub number: String,
    pub agent: String,
    pub token: String,
    pub api: Rest,
    base: String,
}

impl Tenant {
    /// Creates all of it through the APIs of a running server.
    pub async fn create(server: &Server, plan: &TenantPlan) -> Self {
        let operator = server.operator_api();
        let create = async |path: &str, body: Value| operator.post(path, body).await.expect(201);
        let mut tenant = json!({"name": "Toko", "plan": "enterprise", "rateLimit": 1_000_000});
        let options = [
            ("lowCreditThreshold", plan.low_threshold),
            ("maxConcurrentCalls", plan.concurrent_calls),
        ];
        for (name, value) in options {
            if let Some(value) = value {
                tenant[name] = json!(value);
            }
        }
        let id = text(&create("/tenants", tenant).await, "id");
        let keys = format!("/tenants/{id}/keys");
        let did = fresh_did();
        let number = json!({"tenantId": id, "did": did, "label": "Main"});
        let (key, number, bridge) = tokio::join!(
            create(&keys, json!({"name": "test"})),
            create("/numbers", number),
            create("/bridges", json!({"name": "sip"})),
        );
        if plan.minutes > 0 {
            let purchase = json!({"minutes": plan.minutes, "reference": "initial"});
            create(&format!("/tenants/{id}/credits/transactions"), purchase).await;
        }
        let key = text(&key, "key");
        let api = Rest::new(&format!("{}/api/v1", server.http)).with("x-api-key", &key);
        let mut tenant = Self {
            number: text(&number, "id"),
            token: text(&bridge, "token"),
            agent: String::new(),
            base: server.http.clone(),
            id,
            key,
            did,
            api,
        };
        tenant.agent = tenant.create_agent(json!({})).await;
        tenant.assign(&tenant.agent).await;
        tenant
    }

    /// Creates an agent with these fields besides the required ones; returns its id.
    pub async fn create_agent(&self, fields: Value) -> String {
        let mut agent = json!({"name": "Sari", "systemPrompt": "Answer kindly."});
        agent
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        text(&self.api.post("/agents", agent).await.expect(201), "id")
    }

    pub async fn assign(&self, agent: &str) {
        let path = format!("/phone-numbers/{}/assign-agent", self.number);
        self.api
            .post(&path, json!({"agentId": agent}))
            .await
            .expect(200);
    }

    pub async fn change_agent(&self, fields: Value) {
        self.api
            .patch(&format!("/agents/{}", self.agent), fields)
            .await
            .expect(200);
    }

    pub async fn create_function(&self, name: &str, method: &str, endpoint: &str) {
        let parameters = json!({
            "type": "object",
            "properties": {"orderId": {"type": "string", "description": "The order."}},
            "required": ["orderId"],
        });
        let function = json!({
            "name": name, "description": "Looks an order up.", "endpoint": endpoint, "method": method,
            "parameters": parameters,
        });
        self.api
            .post(&format!("/agents/{}/functions", self.agent), function)
            .await
            .expect(201);
    }

    /// Registers a webhook; returns its id.
    pub async fn subscribe(&self, url: &str, events: &[&str], secret: &str) -> String {
        let webhook = json!({"url": url, "events": events, "secret": secret});
        text(&self.api.post("/webhooks", webhook).await.expect(201), "id")
    }

    /// The tenant's bridge, connected.
    pub async fn bridge(&self, transport: BridgeTransport) -> TestBridge {
        TestBridge::open(&self.base, &self.token, transport).await
    }

    pub async fn call(&self, id: &str) -> Value {
        self.api.get(&format!("/calls/{id}")).await.expect(200)
    }

    /// All calls, newest first.
    pub async fn calls(&self) -> Vec<Value> {
        self.all("/calls", "calls").await
    }

    /// Waits until a call has ended.
    pub async fn call_over(&self, id: &str) -> Value {
        eventually(&format!("{id} to end"), async || {
            let call = self.call(id).await;
            (!call["endedAt"].is_null()).then_some(call)
        })
        .await
    }

    /// `(balance, purchased, used)` in minutes.
    pub async fn credits(&self) -> (i64, i64, i64) {
        let credits = self.api.get("/credits").await.expect(200);
        assert_eq!(credits.as_object().unwrap().len(), 3, "{credits}");
        let figure = |name: &str| credits[name].as_i64().unwrap();
        (
            figure("balanceMinutes"),
            figure("lifetimePurchasedMinutes"),
            figure("lifetimeUsedMinutes"),
        )
    }

    /// Transactions, newest first.
    pub async fn transactions(&self) -> Vec<Value> {
        self.all("/credits/transactions", "transactions").await
    }

    /// The items of all pages of a list.
    async fn all(&self, path: &str, name: &str) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let page = format!("{path}?limit=100&offset={}", all.len());
            let page = self.api.get(&page).await.expect(200);
            all.extend(page[name].as_array().unwrap().iter().cloned());
            if page["hasMore"] == false {
                return all;
            }
        }
    }

    /// The minutes billed for a call: those of its usage transaction, of which there is at most one.
    pub async fn billed(&self, call: &str) -> Option<i64> {
        let transactions = self.transactions().await;
        let mut of_call = transactions.iter().filter(|t| t["callId"] == call);
        let usage = of_call.next();
        assert!(
            of_call.next().is_none(),
            "{call} has more than one transaction: {transactions:?}"
        );
        usage.map(|usage| {
            assert_eq!(usage["type"], "usage");
            -usage["minutes"].as_i64().unwrap()
        })
    }
}

/// Books a purchase; returns the transaction.
pub fn top_up(server: &Server, tenant: &str, minutes: u32, reference: &str) -> Value {
    let minutes = minutes.to_string();
    server.cli(&[
        "credits",
        "add",
        "--tenant",
        tenant,
        "--minutes",
        &minutes,
        "--reference",
        reference,
    ])
}

/// A phone number that no other test of this process uses.
pub fn fresh_did() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("+62811{:07}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// An email address that no other test of this process uses.
pub fn fresh_email(name: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!(
        "{name}{}@example.com",
        COUNT.fetch_add(1, Ordering::Relaxed)
    )
}

/// A text field of an answer.
#[track_caller]
pub fn text(value: &Value, field: &str) -> String {
    value[field]
        .as_str()
        .unwrap_or_else(|| panic!("no {field} in {value}"))
        .to_owned()
}
