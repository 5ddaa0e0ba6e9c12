//! The calling settings of a number, and the changes that they need. Pure.

use std::{fmt, net::IpAddr};

use dikala_sip::settings::{SipSettings, SipTransport};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Meta's settings below `calling`, as far as they concern calls over SIP.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct CallingSettings {
    /// `ENABLED` if people can call the number at all.
    pub status: Option<String>,
    pub srtp_key_exchange_protocol: Option<String>,
    #[serde(default)]
    pub sip: MetaSip,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct MetaSip {
    pub status: Option<String>,
    #[serde(default)]
    pub servers: Option<Vec<MetaServer>>,
}

/// The server that Meta calls.
#[derive(Clone, Deserialize)]
pub struct MetaServer {
    pub hostname: String,
    pub port: Option<u16>,
    pub sip_user_password: Option<String>,
}

/// The setting that names the servers.
pub const SERVERS: &str = "sip.servers";
/// Meta's port, if none is given.
const USUAL_PORT: u16 = 5061;

impl fmt::Debug for MetaServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MetaServer({self})")
    }
}

impl fmt::Display for MetaServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = self.port.unwrap_or(USUAL_PORT);
        write!(f, "{}:{port}", self.hostname)
    }
}

impl MetaServer {
    fn is(&self, other: &Self) -> bool {
        self.hostname.eq_ignore_ascii_case(&other.hostname)
            && self.port.unwrap_or(USUAL_PORT) == other.port.unwrap_or(USUAL_PORT)
    }
}

impl CallingSettings {
    fn servers(&self) -> &[MetaServer] {
        self.sip.servers.as_deref().unwrap_or_default()
    }

    /// The password that Meta has for calls with this server.
    pub fn password(&self, server: &MetaServer) -> Option<&str> {
        let mut servers = self.servers().iter();
        let ours = servers.find(|other| other.is(server))?;
        ours.sip_user_password.as_deref()
    }

    /// True if this server is one of those that Meta calls.
    pub fn has(&self, server: &MetaServer) -> bool {
        self.servers().iter().any(|other| other.is(server))
    }

    /// All servers in one text.
    pub fn server_names(&self) -> String {
        let names: Vec<String> = self.servers().iter().map(ToString::to_string).collect();
        match names.is_empty() {
            true => "none".to_owned(),
            false => names.join(", "),
        }
    }

    pub fn is_enabled(&self) -> bool {
        self.status.as_deref() == Some("ENABLED")
    }
}

/// A changed setting in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SettingChange {
    pub setting: &'static str,
    pub before: String,
    pub after: String,
}

/// The server of these settings, as Meta has to know it: our public name, and the port for TLS.
///
/// Errors: what is missing, in words.
pub fn server_of(sip: &SipSettings) -> Result<MetaServer, String> {
    let name = sip.public_address.as_deref();
    let name = name.filter(|name| name.contains('.') && name.parse::<IpAddr>().is_err());
    let hostname = name.ok_or(
        "telephony.sip.public_address must be the DNS name at which Meta reaches this machine, such as voice.example.com; it must be \
         in the certificate, too",
    )?;
    let mut listen = sip.listen.iter();
    let tls =
        listen.find(|listen| listen.transport == SipTransport::Tls && listen.address.port() != 0);
    let tls = tls.ok_or(
        "telephony.sip.listen needs an address for TLS with a port, such as tls://0.0.0.0:5061",
    )?;
    Ok(MetaServer {
        hostname: hostname.to_owned(),
        port: Some(tls.address.port()),
        sip_user_password: None,
    })
}

/// The servers at which another program takes the calls of the number: those with another host than ours.
///
/// Meta calls one server, that of the app of the token; a server in the request replaces it. More than one are of several apps,
/// and Meta ends a call when any of them hangs up.
pub fn others<'a>(settings: &'a CallingSettings, server: &MetaServer) -> Vec<&'a MetaServer> {
    let servers = settings.servers().iter();
    servers
        .filter(|other| !other.hostname.eq_ignore_ascii_case(&server.hostname))
        .collect()
}

