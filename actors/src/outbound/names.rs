//! Names and ports allowed in a tenant's address, independent of name servers. Pure.

use super::blocked::BlockedReason;

/// Domains whose names are all local, internal or no host:
/// - special-use names of the IANA registry (<https://www.iana.org/assignments/special-use-domain-names>) that no
///   public server has
/// - names that RFC 6762 appendix G found in use in private networks
/// - `mail`, which is in such use as well and never delegated
/// - names of Kubernetes' and Consul's name servers
const INTERNAL_DOMAINS: &[&str] = &[
    "alt",
    "arpa",
    "consul",
    "corp",
    "example",
    "home",
    "internal",
    "intranet",
    "invalid",
    "lan",
    "local",
    "localdomain",
    "localdomain6",
    "localhost",
    "mail",
    "onion",
    "private",
    "svc",
    "test",
];

/// The ports of other protocols: the "bad ports" of the Fetch standard, section 2.10.
const OTHER_PROTOCOLS: &[u16] = &[
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101,
    102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427,
    465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990,
    993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667,
    6668, 6669, 6679, 6697, 10080,
];

/// An internal host that the operator allows tenants to use: `hooks.internal`, or `.internal` for all names in a
/// domain. With a port, such as `hooks.internal:6000`, only that port is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedHost {
    /// In lower case; with a leading dot, all names with this ending.
    name: String,
    port: Option<u16>,
}

/// The text is no host name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is no host; write it like hooks.internal, .internal or hooks.internal:8443")]
pub struct AllowedHostError;

impl std::str::FromStr for AllowedHost {
    type Err = AllowedHostError;

    fn from_str(text: &str) -> Result<Self, AllowedHostError> {
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) => (name, Some(port.parse().map_err(|_| AllowedHostError)?)),
            None => (text, None),
        };
        let bare = name.strip_prefix('.').unwrap_or(name);
        if !dikala_entities::is_host_name(bare) {
            return Err(AllowedHostError);
        }
        Ok(Self {
            name: name.to_ascii_lowercase(),
            port,
        })
    }
}

impl AllowedHost {
    /// True if it allows this host and port.
    pub(super) fn covers(&self, host: &str, port: u16) -> bool {
        let host = normal(host);
        let named = if self.name.starts_with('.') {
            host.ends_with(&self.name)
        } else {
            host == self.name
        };
        let port_fits = match self.port {
            Some(allowed) => port == allowed,
            None => !OTHER_PROTOCOLS.contains(&port),
        };
        named && port_fits
    }
}

fn normal(host: &str) -> String {
    let host = host.strip_suffix('.').unwrap_or(host);
    host.to_ascii_lowercase()
}

/// Names of the loopback by RFC 6761 section 6.3.
pub(super) fn is_localhost(host: &str) -> bool {
    let host = normal(host);
    host == "localhost" || host.ends_with(".localhost")
}

/// Refuses names of private networks, and ports of other protocols. Address literals are judged as addresses.
pub(super) fn check(host: &str, port: u16) -> Result<(), BlockedReason> {
    if OTHER_PROTOCOLS.contains(&port) {
        return Err(BlockedReason::Port);
    }
    // `localhost` is judged by its addresses: an operator who allows those means the name too.
    if host.starts_with('[') || host.parse::<std::net::IpAddr>().is_ok() || is_localhost(host) {
        return Ok(());
    }
    let host = normal(host);
    let internal = match host.rsplit_once('.') {
        Some((_, last)) => INTERNAL_DOMAINS.contains(&last),
        None => true,
    };
    if internal {
        return Err(BlockedReason::Internal);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internal_names_and_ports_of_other_protocols_are_refused() {
        for host in [
            "intranet",
            "metadata",
            "ip6-localhost",
            "localhost.localdomain",
            "metadata.google.internal",
            "METADATA.Google.Internal.",
            "printer.local",
            "router.home.arpa",
            "1.0.0.127.in-addr.arpa",
            "abcdefghij.onion",
            "no-such-host.invalid",
            "nas.lan",
            "git.corp",
            "hooks.example",
            "hooks.test",
            "api.default.svc",
            "redis.service.consul",
            "mx.mail",
        ] {
            assert_eq!(check(host, 443), Err(BlockedReason::Internal), "{host}");
        }
        for host in [
            "example.com",
            "EXAMPLE.com.",
            "internal.example.com",
            "local.dev",
            "test.example.com",
            "mail.test.io",
            "8.8.8.8",
            "[2606:4700::1]",
        ] {
            assert_eq!(check(host, 443), Ok(()), "{host}");
            for port in [22, 25, 53, 6000, 6667, 10080] {
                assert_eq!(check(host, port), Err(BlockedReason::Port), "{host}:{port}");
            }
            for port in [80, 443, 3000, 8080, 8443, 9000] {
                assert_eq!(check(host, port), Ok(()), "{host}:{port}");
            }
        }
        assert!(OTHER_PROTOCOLS.is_sorted());
    }

    #[test]
    fn an_allowed_host_covers_what_it_says() {
        let covers = |allowed: &str, host: &str, port: u16| {
            let allowed: AllowedHost = allowed.parse().expect("a host");
            allowed.covers(host, port)
        };
        assert!(covers("Hooks.Internal", "hooks.internal.", 8443));
        assert!(!covers("hooks.internal", "a.hooks.internal", 443));
        assert!(!covers("hooks.internal", "hooks.internal", 22));
        assert!(covers(".internal", "a.b.internal", 443));
        assert!(!covers(".internal", "internal", 443));
        assert!(!covers(".internal", "evilinternal", 443));
        assert!(covers("mail:25", "mail", 25) && !covers("mail:25", "mail", 443));
        assert!(covers("10.1.2.3", "10.1.2.3", 443));
        for wrong in [
            "",
            ".",
            "a..b",
            "https://a",
            "a/b",
            "a:b",
            "a:70000",
            "a b",
            "*.a",
        ] {
            assert_eq!(
                wrong.parse::<AllowedHost>(),
                Err(AllowedHostError),
                "{wrong:?}"
            );
        }
    }
}
