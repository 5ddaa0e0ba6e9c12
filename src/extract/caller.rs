//! Who asks.

use std::{
    future::{Ready, ready},
    rc::Rc,
};

use actix_web::{FromRequest, HttpMessage, HttpRequest, dev::Payload};
use dikala_entities::{ApiKeyId, TenantId};

use crate::{error::ApiError, middleware::Claim};

/// The tenant whose key came with the request; the only way for a handler to learn a tenant's id.
#[derive(Clone, Debug)]
pub struct Caller {
    pub tenant: TenantId,
    /// The key that came with the request.
    pub key: ApiKeyId,
    /// The `Idempotency-Key` under which this request runs.
    pub claim: Option<Rc<Claim>>,
}

impl FromRequest for Caller {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(req: &HttpRequest, _: &mut Payload) -> Self::Future {
        let extensions = req.extensions();
        let claim = extensions.get::<Rc<Claim>>().cloned();
        let known = extensions
            .get::<TenantId>()
            .zip(extensions.get::<ApiKeyId>());
        let caller = known.map(|(tenant, key)| Self {
            tenant: *tenant,
            key: *key,
            claim,
        });
        ready(caller.ok_or(ApiError::MissingApiKey))
    }
}
