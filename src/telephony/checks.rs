//! The checks of `dikala check` for the bridge: could it listen, and would the other sides answer?

use std::{io::ErrorKind, net::SocketAddr, time::Duration};

use dikala_entities::VoiceProvider;
use dikala_sip::{
    SipTarget,
    settings::{ListenAddress, SipSettings, SipTransport, Srtp, TlsFiles, Trunk},
};
use dikala_telephony::{
    USER_AGENT,
    settings::{BridgeSettings, Voice},
    trust::Trust,
    voice::{gemini, openai, pipeline},
};
use rustls::{
    CertificateError, Error, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
};
use tokio::time::timeout;

use super::{STAND_IN, time_shown, written, written_as};

/// Longest time for a registrar to answer.
const REGISTRAR_WITHIN: Duration = Duration::from_secs(5);

/// A check: its name, and its result or fault.
pub type CheckResult = (&'static str, Result<String, String>);

/// Runs all checks of the bridge.
pub async fn checks(settings: &BridgeSettings, has_stand_in: bool) -> Vec<CheckResult> {
    let mut found = vec![
        ("sip", listeners(&settings.sip.listen)),
        ("rtp", media_ports(&settings.sip)),
    ];
    if let Some(files) = &settings.sip.tls {
        found.push(("certificate", certificate(files, UnixTime::now())));
    }
    let trust = match Trust::new(settings.extra_ca_file.as_deref()) {
        Ok(trust) => trust,
        Err(error) => {
            found.push(("voice", Err(error.to_string())));
            return found;
        }
    };
    for trunk in &settings.sip.trunks {
        for (field, address) in trunk_addresses(trunk) {
            let result = targets(&settings.sip, &trunk.name, field, address).await;
            found.push(("targets", result));
        }
        if let Some(result) = registrar(trunk, &settings.sip.nameservers, &trust).await {
            found.push(("registrar", result));
        }
    }
    found.extend(voices(&settings.voice, &trust, has_stand_in).await);
    found
}

/// All ports are bound at the same time, so that two listeners on one port are found.
fn listeners(listen: &[ListenAddress]) -> Result<String, String> {
    dikala_sip::try_listen(listen).map_err(|(one, error)| {
        let why = match error.kind() {
            ErrorKind::AddrInUse => "; if dikala is running already, that is why",
            _ => "",
        };
        format!(
            "telephony.sip.listen: {} cannot be listened on ({error}){why}",
            written(one)
        )
    })?;
    let free: Vec<String> = listen
        .iter()
        .map(|one| format!("{} is free", written(*one)))
        .collect();
    Ok(free.join(", "))
}

fn media_ports(settings: &SipSettings) -> Result<String, String> {
    let (first, last) = (settings.rtp_ports.start(), settings.rtp_ports.end());
    match dikala_sip::try_rtp_ports(settings) {
        Ok(()) => Ok(format!("a pair of {first}-{last} is free")),
        Err(error) => Err(format!(
            "telephony.sip.rtp_ports: {first}-{last} cannot be used ({error}); other programs have them"
        )),
    }
}

fn certificate(files: &TlsFiles, now: UnixTime) -> Result<String, String> {
    let wrong = |key: &str, error: String| Err(format!("{key}: {error}"));
    let certificates = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = match certificates {
        Ok(certificates) if certificates.is_empty() => {
            let error = format!("{:?} holds no certificate", files.certificate);
            return wrong("telephony.sip.tls_certificate_file", error);
        }
        Ok(certificates) => certificates,
        Err(error) => {
            let error = format!("{:?} cannot be read: {error}", files.certificate);
            return wrong("telephony.sip.tls_certificate_file", error);
        }
    };
    let key = match PrivateKeyDer::from_pem_file(&files.key) {
        Ok(key) => key,
        Err(error) => {
            let error = format!("{:?} cannot be read: {error}", files.key);
            return wrong("telephony.sip.tls_key_file", error);
        }
    };
    let untimely = fault_of_time(&certificates, now);
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(certificates, key);
    match (config, untimely) {
        (Ok(_), None) => Ok("certificate and key fit".to_owned()),
        (Ok(_), Some(fault)) => {
            let error = format!("{:?} {fault}", files.certificate);
            wrong("telephony.sip.tls_certificate_file", error)
        }
        (Err(error), _) => wrong("telephony.sip.tls_certificate_file", error.to_string()),
    }
}

/// Why the certificate is not valid now. Its authority and its names do not matter: phones may know others than the web does.
fn fault_of_time(certificates: &[CertificateDer<'_>], now: UnixTime) -> Option<String> {
    let (certificate, chain) = certificates.split_first()?;
    let any = ServerName::try_from("sip.invalid").ok()?;
    let verified = Trust::new(None).ok()?.verify(certificate, chain, &any, now);
    match verified.err()? {
        Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. }) => Some(
            format!("was valid until {} only; renew it", time_shown(not_after)),
        ),
        Error::InvalidCertificate(CertificateError::NotValidYetContext { not_before, .. }) => {
            let from = time_shown(not_before);
            Some(format!(
                "is valid from {from} on only; check this machine's clock"
            ))
        }
        _ => None,
    }
}

