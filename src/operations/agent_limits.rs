//! The operator's limits on agents.

use dikala_entities::{Plan, TransferPrefixes, VoiceProvider};

/// Default limit on the total weight of a tenant's agents.
const CONFIGURATION_BYTES: i64 = 16 * 1024 * 1024;

/// The providers that the installation has configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredVoices {
    /// The provider of agents that name none.
    pub default: VoiceProvider,
    pub available: Vec<VoiceProvider>,
}

impl Default for ConfiguredVoices {
    /// The test voice, which needs no configuration.
    fn default() -> Self {
        Self {
            default: VoiceProvider::Scripted,
            available: vec![VoiceProvider::Scripted],
        }
    }
}

/// The operator's limits on agents.
#[derive(Clone, Debug)]
pub struct AgentLimits {
    /// The numbers that calls may be transferred to.
    pub transfers: TransferPrefixes,
    /// The voices that agents can have.
    pub voices: ConfiguredVoices,
    /// Limits on the total weight of a tenant's agents, in bytes, by plan.
    pub starter_configuration_bytes: i64,
    pub business_configuration_bytes: i64,
    pub enterprise_configuration_bytes: i64,
}

impl Default for AgentLimits {
    fn default() -> Self {
        Self {
            transfers: TransferPrefixes::default(),
            voices: ConfiguredVoices::default(),
            starter_configuration_bytes: CONFIGURATION_BYTES,
            business_configuration_bytes: CONFIGURATION_BYTES,
            enterprise_configuration_bytes: CONFIGURATION_BYTES,
        }
    }
}

impl AgentLimits {
    /// The limit on the total weight of a tenant's agents, in bytes.
    pub const fn configuration_bytes(&self, plan: Plan) -> i64 {
        match plan {
            Plan::Starter => self.starter_configuration_bytes,
            Plan::Business => self.business_configuration_bytes,
            Plan::Enterprise => self.enterprise_configuration_bytes,
        }
    }
}
