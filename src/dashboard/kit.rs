//! What every page can reach.

use std::net::{IpAddr, SocketAddr};

use actix_web::{HttpRequest, web::Data};

use dikala_entities::{CredentialHash, TenantId};

use super::password::Passwords;
use crate::{
    api::context::Services,
    config::Settings,
    front::{client_address, network},
    http::error::ApiError,
    pages::{
        headers::header,
        seats::{Seat, Seats},
    },
};

/// Streams of all tenants' pages at the same time.
const STREAMS_MAX: usize = 1_024;
/// Streams of one tenant's pages at the same time.
const STREAMS_OF_TENANT_MAX: usize = 60;

/// What every page can reach. Data of the application.
#[derive(Debug)]
pub struct Kit {
    /// What the API's handlers work with; pages call those.
    pub services: Data<Services>,
    pub passwords: Passwords,
    /// What links begin with, without a slash at the end.
    base: String,
    /// Whether the operator told where people reach the service.
    has_public_url: bool,
    has_mail: bool,
    streams: Seats<TenantId>,
}

impl Kit {
    /// For a listener at that address.
    pub fn new(services: Data<Services>, settings: &Settings, listener: SocketAddr) -> Self {
        Self {
            services,
            passwords: Passwords::default(),
            base: settings.http.base(listener),
            has_public_url: settings.http.has_public_url(),
            has_mail: settings.mail().is_some(),
            streams: Seats::new(STREAMS_MAX, STREAMS_OF_TENANT_MAX),
        }
    }

    /// Where people reach the service, where the operator told it.
    pub fn public_base(&self) -> Option<&str> {
        self.has_public_url.then_some(self.base.as_str())
    }

    /// What links in mails begin with; none where no mails are sent. Never what a request says: a link that the service mails leads
    /// to the service.
    pub fn mail_base(&self) -> Option<&str> {
        self.has_mail.then_some(self.base.as_str())
    }

    /// A seat for the stream of a person's page.
    pub fn seat(
        &self,
        tenant: TenantId,
        session: CredentialHash,
    ) -> Result<Seat<TenantId>, ApiError> {
        let seat = self.streams.take(tenant, session);
        seat.map_err(|_| ApiError::Unavailable)
    }

    /// What links begin with that somebody is shown who came with this request. Where the operator told nothing it is where the
    /// browser came to: it works from there, and the listener's own address may not.
    pub fn base_for(&self, request: &HttpRequest) -> String {
        let host = header(request.headers(), &actix_web::http::header::HOST);
        let host = host.filter(|host| host.parse::<actix_web::http::uri::Authority>().is_ok());
        match host {
            Some(host) if !self.has_public_url => format!("http://{host}"),
            _ => self.base.clone(),
        }
    }

    /// Whether cookies are for https alone.
    pub fn is_secure(&self) -> bool {
        self.public_base()
            .is_some_and(|base| base.starts_with("https://"))
    }

    /// The address that a request comes from, with what a trusted proxy says of it.
    pub fn address(&self, request: &HttpRequest) -> IpAddr {
        let trusted = &self.services.settings.http.trusted_proxies;
        let unknown = IpAddr::from([0, 0, 0, 0]);
        request.peer_addr().map_or(unknown, |peer| {
            client_address(peer.ip(), request.headers(), trusted).to_canonical()
        })
    }

    /// The same as one client has it: all of an IPv6 network counts as one.
    pub fn network(&self, request: &HttpRequest) -> IpAddr {
        network(self.address(request))
    }
}