/// The addresses where requests of a trunk go, with their fields: the outbound proxy stands in for the registrar.
fn trunk_addresses(trunk: &Trunk) -> impl Iterator<Item = (&'static str, &String)> {
    let register = trunk
        .register
        .as_ref()
        .map(|register| match &register.proxy {
            Some(proxy) => ("register.proxy", proxy),
            None => ("register.registrar", &register.registrar),
        });
    let outbound = trunk.outbound.uri.as_ref();
    register
        .into_iter()
        .chain(outbound.map(|uri| ("outbound.uri", uri)))
}

/// Requests over UDP are sent from an address that is listened on.
fn can_send(settings: &SipSettings, target: &SipTarget) -> bool {
    let sends = |listen: &ListenAddress| {
        listen.transport == SipTransport::Udp
            && listen.address.is_ipv4() == target.address.is_ipv4()
    };
    target.transport != SipTransport::Udp || settings.listen.iter().any(sends)
}

/// The servers of an address of a trunk, in the order in which they are tried.
async fn targets(
    settings: &SipSettings,
    name: &str,
    field: &str,
    address: &str,
) -> Result<String, String> {
    match dikala_sip::find_targets(settings, address).await {
        Ok(found)
            if settings.srtp == Srtp::Required
                && !found.iter().any(|one| one.transport == SipTransport::Tls) =>
        {
            Err(format!(
                "trunk {name}: {field}: telephony.sip.srtp is required, and {address} is not reached over TLS; add ;transport=tls"
            ))
        }
        Ok(found) if !found.iter().any(|target| can_send(settings, target)) => Err(format!(
            "trunk {name}: {field}: {address} is reached over UDP only, and there is no UDP address of its family in \
             telephony.sip.listen; add one"
        )),
        Ok(found) => {
            let found = found.iter();
            let found = found.map(|target| written_as(target.transport, target.address));
            let found: Vec<String> = found.collect();
            Ok(format!("trunk {name}: {address} is {}", found.join(", ")))
        }
        Err(error) => Err(format!(
            "trunk {name}: {field}: no server of {address} was found ({error}); check the name, and telephony.sip.nameservers"
        )),
    }
}

/// Checks that the registrar of a trunk accepts username and password. Registers nothing.
async fn registrar(
    trunk: &Trunk,
    nameservers: &[SocketAddr],
    trust: &Trust,
) -> Option<Result<String, String>> {
    let register = trunk.register.as_ref()?;
    let (name, place) = (&trunk.name, &register.registrar);
    let asked = timeout(
        REGISTRAR_WITHIN,
        dikala_sip::try_registrar(
            name,
            register,
            nameservers,
            USER_AGENT,
            trust.client_config(),
        ),
    );
    Some(match asked.await {
        Ok(Ok(())) => Ok(format!("trunk {name}: {place} takes username and password")),
        Ok(Err(error)) => Err(format!("{error} ({place})")),
        Err(_) => Err(format!("trunk {name}: nothing answers at {place}")),
    })
}

