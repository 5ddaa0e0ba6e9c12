//! Trust of outbound TLS: the public certificate authorities, and the operator's own if configured.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};

/// The outbound settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OutboundError {
    #[error(
        "outbound.extra_ca_file {path:?} cannot be used: {reason}; give a PEM file of certificates"
    )]
    ExtraCa { path: PathBuf, reason: String },
    #[error("TLS cannot be set up: {0}")]
    Tls(rustls::Error),
}

/// The settings of every outbound connection. They offer HTTP/1.1 only, because endpoint queues count on one exchange per
/// connection at a time.
pub fn client_config(extra_ca: Option<&Path>) -> Result<Arc<ClientConfig>, OutboundError> {
    let mut roots = RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    };
    if let Some(path) = extra_ca {
        add_authorities(&mut roots, path)?;
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(OutboundError::Tls)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn add_authorities(roots: &mut RootCertStore, path: &Path) -> Result<(), OutboundError> {
    let unusable = |reason: String| OutboundError::ExtraCa {
        path: path.to_owned(),
        reason,
    };
    let certificates = CertificateDer::pem_file_iter(path).map_err(|e| unusable(e.to_string()))?;
    let mut count = 0_usize;
    for certificate in certificates {
        let certificate = certificate.map_err(|e| unusable(e.to_string()))?;
        roots
            .add(certificate)
            .map_err(|e| unusable(e.to_string()))?;
        count += 1;
    }
    if count == 0 {
        return Err(unusable("it holds no certificate".to_owned()));
    }
    Ok(())
}
