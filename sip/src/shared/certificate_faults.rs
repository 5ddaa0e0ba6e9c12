//! Faults of a server's certificate, in words that say how to remove them. Pure.

use std::io;

use rustls::{CertificateError, Error};

use crate::message::Host;

const DAY: u64 = 86_400;

/// Why the certificate of a server is refused.
#[derive(Debug, thiserror::Error)]
#[error("the certificate of {host} {fault}")]
struct CertificateFault {
    host: String,
    fault: String,
}

/// True if the server was reached, but its certificate was refused. The error is one of [`in_words`].
pub fn is_certificate_fault(error: &io::Error) -> bool {
    let inner = error.get_ref();
    inner.is_some_and(|inner| inner.is::<CertificateFault>())
}

/// The error of a connection to this host; in words, if it is the fault of the certificate.
pub fn in_words(error: io::Error, host: &Host) -> io::Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    let Some(Error::InvalidCertificate(refused)) = inner else {
        return error;
    };
    let host = host.to_string();
    let fault = fault(refused, &host);
    io::Error::new(error.kind(), CertificateFault { host, fault })
}

fn fault(refused: &CertificateError, host: &str) -> String {
    match refused {
        CertificateError::UnknownIssuer => {
            "is signed by no authority that is trusted; put that authority into outbound.extra_ca_file, and have the server send \
             the certificates between"
                .to_owned()
        }
        CertificateError::Expired => "has expired; renew it".to_owned(),
        CertificateError::ExpiredContext { time, not_after } => {
            let ago = time.as_secs().saturating_sub(not_after.as_secs());
            format!(
                "or one of its chain expired {} ago; renew it, or check this machine's clock",
                days(ago)
            )
        }
        CertificateError::NotValidYet => {
            "is not valid yet; check this machine's clock".to_owned()
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            let left = not_before.as_secs().saturating_sub(time.as_secs());
            format!(
                "or one of its chain becomes valid in {}; check this machine's clock, or take another",
                days(left)
            )
        }
        CertificateError::NotValidForName => wrong_name(host, &[]),
        CertificateError::NotValidForNameContext { presented, .. } => wrong_name(host, presented),
        // The library has no variant of its own for it.
        CertificateError::Other(other) if other.0.to_string() == "CaUsedAsEndEntity" => {
            "is one of an authority (CA:TRUE), which a server cannot use; make it with `openssl req -x509 … -addext \
             basicConstraints=critical,CA:FALSE`, or have an authority sign one"
                .to_owned()
        }
        other => format!("cannot be used ({other}); take another"),
    }
}

fn wrong_name(host: &str, presented: &[String]) -> String {
    let names: Vec<&str> = presented.iter().map(|name| bare(name)).collect();
    match &names[..] {
        [] => format!("names no host in its subjectAltName; take one for {host}"),
        names => format!(
            "is for {}; write that name as the address of the trunk, or take one for {host}",
            names.join(", ")
        ),
    }
}

/// The library shows the name inside the name of its kind: `DnsName("pbx.example")`.
fn bare(name: &str) -> &str {
    let inside = name.split_once('(').map_or(name, |(_, inside)| inside);
    inside.trim_end_matches(')').trim_matches('"')
}

fn days(seconds: u64) -> String {
    match seconds.div_ceil(DAY) {
        0 | 1 => "1 day".to_owned(),
        days => format!("{days} days"),
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use rustls::{
        OtherError,
        pki_types::{ServerName, UnixTime},
    };

    use super::*;

    fn wrong_name(presented: &[&str]) -> CertificateError {
        CertificateError::NotValidForNameContext {
            expected: ServerName::try_from("pbx.example").expect("a name"),
            presented: presented.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    #[test]
    fn faults_say_how_to_remove_them() {
        let at = |days: u64| UnixTime::since_unix_epoch(Duration::from_secs(days * DAY));
        for (refused, words) in [
            (
                CertificateError::UnknownIssuer,
                "is signed by no authority that is trusted; put that authority into outbound.extra_ca_file",
            ),
            (
                CertificateError::ExpiredContext {
                    time: at(20),
                    not_after: at(17),
                },
                "or one of its chain expired 3 days ago; renew it",
            ),
            (
                CertificateError::NotValidYetContext {
                    time: at(20),
                    not_before: at(21),
                },
                "or one of its chain becomes valid in 1 day; check",
            ),
            (
                wrong_name(&["DnsName(\"a.example\")", "IpAddress(192.0.2.1)"]),
                "is for a.example, 192.0.2.1; write that name as the address of the trunk, or take one for pbx.example",
            ),
            (wrong_name(&[]), "names no host in its subjectAltName"),
            (
                CertificateError::Other(OtherError(Arc::new(io::Error::other(
                    "CaUsedAsEndEntity",
                )))),
                "is one of an authority (CA:TRUE), which a server cannot use",
            ),
            (
                CertificateError::BadSignature,
                "cannot be used (BadSignature)",
            ),
        ] {
            let error = io::Error::new(io::ErrorKind::InvalidData, Error::from(refused));
            let error = in_words(error, &Host::Name("pbx.example".to_owned()));
            let text = error.to_string();
            let words = format!("the certificate of pbx.example {words}");
            assert!(text.starts_with(&words), "{text}");
            assert!(is_certificate_fault(&error));
        }
    }

    #[test]
    fn other_errors_stay() {
        for error in [
            io::Error::from(io::ErrorKind::ConnectionRefused),
            io::Error::other(Error::HandshakeNotComplete),
        ] {
            let before = error.to_string();
            let error = in_words(error, &Host::Name("pbx.example".to_owned()));
            assert_eq!(error.to_string(), before);
            assert!(!is_certificate_fault(&error));
        }
    }
}
