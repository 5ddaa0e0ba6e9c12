//! Certificate authorities trusted in outgoing TLS: the public ones, and the operator's own if configured.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ClientConfig, RootCertStore,
    client::{VerifierBuilderError, WebPkiServerVerifier, danger::ServerCertVerifier},
    crypto::ring,
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};
use tokio_rustls::TlsConnector;

#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error(
        "outbound.extra_ca_file {path:?} cannot be used: {reason}; give a PEM file of certificates"
    )]
    ExtraCa { path: PathBuf, reason: String },
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    #[error("TLS cannot be set up: {0}")]
    Verifier(#[from] VerifierBuilderError),
}

/// Loaded once and shared by all outgoing connections.
#[derive(Clone)]
pub struct Trust {
    config: Arc<ClientConfig>,
    verifier: Arc<WebPkiServerVerifier>,
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trust(…)")
    }
}

impl Trust {
    /// Trusts the authorities of this PEM file besides the public ones.
    ///
    /// Errors: the file cannot be read, or holds no certificate.
    pub fn new(extra_ca: Option<&Path>) -> Result<Self, TrustError> {
        let mut roots = RootCertStore {
            roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
        };
        if let Some(path) = extra_ca {
            add_authorities(&mut roots, path).map_err(|reason| TrustError::ExtraCa {
                path: path.to_owned(),
                reason,
            })?;
        }
        let provider = Arc::new(ring::default_provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .build()?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_webpki_verifier(Arc::clone(&verifier))
            .with_no_client_auth();
        Ok(Self {
            config: Arc::new(config),
            verifier,
        })
    }

    /// The same, for connections over SIP.
    pub fn client_config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }

    pub fn connector(&self) -> TlsConnector {
        TlsConnector::from(Arc::clone(&self.config))
    }

    /// Verifies a server's certificate at a time, as a client does: first the chain and its time, then the name. `chain`: those of
    /// the authorities between.
    ///
    /// Errors: [`rustls::Error::InvalidCertificate`] with the first fault.
    pub fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        at: UnixTime,
    ) -> Result<(), rustls::Error> {
        let verified = (self.verifier).verify_server_cert(certificate, chain, host, &[], at);
        verified.map(drop)
    }
}

fn add_authorities(roots: &mut RootCertStore, path: &Path) -> Result<(), String> {
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| error.to_string())?;
    if certificates.is_empty() {
        return Err("it holds no certificate".to_owned());
    }
    for certificate in certificates {
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_authorities_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ca.pem");
        let error = Trust::new(Some(&path)).expect_err("nothing is there");
        assert!(error.to_string().contains("outbound.extra_ca_file"));
        std::fs::write(&path, "rubbish").expect("written");
        let error = Trust::new(Some(&path)).expect_err("no certificate");
        assert!(error.to_string().contains("no certificate"), "{error}");
        std::fs::write(&path, dikala_testkit::certificate::AUTHORITY).expect("written");
        Trust::new(Some(&path)).expect("an authority");
    }
}
