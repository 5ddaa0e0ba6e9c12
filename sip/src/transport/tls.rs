//! TLS for incoming connections: our certificate, read again on demand.

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
};

use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio_rustls::TlsAcceptor;

use crate::settings::TlsFiles;

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{path} cannot be read as PEM: {why}")]
    File { path: PathBuf, why: String },
    #[error("certificate and key do not fit: {0}")]
    Unfit(#[from] rustls::Error),
}

/// Accepts TLS connections with the certificate that was read last.
pub struct Acceptor {
    files: TlsFiles,
    current: RwLock<Arc<ServerConfig>>,
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acceptor")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl Acceptor {
    pub fn open(files: &TlsFiles) -> Result<Self, TlsError> {
        Ok(Self {
            files: files.clone(),
            current: RwLock::new(read(files)?),
        })
    }

    /// Reads the files again. On failure the certificate in use stays.
    pub fn reload(&self) -> Result<(), TlsError> {
        let new = read(&self.files)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    pub fn get(&self) -> TlsAcceptor {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        TlsAcceptor::from(current.clone())
    }
}

fn read(files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
    let unread = |path: &PathBuf, why: String| TlsError::File {
        path: path.clone(),
        why,
    };
    let chain = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unread(&files.certificate, error.to_string()))?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| unread(&files.key, error.to_string()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(Arc::new(config))
}
