//! Certificates for the edge and for servers that it connects to, and their authority.

use std::{io::Write, path::PathBuf};

use dikala_telephony::{settings::TlsFiles, trust::Trust};
use dikala_testkit::certificate;

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

/// The authority that signed it, in a file.
#[derive(Debug)]
pub struct Authority {
    file: tempfile::NamedTempFile,
}

impl Authority {
    pub fn of_testkit() -> Self {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(certificate::AUTHORITY).unwrap();
        Self { file }
    }

    pub fn trusted(&self) -> Trust {
        let path: PathBuf = self.file.path().to_owned();
        Trust::new(Some(&path)).unwrap()
    }
}