/// Each configured provider: would it answer?
async fn voices(voice: &Voice, trust: &Trust, has_stand_in: bool) -> Vec<CheckResult> {
    let mut found = Vec::new();
    if voice.provider == VoiceProvider::Scripted {
        let told = match has_stand_in {
            true => STAND_IN,
            false => "the scripted voice needs nothing",
        };
        found.push(("voice", Ok(told.to_owned())));
    }
    if let Some(gemini) = &voice.gemini {
        found.push(("voice", gemini::check(gemini, trust).await));
    }
    if let Some(openai) = &voice.openai {
        found.push(("voice", openai::check(openai, trust).await));
    }
    if let Some(pipeline) = &voice.pipeline {
        let checked = pipeline::check(pipeline, trust).await;
        found.extend(checked.into_iter().map(|result| ("voice", result)));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::fs;

    use dikala_sip::settings::{OutboundSettings, RegisterSettings};
    use dikala_testkit::certificate::{SERVER, SERVER_KEY};

    use super::*;

    #[test]
    fn a_certificate_of_another_time_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = TlsFiles {
            certificate: folder.path().join("sip.pem"),
            key: folder.path().join("sip.key"),
        };
        fs::write(&files.certificate, SERVER).expect("written");
        fs::write(&files.key, SERVER_KEY).expect("written");
        let at = |years: u64| {
            let seconds = Duration::from_secs(years * 365 * 86_400);
            certificate(&files, UnixTime::since_unix_epoch(seconds))
        };
        assert_eq!(at(60), Ok("certificate and key fit".to_owned()));
        for (years, words) in [(1, "is valid from "), (200, "was valid until ")] {
            let refused = at(years).expect_err("of another time");
            assert!(
                refused.starts_with("telephony.sip.tls_certificate_file: "),
                "{refused}"
            );
            assert!(refused.contains(words), "{refused}");
        }
    }

    #[test]
    fn requests_go_to_the_proxy_in_place_of_the_registrar() {
        let mut trunk = Trunk::default();
        let named = |trunk: &Trunk| {
            let all = trunk_addresses(trunk).map(|(field, address)| format!("{field} {address}"));
            all.collect::<Vec<_>>()
        };
        assert!(named(&trunk).is_empty());
        trunk.register = Some(RegisterSettings {
            registrar: "sip:ims.example".to_owned(),
            ..RegisterSettings::default()
        });
        trunk.outbound = OutboundSettings {
            uri: Some("sip:out.example".to_owned()),
            ..OutboundSettings::default()
        };
        let outbound = "outbound.uri sip:out.example";
        assert_eq!(
            named(&trunk),
            ["register.registrar sip:ims.example", outbound]
        );
        let register = trunk.register.as_mut().expect("it registers");
        register.proxy = Some("sip:edge.example".to_owned());
        assert_eq!(named(&trunk), ["register.proxy sip:edge.example", outbound]);
    }

    #[tokio::test]
    async fn servers_are_told_and_without_tls_keys_are_not_exchanged() {
        let mut settings = SipSettings {
            max_calls: 1,
            threads: 2,
            listen: vec![ListenAddress {
                transport: SipTransport::Udp,
                address: "0.0.0.0:5060".parse().expect("an address"),
            }],
            public_address: None,
            local_networks: Vec::new(),
            tls: None,
            rtp_ports: 0..=0,
            codecs: Vec::new(),
            srtp: Srtp::Optional,
            trunks: Vec::new(),
            nameservers: Vec::new(),
        };
        for (srtp, address, expected) in [
            (Srtp::Optional, "sip:192.0.2.1", "udp://192.0.2.1:5060"),
            (Srtp::Required, "sip:192.0.2.1", "add ;transport=tls"),
            (Srtp::Required, "sips:192.0.2.1", "tls://192.0.2.1:5061"),
            (Srtp::Optional, "sip:nobody.invalid:5060", "no server of"),
            // No listener can send there.
            (Srtp::Optional, "sip:[2001:db8::1]", "telephony.sip.listen"),
        ] {
            settings.srtp = srtp;
            let told = targets(&settings, "jkt", "outbound.uri", address).await;
            let is_well = expected.contains("://");
            assert_eq!(told.is_ok(), is_well, "{address}");
            let told = told.unwrap_or_else(|fault| fault);
            assert!(
                told.starts_with("trunk jkt: ") && told.contains(expected),
                "{told}"
            );
        }
    }

    #[tokio::test]
    async fn both_families_on_one_port_are_free_for_the_bridge_and_the_same_twice_is_not() {
        if std::net::UdpSocket::bind("[::1]:0").is_err() {
            return;
        }
        let port = dikala_testkit::free_port();
        let on = |transport, host: &str| ListenAddress {
            transport,
            address: (host.parse::<std::net::IpAddr>().expect("an address"), port).into(),
        };
        for transport in [SipTransport::Udp, SipTransport::Tcp] {
            let (four, six) = (on(transport, "0.0.0.0"), on(transport, "::"));
            for both in [[four, six], [six, four]] {
                assert_eq!(listeners(&both).err(), None);
            }
            let twice = listeners(&[four, on(transport, "127.0.0.1")]);
            assert!(
                twice.is_err_and(|error| error.contains("127.0.0.1") && error.contains("running"))
            );
        }
    }
}
