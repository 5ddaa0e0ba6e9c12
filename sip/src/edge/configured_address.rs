//! The addresses of trunks as they may be configured. Pure.
//!
//! A parameter that is not understood is refused: a misspelt transport would otherwise mean UDP, which is not encrypted.

use crate::message::Uri;

/// Why a configured address is refused: what follows its name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressFault {
    #[error("must be like sip.example.com, tcp://sip.example.com:5060 or sip:sip.example.com")]
    Form,
    #[error(
        "has transport={0}, which is no transport; write transport=udp, transport=tcp or transport=tls"
    )]
    Transport(String),
    #[error("has the transport twice; write it once, as in sip:sip.example.com;transport=tls")]
    TwoTransports,
    #[error(
        "has the unknown parameter {0}; only transport is known, as in sip:sip.example.com;transport=tls"
    )]
    Parameter(String),
    #[error(
        "has a question mark; write the transport as in sip:sip.example.com;transport=tls, and nothing else"
    )]
    Headers,
}

/// Converts a configured registrar to a URI: `host[:port]`, the same after `udp://`, `tcp://` or `tls://`, or a URI.
pub fn registrar(written: &str) -> Result<String, AddressFault> {
    read(written, &[])
}

/// The same for an outbound proxy. It may have `lr`, as many phones have it written; its Route gets that anyway.
pub fn outbound_proxy(written: &str) -> Result<String, AddressFault> {
    read(written, &["lr"])
}

fn read(written: &str, flags: &[&str]) -> Result<String, AddressFault> {
    let is_uri = ["sip:", "sips:"].iter().any(|scheme| {
        let begins = written.get(..scheme.len());
        begins.is_some_and(|begins| begins.eq_ignore_ascii_case(scheme))
    });
    let text = match written.split_once("://") {
        _ if is_uri => written.to_owned(),
        Some((transport @ ("udp" | "tcp" | "tls"), place)) => {
            format!("sip:{place};transport={transport}")
        }
        Some(_) => return Err(AddressFault::Form),
        None => format!("sip:{written}"),
    };
    let uri: Uri = text.parse().map_err(|()| AddressFault::Form)?;
    check(&uri, flags)?;
    Ok(text)
}

fn check(uri: &Uri, flags: &[&str]) -> Result<(), AddressFault> {
    if uri.headers.is_some() {
        return Err(AddressFault::Headers);
    }
    let mut transports = 0;
    for (name, value) in &uri.params {
        let is_flag = |flag: &&str| value.is_none() && name.eq_ignore_ascii_case(flag);
        if name.eq_ignore_ascii_case("transport") {
            let named = value.as_deref().unwrap_or_default();
            let is_known = |known: &&str| named.eq_ignore_ascii_case(known);
            if !["udp", "tcp", "tls"].iter().any(is_known) {
                return Err(AddressFault::Transport(named.to_owned()));
            }
            transports += 1;
        } else if !flags.iter().any(is_flag) {
            return Err(AddressFault::Parameter(name.clone()));
        }
    }
    if transports > 1 {
        return Err(AddressFault::TwoTransports);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{
        AddressFault::{Form, Headers, Parameter, Transport, TwoTransports},
        outbound_proxy, registrar,
    };

    #[test]
    fn text_that_is_no_address_is_refused() {
        for strange in [
            "", "http://x", "udp://", "a b", "x:port", "sip:", "tel:abc", "ws://x",
        ] {
            assert_eq!(registrar(strange), Err(Form), "{strange}");
        }
    }

    /// Each would be called over UDP, in clear.
    #[test]
    fn a_misspelt_transport_is_no_udp() {
        let transport = |named: &str| Transport(named.to_owned());
        let parameter = |name: &str| Parameter(name.to_owned());
        for (written, fault) in [
            ("sip:x;transport=tsl", transport("tsl")),
            ("x:5061;transport=ssl", transport("ssl")),
            ("sip:x;transport", transport("")),
            ("sip:x;transport=", transport("")),
            ("sip:x;transport=ws", transport("ws")),
            ("sips:x;transport=tsl", transport("tsl")),
            ("sip:x;transprot=tls", parameter("transprot")),
            ("sip:x;tls", parameter("tls")),
            ("sip:x;transport=tls;lr", parameter("lr")),
            ("tls://x;transport=udp", TwoTransports),
            ("sip:x;transport=udp;transport=tls", TwoTransports),
            ("sip:x?transport=tls", Headers),
        ] {
            assert_eq!(registrar(written), Err(fault), "{written}");
        }
        for (written, uri) in [
            ("sip:x;transport=tls", "sip:x;transport=tls"),
            ("sip:x;Transport=TLS", "sip:x;Transport=TLS"),
            ("x;transport=tcp", "sip:x;transport=tcp"),
            ("tls://x:5061", "sip:x:5061;transport=tls"),
            ("sips:x", "sips:x"),
        ] {
            assert_eq!(registrar(written).as_deref(), Ok(uri));
        }
    }

    #[test]
    fn an_outbound_proxy_may_be_written_as_a_loose_router() {
        let loose = "sip:edge.example;transport=tcp;lr";
        assert_eq!(outbound_proxy(loose).as_deref(), Ok(loose));
        let misspelt = outbound_proxy("sip:edge.example;lr;transprot=tls");
        assert_eq!(misspelt, Err(Parameter("transprot".to_owned())));
    }
}
