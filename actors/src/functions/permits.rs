//! Limits of concurrent invocations: in all, per tenant and per endpoint. Tests have limits of their own; each call
//! limits its invocations itself.

use dikala_entities::{OutboundUrl, TenantId};

use super::{FunctionsConfig, Invoke};
use crate::runtime::shared_limit::{SharedLimit, SharedPermit};

/// Concurrent tests in all and of one tenant.
const TESTS_MAX: usize = 64;
const TESTS_PER_TENANT_MAX: usize = 4;
/// No global limit: the tenants' shares bound it already.
const NO_TOTAL: usize = usize::MAX;

#[derive(Clone, Debug)]
pub(super) struct Permits {
    tenants: SharedLimit<TenantId>,
    endpoints: SharedLimit<(TenantId, OutboundUrl)>,
    tests: SharedLimit<TenantId>,
}

/// A permit for one invocation, returned when dropped.
#[derive(Debug)]
pub(super) struct Permit {
    _shares: Held,
}

#[derive(Debug)]
#[expect(
    dead_code,
    reason = "the shares are only held, and given back with the permit"
)]
enum Held {
    Test(SharedPermit<TenantId>),
    Call(
        SharedPermit<TenantId>,
        SharedPermit<(TenantId, OutboundUrl)>,
    ),
}

impl Permits {
    pub(super) fn new(config: &FunctionsConfig) -> Self {
        Self {
            tenants: SharedLimit::new(config.max_in_flight, config.tenant_max_in_flight),
            endpoints: SharedLimit::new(NO_TOTAL, config.endpoint_max_in_flight),
            tests: SharedLimit::new(TESTS_MAX, TESTS_PER_TENANT_MAX),
        }
    }

    /// A permit. None if a limit is reached.
    pub(super) fn take(&self, invoke: &Invoke) -> Option<Permit> {
        let tenant = invoke.tenant;
        let shares = if invoke.is_test {
            Held::Test(self.tests.take(tenant)?)
        } else {
            Held::Call(
                self.tenants.take(tenant)?,
                self.endpoints
                    .take((tenant, invoke.function.endpoint.clone()))?,
            )
        };
        Some(Permit { _shares: shares })
    }

    /// Invocations in progress, without tests.
    pub(super) fn in_flight(&self) -> usize {
        self.tenants.held()
    }
}