/// The requests that bring the settings to what calls need, in order, each with what it changes. SDES needs SIP, so that is first.
/// Nothing that is right already is sent, so that its other fields stay.
pub fn changes(
    settings: &CallingSettings,
    server: &MetaServer,
) -> Vec<(Value, Vec<SettingChange>)> {
    let mut requests = Vec::new();
    let word = |word: Option<&String>| word.cloned().unwrap_or_else(|| "none".to_owned());
    let change = |setting, before: String, after: &str| {
        let after = after.to_owned();
        (before != after).then_some(SettingChange {
            setting,
            before,
            after,
        })
    };
    let status = change("sip.status", word(settings.sip.status.as_ref()), "ENABLED");
    let servers = match settings.has(server) {
        true => None,
        false => change(SERVERS, settings.server_names(), &server.to_string()),
    };
    let mut sip = Map::new();
    if status.is_some() || servers.is_some() {
        sip.insert("status".to_owned(), json!("ENABLED"));
    }
    if servers.is_some() {
        let port = server.port.unwrap_or(USUAL_PORT);
        let ours = json!([{"hostname": server.hostname, "port": port}]);
        sip.insert("servers".to_owned(), ours);
    }
    if !sip.is_empty() {
        let changed = status.into_iter().chain(servers).collect();
        requests.push((json!({"sip": sip}), changed));
    }
    let protocol = word(settings.srtp_key_exchange_protocol.as_ref());
    if let Some(change) = change("srtp_key_exchange_protocol", protocol, "SDES") {
        requests.push((json!({"srtp_key_exchange_protocol": "SDES"}), vec![change]));
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(value: Value) -> CallingSettings {
        serde_json::from_value(value).expect("settings")
    }

    fn server() -> MetaServer {
        MetaServer {
            hostname: "voice.example.com".to_owned(),
            port: Some(5061),
            sip_user_password: None,
        }
    }

    #[test]
    fn what_is_right_already_is_not_asked_for() {
        let ours = json!({"hostname": "Voice.example.com", "port": 5061});
        let theirs = json!({"hostname": "pbx.example.com", "port": 5062});
        let moved = json!({"hostname": "voice.example.com", "port": 5065});
        for (value, expected) in [
            (
                json!({"sip": {"status": "ENABLED", "servers": [ours]}, "srtp_key_exchange_protocol": "SDES"}),
                &[][..],
            ),
            (
                json!({}),
                &[
                    "sip.status none ENABLED",
                    "sip.servers none voice.example.com:5061",
                    "srtp_key_exchange_protocol none SDES",
                ],
            ),
            (
                json!({"sip": {"status": "DISABLED", "servers": null}, "srtp_key_exchange_protocol": "DTLS"}),
                &[
                    "sip.status DISABLED ENABLED",
                    "sip.servers none voice.example.com:5061",
                    "srtp_key_exchange_protocol DTLS SDES",
                ],
            ),
            (
                json!({"sip": {"status": "ENABLED", "servers": [theirs]}, "srtp_key_exchange_protocol": "SDES"}),
                &["sip.servers pbx.example.com:5062 voice.example.com:5061"],
            ),
            (
                json!({"sip": {"status": "ENABLED", "servers": [theirs, ours]}, "srtp_key_exchange_protocol": "SDES"}),
                &[],
            ),
            (
                json!({"sip": {"status": "ENABLED", "servers": [moved]}, "srtp_key_exchange_protocol": "SDES"}),
                &["sip.servers voice.example.com:5065 voice.example.com:5061"],
            ),
        ] {
            let requests = changes(&settings(value.clone()), &server());
            let told: Vec<String> = requests
                .iter()
                .flat_map(|(_, changes)| changes)
                .map(|of| format!("{} {} {}", of.setting, of.before, of.after))
                .collect();
            assert_eq!(told, expected, "{value}");
            // One group of features in a request.
            let groups = |(body, _): &(Value, _)| body.as_object().map(|body| body.len());
            assert!(requests.iter().all(|request| groups(request) == Some(1)));
        }
    }

    #[test]
    fn a_server_that_is_right_is_not_sent_again() {
        let ours =
            json!({"hostname": "voice.example.com", "request_uri_user_params": {"tgrp": "1"}});
        let value = json!({"sip": {"status": "DISABLED", "servers": [ours]}});
        let requests = changes(&settings(value), &server());
        assert_eq!(requests[0].0, json!({"sip": {"status": "ENABLED"}}));
    }

    #[test]
    fn other_hosts_are_servers_of_others() {
        let value = json!({"sip": {"servers": [
            {"hostname": "VOICE.example.com", "port": 5065},
            {"hostname": "pbx.example.com"},
        ]}});
        let settings = settings(value);
        let names: Vec<String> = others(&settings, &server())
            .into_iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(names, ["pbx.example.com:5061"]);
    }

    #[test]
    fn the_password_is_that_of_our_server() {
        let value = json!({"sip": {"servers": [
            {"hostname": "pbx.example.com", "port": 5061, "sip_user_password": "theirs"},
            {"hostname": "voice.example.com", "sip_user_password": "ours"},
        ]}});
        let settings = settings(value);
        assert_eq!(settings.password(&server()), Some("ours"));
        assert!(!format!("{settings:?}").contains("ours"));
    }
}
