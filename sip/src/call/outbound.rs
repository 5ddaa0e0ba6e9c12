//! Calls to persons: where they go, and which numbers they show. Pure.

use crate::{
    message::{Host, SipRequest, Uri},
    settings::{Credentials, OutboundIdentity, SipTransport, Trunk},
    transport::Flow,
};

/// The Request-URI of a call to a person that the trunk's settings choose; `None` if it is to go to where the caller came from.
/// The second is where the request goes in place of it.
pub fn configured(trunk: &Trunk, to: &str) -> Option<(Uri, Option<Uri>)> {
    let at = |text: &String| text.parse::<Uri>().ok();
    let towards = |uri: Uri| Uri {
        user: to.to_owned(),
        ..uri
    };
    if let Some(uri) = trunk.outbound.uri.as_ref().and_then(at) {
        return Some((towards(uri), None));
    }
    let register = trunk.register.as_ref()?;
    let proxy = register.proxy.as_ref().and_then(at);
    Some((towards(at(&register.registrar)?), proxy))
}

/// The person, at the address that the caller's requests come from. `contact` is the caller's.
pub fn at_source(to: &str, flow: &Flow, contact: &Uri) -> Uri {
    let host = Host::Ip(flow.remote.ip());
    // Nobody listens at the source port of a connection.
    let listening = contact.port.filter(|_| contact.host == host);
    match flow.transport {
        SipTransport::Udp => Uri::sip(to, host, Some(flow.remote.port())),
        SipTransport::Tcp => Uri::sip(to, host, listening).with("transport", Some("tcp")),
        SipTransport::Tls => Uri::sip(to, host, listening).with("transport", Some("tls")),
    }
}

/// The credentials for calls to persons.
pub fn credentials(trunk: &Trunk) -> Option<&Credentials> {
    let outbound = trunk.outbound.credentials.as_ref();
    outbound.or_else(|| registered(trunk))
}

/// The credentials for requests within a call. With `outbound.uri`, callers may come from another carrier, which does not know the
/// credentials for calls to persons. `is_outbound`: the call was dialled to where the request goes.
pub fn credentials_within(trunk: &Trunk, is_outbound: bool) -> Option<&Credentials> {
    match trunk.outbound.uri {
        // Meta has one password for a number, in both directions.
        Some(_) if !is_outbound && !trunk.is_whatsapp() => registered(trunk),
        _ => credentials(trunk),
    }
}

fn registered(trunk: &Trunk) -> Option<&Credentials> {
    let register = trunk.register.as_ref();
    register.map(|register| &register.credentials)
}

/// The number that the person sees, with the host of the account, or else our own address.
pub fn from(trunk: &Trunk, did: &str, caller: &str, own: (Host, u16)) -> Uri {
    let register = trunk.register.as_ref();
    let record = register.and_then(|register| register.address_of_record());
    let account = match &record {
        Some(record) => Some(record.user.as_str()),
        None => credentials(trunk).map(|credentials| credentials.username.as_str()),
    };
    let user = match trunk.outbound.from {
        // Meta accepts calls of the business number only.
        _ if trunk.is_whatsapp() => trunk.number.as_deref().unwrap_or(did),
        OutboundIdentity::Did => did,
        OutboundIdentity::Account => account.unwrap_or(did),
        // A caller without a number shows none that the carrier knows.
        OutboundIdentity::Caller if caller.starts_with('+') => caller,
        OutboundIdentity::Caller => did,
    };
    match &record {
        Some(record) => Uri {
            user: user.to_owned(),
            ..record.clone()
        },
        None => Uri::sip(user, own.0, Some(own.1)),
    }
}

/// Names the called number as ours, and as the one that passes the call on (RFC 3325, RFC 5806).
pub fn identify(invite: &mut SipRequest, from: &Uri, did: &str) {
    let ours = Uri {
        user: did.to_owned(),
        ..from.clone()
    };
    let headers = &mut invite.headers;
    headers.push("P-Preferred-Identity", &format!("<{ours}>"));
    headers.push("Diversion", &format!("<{ours}>;reason=unconditional"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{OutboundSettings, RegisterSettings};

    fn trunk(from: OutboundIdentity, register: Option<&str>) -> Trunk {
        let credentials = |username: &str| Credentials {
            username: username.to_owned(),
            password: "rahasia".to_owned(),
        };
        Trunk {
            register: register.map(|domain| RegisterSettings {
                registrar: "sip:reg.example:5070;transport=tcp".to_owned(),
                domain: Some(domain.to_owned()).filter(|domain| !domain.is_empty()),
                proxy: Some("sip:edge.example".to_owned()),
                credentials: credentials("123456"),
                ..RegisterSettings::default()
            }),
            outbound: OutboundSettings {
                from,
                credentials: register.is_none().then(|| credentials("acme")),
                ..OutboundSettings::default()
            },
            ..Trunk::default()
        }
    }

    #[test]
    fn a_person_at_the_source_is_where_calls_come_from() {
        use SipTransport::{Tcp, Tls, Udp};
        for (transport, contact, expected) in [
            (Udp, "sip:x@10.9.9.9:5070", "sip:+62811@192.0.2.30:5080"),
            (
                Tcp,
                "sip:x@192.0.2.30:5070",
                "sip:+62811@192.0.2.30:5070;transport=tcp",
            ),
            (
                Tls,
                "sip:x@10.9.9.9:5070",
                "sip:+62811@192.0.2.30;transport=tls",
            ),
        ] {
            let (flow, _sent) = Flow::kept(transport, "192.0.2.1:5060", "192.0.2.30:5080");
            let uri = at_source("+62811", &flow, &contact.parse().unwrap());
            assert_eq!(uri.to_string(), expected);
        }
    }

    #[test]
    fn the_person_sees_the_number_that_the_trunk_chooses() {
        use OutboundIdentity::{Account, Caller, Did};
        for (from_user, register, caller, expected) in [
            (Did, None, "+62811", "sip:+6221@192.0.2.1:5060"),
            (Account, None, "+62811", "sip:acme@192.0.2.1:5060"),
            (Caller, None, "+62811", "sip:+62811@192.0.2.1:5060"),
            (Caller, None, "anonymous", "sip:+6221@192.0.2.1:5060"),
            (Did, Some(""), "+62811", "sip:+6221@reg.example:5070"),
            (
                Account,
                Some("ims.example"),
                "+62811",
                "sip:123456@ims.example",
            ),
            (
                Caller,
                Some("ims.example"),
                "+62811",
                "sip:+62811@ims.example",
            ),
        ] {
            let own = (Host::Ip([192, 0, 2, 1].into()), 5060);
            let uri = from(&trunk(from_user, register), "+6221", caller, own);
            assert_eq!(uri.to_string(), expected);
        }
    }

    #[test]
    fn calls_to_persons_go_where_the_trunk_says() {
        let route = |trunk: &Trunk| {
            let (uri, hop) = configured(trunk, "+62811")?;
            Some((uri.to_string(), hop.map(|hop| hop.to_string())))
        };
        assert_eq!(route(&trunk(OutboundIdentity::Did, None)), None);
        let mut registered = trunk(OutboundIdentity::Did, Some("ims.example"));
        let there = "sip:+62811@reg.example:5070;transport=tcp".to_owned();
        let hop = Some("sip:edge.example".to_owned());
        assert_eq!(route(&registered), Some((there, hop)));
        registered.outbound.uri = Some("sip:acme.pstn.example".to_owned());
        let there = "sip:+62811@acme.pstn.example".to_owned();
        assert_eq!(route(&registered), Some((there, None)));
    }
}
