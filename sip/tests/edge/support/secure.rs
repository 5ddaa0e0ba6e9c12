//! Certificates for the edge, and trust in those of servers that it connects to.

use std::sync::Arc;

use dikala_sip::settings::TlsFiles;
use dikala_testkit::{certificate, tls};
use rustls::ClientConfig;

/// A certificate with its key, in files.
#[derive(Debug)]
pub struct Certificate {
    folder: tempfile::TempDir,
}

impl Certificate {
    pub fn of_testkit() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("server.pem"), certificate::SERVER).unwrap();
        std::fs::write(folder.path().join("server.key"), certificate::SERVER_KEY).unwrap();
        Self { folder }
    }

    pub fn files(&self) -> TlsFiles {
        TlsFiles {
            certificate: self.folder.path().join("server.pem"),
            key: self.folder.path().join("server.key"),
        }
    }
}

/// TLS that trusts nobody of this machine.
pub fn publicly() -> Arc<ClientConfig> {
    tls::client_config(&[])
}

/// TLS that trusts the authority of these certificates.
pub fn privately() -> Arc<ClientConfig> {
    tls::client_config(&[certificate::AUTHORITY])
}
