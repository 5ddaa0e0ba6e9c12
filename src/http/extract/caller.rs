//! The authenticated client of a request.

use std::{
    future::{Ready, ready},
    rc::Rc,
};

use actix_web::{FromRequest, HttpMessage, HttpRequest, dev::Payload, web::Data};
use dikala_entities::{Actor, ApiKeyId, Millis, TenantId, audit};

use crate::{
    audit::{AuditChange, ChangeOrigin},
    http::{
        context::HttpContext, error::ApiError, gate::address_of, idempotency::IdempotencyClaim,
        request_id::current_request_id,
    },
};

/// The tenant of the request's API key. Handlers learn a tenant's id only from here.
#[derive(Clone, Debug)]
pub struct TenantRequest {
    pub tenant: TenantId,
    /// The actor and origin, for the audit.
    pub origin: ChangeOrigin,
    /// The claim of the request's `Idempotency-Key`.
    pub claim: Option<Rc<IdempotencyClaim>>,
}

impl TenantRequest {
    /// The audit entry of a change that another part of the program writes.
    pub fn entry(&self, change: AuditChange, now: Millis) -> audit::Model {
        self.origin.entry(Some(self.tenant), change, now)
    }

    fn of(req: &HttpRequest) -> Option<Self> {
        let http = req.app_data::<Data<HttpContext>>()?;
        let extensions = req.extensions();
        Some(Self {
            tenant: *extensions.get::<TenantId>()?,
            origin: ChangeOrigin {
                actor: Actor::Key(*extensions.get::<ApiKeyId>()?),
                address: address_of(req, &http.settings),
                request_id: Some(current_request_id()),
                node: http.member.name().clone(),
            },
            claim: extensions.get::<Rc<IdempotencyClaim>>().cloned(),
        })
    }
}

impl FromRequest for TenantRequest {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(req: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Self::of(req).ok_or(ApiError::MissingApiKey))
    }
}
