//! Operators' settings of request processing.

use std::time::Duration;

use dikala_entities::Plan;
use ipnet::IpNet;

/// Limits of request processing.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// Longest time for a body to arrive.
    pub body_timeout: Duration,
    /// Requests a minute by plan, for tenants without a limit of their own.
    pub starter_per_minute: u32,
    pub business_per_minute: u32,
    pub enterprise_per_minute: u32,
    /// Requests a minute of one address without a valid key.
    pub unauthenticated_per_minute: u32,
    /// Proxies that are trusted to report the client's address.
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
    pub const fn per_minute(&self, plan: Plan) -> u32 {
        match plan {
            Plan::Starter => self.starter_per_minute,
            Plan::Business => self.business_per_minute,
            Plan::Enterprise => self.enterprise_per_minute,
        }
    }
}
