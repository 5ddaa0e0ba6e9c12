//! State that all pages share.

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
        seats::{StreamSeat, StreamSeats},
    },
};

/// Concurrent streams of all tenants' pages.
const STREAMS_MAX: usize = 1_024;
/// Concurrent streams of one tenant's pages.
const STREAMS_OF_TENANT_MAX: usize = 60;

/// State that all pages share, as application data.
#[derive(Debug)]
pub struct DashboardState {
    /// The API's services, which pages use too.
    pub services: Data<Services>,
    pub passwords: Passwords,
    /// Prefix of absolute links, without a trailing slash.
    base: String,
    /// True if the operator configured the service's public URL.
    has_public_url: bool,
    has_mail: bool,
    streams: StreamSeats<TenantId>,
}

impl DashboardState {
    /// `listener` is the base of links if no public URL is configured.
    pub fn new(services: Data<Services>, settings: &Settings, listener: SocketAddr) -> Self {
        Self {
            services,
            passwords: Passwords::default(),
            base: settings.http.base(listener),
            has_public_url: settings.http.has_public_url(),
            has_mail: settings.mail().is_some(),
            streams: StreamSeats::new(STREAMS_MAX, STREAMS_OF_TENANT_MAX),
        }
    }

    /// The public URL, if it is configured.
    pub fn public_base(&self) -> Option<&str> {
        self.has_public_url.then_some(self.base.as_str())
    }

    /// Prefix of links in mails; `None` without a mail server. It never comes from a request's `Host`, so a mailed
    /// link always leads to the service.
    pub fn mail_base(&self) -> Option<&str> {
        self.has_mail.then_some(self.base.as_str())
    }

    /// Prefix of the service's own addresses: the public URL, or else the listener's address. It never comes from a
    /// request.
    pub fn own_base(&self) -> &str {
        &self.base
    }

    /// Reserves a place for the stream of a person's page.
    pub fn seat(
        &self,
        tenant: TenantId,
        session: CredentialHash,
    ) -> Result<StreamSeat<TenantId>, ApiError> {
        let seat = self.streams.take(tenant, session);
        seat.map_err(|_| ApiError::Unavailable)
    }

    /// Prefix of links shown to the sender of this request. Without a public URL it is the request's `Host`, which
    /// works for that browser; the listener's own address may not.
    pub fn base_for(&self, request: &HttpRequest) -> String {
        let host = header(request.headers(), &actix_web::http::header::HOST);
        let host = host.filter(|host| host.parse::<actix_web::http::uri::Authority>().is_ok());
        match host {
            Some(host) if !self.has_public_url => format!("http://{host}"),
            _ => self.base.clone(),
        }
    }

    /// True if cookies are sent over HTTPS only.
    pub fn is_secure(&self) -> bool {
        self.public_base()
            .is_some_and(|base| base.starts_with("https://"))
    }

    /// The client's address; `X-Forwarded-For` counts if a trusted proxy sent it.
    pub fn address(&self, request: &HttpRequest) -> IpAddr {
        let trusted = &self.services.settings.http.trusted_proxies;
        let unknown = IpAddr::from([0, 0, 0, 0]);
        request.peer_addr().map_or(unknown, |peer| {
            client_address(peer.ip(), request.headers(), trusted).to_canonical()
        })
    }

    /// The client's address for rate limits: an IPv6 network counts as one client.
    pub fn network(&self, request: &HttpRequest) -> IpAddr {
        network(self.address(request))
    }
}
