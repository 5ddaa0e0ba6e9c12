//! What `dikala check` finds out about the bridge: could it listen, would the other sides answer?

use std::{
    io::ErrorKind,
    net::{TcpListener, UdpSocket},
    time::Duration,
};

use dikala_telephony::{
    settings::{Gemini, Listen, Model, Settings, TlsFiles, Transport, Trunk},
    voice::gemini,
};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};

use super::written;

/// How long a registrar may take to be found.
const REGISTRAR_WITHIN: Duration = Duration::from_secs(5);

/// A thing that was looked at, and what was found, or what is wrong.
pub type Found = (&'static str, Result<String, String>);

/// Looks at all that the bridge needs.
pub async fn checks(settings: &Settings) -> Vec<Found> {
    let mut found = vec![("sip", listeners(&settings.sip.listen))];
    if let Some(files) = &settings.sip.tls {
        found.push(("certificate", certificate(files)));
    }
    for trunk in &settings.sip.trunks {
        if let Some(result) = registrar(trunk).await {
            found.push(("registrar", result));
        }
    }
    found.push(("voice", voice(&settings.voice.model).await));
    found
}

/// All are held at the same time: two on one port would not start either.
fn listeners(listen: &[Listen]) -> Result<String, String> {
    let mut held: (Vec<UdpSocket>, Vec<TcpListener>) = Default::default();
    for one in listen {
        let bound = match one.transport {
            Transport::Udp => UdpSocket::bind(one.address).map(|socket| held.0.push(socket)),
            Transport::Tcp | Transport::Tls => {
                TcpListener::bind(one.address).map(|listener| held.1.push(listener))
            }
        };
        bound.map_err(|error| {
            let why = match error.kind() {
                ErrorKind::AddrInUse => "; if dikala is running already, that is why",
                _ => "",
            };
            format!(
                "telephony.sip.listen: {} cannot be listened on ({error}){why}",
                written(*one)
            )
        })?;
    }
    let free: Vec<String> = listen
        .iter()
        .map(|one| format!("{} is free", written(*one)))
        .collect();
    Ok(free.join(", "))
}

fn certificate(files: &TlsFiles) -> Result<String, String> {
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
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(certificates, key);
    match config {
        Ok(_) => Ok("certificate and key fit".to_owned()),
        Err(error) => wrong("telephony.sip.tls_certificate_file", error.to_string()),
    }
}

/// Whether the registrar of a trunk is found, and, where it speaks TCP, answers.
async fn registrar(trunk: &Trunk) -> Option<Result<String, String>> {
    let register = trunk.register.as_ref()?;
    let (host, port, is_stream) = place(&register.registrar)?;
    let told = |fault: String| Err(format!("trunk {}: {host}: {fault}", trunk.name));
    let looked = async {
        let mut found = lookup_host((host.as_str(), port))
            .await
            .map_err(|error| format!("it is not found ({error})"))?;
        let address = found.next().ok_or("it has no address")?;
        if is_stream {
            let connected = TcpStream::connect(address).await;
            connected.map_err(|error| format!("nothing answers at {address} ({error})"))?;
        }
        Ok::<_, String>(address)
    };
    Some(match timeout(REGISTRAR_WITHIN, looked).await {
        Ok(Ok(address)) if is_stream => Ok(format!("trunk {}: {address} answers", trunk.name)),
        Ok(Ok(address)) => Ok(format!("trunk {}: {host} is at {address}", trunk.name)),
        Ok(Err(fault)) => told(fault),
        Err(_) => told("nothing answers".to_owned()),
    })
}

/// Host, port, and whether a connection is made, of `sip:host[:port][;transport=…]`.
fn place(registrar: &str) -> Option<(String, u16, bool)> {
    let (scheme, rest) = registrar.split_once(':')?;
    let (place, parameters) = rest.split_once(';').unwrap_or((rest, ""));
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    let transport = parameters
        .to_ascii_lowercase()
        .split(';')
        .find_map(|parameter| parameter.strip_prefix("transport=").map(str::to_owned));
    let is_tls = scheme == "sips" || transport.as_deref() == Some("tls");
    let is_stream = is_tls || transport.as_deref() == Some("tcp");
    let usual = if is_tls { 5_061 } else { 5_060 };
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if !place.ends_with(']') => (host, port.parse().ok()?),
        _ => (place, usual),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Some((host.to_owned(), port, is_stream))
}

async fn voice(model: &Model) -> Result<String, String> {
    match model {
        Model::Scripted => Ok("the scripted voice needs nothing".to_owned()),
        Model::Gemini(settings) => model_answers(settings).await,
    }
}

async fn model_answers(settings: &Gemini) -> Result<String, String> {
    if settings.api_key.is_empty() {
        return Err("telephony.gemini.api_key is not set (GEMINI_API_KEY)".to_owned());
    }
    gemini::check(settings).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registrars_are_found_in_each_spelling() {
        for (registrar, expected) in [
            ("sip:sip.example.com", ("sip.example.com", 5_060, false)),
            (
                "sip:sip.example.com:5070;transport=TCP",
                ("sip.example.com", 5_070, true),
            ),
            ("sips:sip.example.com", ("sip.example.com", 5_061, true)),
            (
                "sip:u@192.0.2.7;transport=tls;lr",
                ("192.0.2.7", 5_061, true),
            ),
            ("sip:[2001:db8::7]:5080", ("2001:db8::7", 5_080, false)),
            ("sip:[2001:db8::7]", ("2001:db8::7", 5_060, false)),
        ] {
            let (host, port, is_stream) = expected;
            assert_eq!(
                place(registrar),
                Some((host.to_owned(), port, is_stream)),
                "{registrar}"
            );
        }
    }
}
