//! A small JSON client.

use std::{
    net::IpAddr,
    sync::{Arc, LazyLock},
    time::Duration,
};

use awc::{
    Client, Connector,
    error::SendRequestError,
    http::{Method, header::HeaderMap},
};
use dikala_testkit::certificate;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use serde_json::Value;

/// Trusts the tests' certificate authority.
static TLS: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(certificate::AUTHORITY).unwrap();
    roots.add(authority).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.unwrap().with_root_certificates(roots);
    Arc::new(builder.with_no_client_auth())
});

/// A client that trusts the tests' certificate authority, and connects from the given local address, if any.
pub fn client(from: Option<IpAddr>) -> Client {
    let connector = Connector::new()
        .timeout(Duration::from_secs(10))
        .rustls_0_23(TLS.clone());
    let connector = match from {
        Some(address) => connector.local_address(address),
        None => connector,
    };
    Client::builder()
        .connector(connector)
        .timeout(Duration::from_secs(60))
        .disable_redirects()
        .finish()
}

/// A base address and the headers of every request.
#[derive(Clone)]
pub struct Rest {
    client: Client,
    base: String,
    headers: Vec<(String, String)>,
}

/// A complete answer.
#[derive(Debug)]
pub struct RestResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
    /// `null` if the body is not JSON.
    pub body: Value,
}

impl Rest {
    pub fn new(base: &str) -> Self {
        Self::from(None, base)
    }

    /// Connects from this local address.
    pub fn from(address: Option<IpAddr>, base: &str) -> Self {
        Self {
            client: client(address),
            base: base.to_owned(),
            headers: Vec::new(),
        }
    }

    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub async fn get(&self, path: &str) -> RestResponse {
        self.send(Method::GET, path, None).await
    }

    pub async fn post(&self, path: &str, body: Value) -> RestResponse {
        self.send(Method::POST, path, Some(body)).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> RestResponse {
        self.send(Method::PATCH, path, Some(body)).await
    }

    pub async fn delete(&self, path: &str) -> RestResponse {
        self.send(Method::DELETE, path, None).await
    }

    pub async fn send(&self, method: Method, path: &str, body: Option<Value>) -> RestResponse {
        let asked = format!("{method} {}{path}", self.base);
        let answer = self.try_send(method, path, body).await;
        answer.unwrap_or_else(|fault| panic!("{asked}: {fault}"))
    }

    /// Returns an error if the server does not answer.
    pub async fn try_send(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<RestResponse, SendRequestError> {
        // Each request has its own connection, so that none is stale after a server's restart.
        let mut request = self
            .client
            .request(method, format!("{}{path}", self.base))
            .no_decompress()
            .force_close();
        for (name, value) in &self.headers {
            request = request.append_header((name.as_str(), value.as_str()));
        }
        let mut response = match body {
            Some(body) => request.send_json(&body).await?,
            None => request.send().await?,
        };
        let bytes =
            response.body().limit(64 << 20).await.map_err(|fault| {
                SendRequestError::Send(std::io::Error::other(fault.to_string()))
            })?;
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Ok(RestResponse {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body: serde_json::from_str(&text).unwrap_or_default(),
            text,
        })
    }
}

impl RestResponse {
    /// The body of an answer with this status; any other status fails the test and shows the answer.
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.body
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}
