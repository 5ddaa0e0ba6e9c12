//! The certificate that Meta sees: its name, its time, and its chain up to a public authority.

use std::{path::Path, time::Duration};

use dikala_telephony::trust::Trust;
use rustls::{
    CertificateError, Error,
    client::verify_server_name,
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
    server::ParsedCertificate,
};

use crate::telephony::time_shown;

/// The remaining time of a certificate from which on its end is announced.
const ENDS_SOON: Duration = Duration::from_hours(14 * 24);

/// Findings about the certificate, in words.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CertificateFindings {
    /// Why Meta would not call.
    pub faults: Vec<String>,
    /// Remedies that are due soon.
    pub warnings: Vec<String>,
}

/// Examines the PEM file of the certificate and its chain at a time. A file that cannot be read is another check's.
pub fn examine(
    file: &Path,
    host: &str,
    extra_ca: Option<&Path>,
    now: UnixTime,
) -> CertificateFindings {
    let mut found = CertificateFindings::default();
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let (Ok(all), Ok(name)) = (read, ServerName::try_from(host.to_owned())) else {
        return found;
    };
    let Some((certificate, chain)) = all.split_first() else {
        return found;
    };
    let about = format!("the certificate {file:?}");
    let parsed = ParsedCertificate::try_from(certificate);
    if parsed.is_ok_and(|parsed| verify_server_name(&parsed, &name).is_err()) {
        found.faults.push(format!(
            "{about} is not for {host}, the host that Meta calls; take one for that name, from an authority that the web trusts"
        ));
    }
    let fault = |trust: &Trust, at| {
        let verified = trust.verify(certificate, chain, &name, at);
        verified.err().and_then(fault_of_chain)
    };
    let Ok(public) = Trust::new(None) else {
        return found;
    };
    let own = extra_ca.and_then(|file| Trust::new(Some(file)).ok());
    let trust = match (fault(&public, now), own) {
        (None, _) => public,
        (Some(_), Some(own)) if fault(&own, now).is_none() => {
            found.warnings.push(format!(
                "{about} is of an authority of outbound.extra_ca_file, which Meta does not know unless it is a public one"
            ));
            own
        }
        (Some(why), _) => {
            found.faults.push(format!("{about} {why}"));
            return found;
        }
    };
    let soon = UnixTime::since_unix_epoch(Duration::from_secs(now.as_secs()) + ENDS_SOON);
    if let Some(why) = fault(&trust, soon) {
        found.warnings.push(format!("{about} {why}"));
    }
    found
}

/// The fault of the time or the chain; `None` for a name that does not fit.
fn fault_of_chain(error: Error) -> Option<String> {
    let Error::InvalidCertificate(error) = error else {
        return Some(format!("cannot be used: {error}"));
    };
    Some(match error {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            return None;
        }
        CertificateError::ExpiredContext { not_after, .. } => format!(
            "or one of its chain is valid until {} only; renew it",
            time_shown(not_after)
        ),
        CertificateError::NotValidYetContext { not_before, .. } => format!(
            "or one of its chain is valid from {} on only; check this machine's clock, or take another",
            time_shown(not_before)
        ),
        CertificateError::UnknownIssuer => {
            "does not lead to a public authority; put those of the authorities between behind it into the file, as in a \
             fullchain.pem, or take one from an authority that the web trusts"
                .to_owned()
        }
        other => format!(
            "is not one that Meta accepts ({other}); take one from an authority that the web trusts"
        ),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use dikala_testkit::certificate::{VOICE, VOICE_AUTHORITY};

    use super::*;

    const HOST: &str = "voice.example.com";
    /// A time within the validity of the certificates, and a day, in seconds.
    const NOW: u64 = 1_800_000_000;
    const DAY: u64 = 86_400;

    struct Files(tempfile::TempDir);

    impl Files {
        fn new(certificate: &[u8]) -> Self {
            let files = Self(tempfile::tempdir().expect("a folder"));
            fs::write(files.path("sip.pem"), certificate).expect("written");
            fs::write(files.path("ca.pem"), VOICE_AUTHORITY).expect("written");
            files
        }

        fn path(&self, name: &str) -> std::path::PathBuf {
            self.0.path().join(name)
        }

        fn examined(&self, host: &str, is_trusted: bool, at: u64) -> CertificateFindings {
            let authority = self.path("ca.pem");
            let authority = is_trusted.then_some(authority.as_path());
            let at = UnixTime::since_unix_epoch(Duration::from_secs(at));
            examine(&self.path("sip.pem"), host, authority, at)
        }
    }

    /// The certificate without those of its chain.
    fn leaf() -> &'static [u8] {
        let end = b"-----END CERTIFICATE-----\n";
        let at = VOICE.windows(end.len()).position(|it| it == end);
        &VOICE[..at.expect("an end") + end.len()]
    }

    #[test]
    fn name_time_and_chain_are_examined() {
        let whole = Files::new(VOICE);
        let ends = whole.examined(HOST, true, 10_000_000_000);
        let ends = &ends.faults[0];
        assert!(ends.contains("valid until 21"), "{ends}");
        for (files, host, is_trusted, at, fault) in [
            (&whole, HOST, true, NOW, None),
            (
                &whole,
                "other.example.com",
                true,
                NOW,
                Some("is not for other.example.com"),
            ),
            (&whole, HOST, true, NOW - 3_000 * DAY, Some("valid from 20")),
            (
                &whole,
                HOST,
                false,
                NOW,
                Some("does not lead to a public authority"),
            ),
            (&Files::new(leaf()), HOST, true, NOW, Some("fullchain.pem")),
        ] {
            let found = files.examined(host, is_trusted, at);
            match fault {
                None => assert_eq!(found.faults, Vec::<String>::new()),
                Some(fault) => {
                    assert_eq!(found.faults.len(), 1, "{found:?}");
                    assert!(found.faults[0].contains(fault), "{fault}: {found:?}");
                }
            }
        }
    }

    #[test]
    fn an_end_within_two_weeks_and_an_own_authority_are_warned_of() {
        let files = Files::new(VOICE);
        let warnings = |at| files.examined(HOST, true, at).warnings;
        let own = warnings(NOW);
        assert!(
            own.len() == 1 && own[0].contains("extra_ca_file"),
            "{own:?}"
        );
        for (days, is_warned) in [(13, true), (15, false)] {
            let warnings = warnings(ENDS - days * DAY);
            let is_there = warnings.iter().any(|it| it.contains("valid until"));
            assert_eq!(is_there, is_warned, "{days}: {warnings:?}");
        }
    }

    /// The end of the certificate in seconds.
    const ENDS: u64 = 4_387_812_246;
}
