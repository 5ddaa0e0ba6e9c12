//! Via headers, the route of responses.

use std::{fmt, net::SocketAddr, str::FromStr};

use super::uri::{Host, has, read_host_port, read_params, value_of, write_params};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Via {
    /// `UDP`, `TCP`, `TLS`.
    pub transport: String,
    pub host: Host,
    pub port: Option<u16>,
    pub params: Vec<(String, Option<String>)>,
}

impl Via {
    pub fn branch(&self) -> Option<&str> {
        value_of(&self.params, "branch")
    }

    pub fn sent_by(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.host).to_ascii_lowercase(),
            None => self.host.to_string().to_ascii_lowercase(),
        }
    }

    /// Records the real source of the request (RFC 3261, 18.2.1; RFC 3581).
    pub fn came_from(&mut self, source: SocketAddr) {
        let wants_port = has(&self.params, "rport");
        if wants_port || self.host != Host::Ip(source.ip()) {
            self.set("received", &source.ip().to_string());
        }
        if wants_port {
            self.set("rport", &source.port().to_string());
        }
    }

    /// Destination of a response over UDP (18.2.2). A peer behind NAT hears nothing but at the port that it sent from, whether it
    /// knows of RFC 3581 or not. Such a peer names another address than the source, or a name. A peer that names the source may
    /// listen on another port than it sends from.
    pub fn back(&self, source: SocketAddr) -> SocketAddr {
        if self.host != Host::Ip(source.ip()) || has(&self.params, "rport") {
            return source;
        }
        SocketAddr::new(source.ip(), self.port.unwrap_or(5060))
    }

    fn set(&mut self, name: &str, value: &str) {
        self.params
            .retain(|(held, _)| !held.eq_ignore_ascii_case(name));
        self.params.push((name.to_owned(), Some(value.to_owned())));
    }
}

impl FromStr for Via {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (sent, params) = text.split_once(';').map_or((text, ""), |parts| parts);
        let mut protocol = sent.splitn(3, '/');
        let name = protocol.next().ok_or(())?.trim();
        let version = protocol.next().ok_or(())?.trim();
        let rest = protocol.next().ok_or(())?.trim();
        let (transport, by) = rest.split_once([' ', '\t']).ok_or(())?;
        if !name.eq_ignore_ascii_case("SIP") || version != "2.0" {
            return Err(());
        }
        let (host, port) = read_host_port(by.trim()).ok_or(())?;
        // Separators with nothing between them are no parameters.
        if !params.is_empty() && params.split(';').any(|part| part.trim().is_empty()) {
            return Err(());
        }
        Ok(Self {
            transport: transport.to_ascii_uppercase(),
            host,
            port,
            params: read_params(params).ok_or(())?,
        })
    }
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SIP/2.0/{} {}", self.transport, self.host)?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        write_params(f, &self.params)
    }
}
