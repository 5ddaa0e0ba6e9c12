//! What operators can set of how requests are taken.

use std::time::Duration;

use dikala_entities::Plan;
use ipnet::IpNet;

/// How requests are taken, and how many.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// How long a body may take to arrive.
    pub body_timeout: Duration,
    /// Requests a minute of each plan, for tenants without a figure of their own.
    pub starter_per_minute: u32,
    pub business_per_minute: u32,
    pub enterprise_per_minute: u32,
    /// Requests a minute of one address without a valid key.
    pub unauthenticated_per_minute: u32,
    /// Proxies that are believed when they say from whom a request comes.
    pub trusted_proxies: Vec<IpNet>,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            body_timeout: Duration::from_secs(10),
            starter_per_minute: 60,
            business_per_minute: 300,
            enterprise_per_minute: 1_000,
            unauthenticated_per_minute: 60,
            trusted_proxies: Vec::new(),
        }
    }
}

impl HttpSettings {
    /// Requests a minute of a plan.
    pub const fn per_minute(&self, plan: Plan) -> u32 {
        match plan {
            Plan::Starter => self.starter_per_minute,
            Plan::Business => self.business_per_minute,
            Plan::Enterprise => self.enterprise_per_minute,
        }
    }
}
