//! SIP URIs, and addresses: URIs with a display name and parameters.

use std::{fmt, net::IpAddr, str::FromStr};

/// A URI. `tel:` has only a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uri {
    /// In lower case.
    pub scheme: String,
    /// Unescaped, without password.
    pub user: String,
    pub host: Host,
    pub port: Option<u16>,
    /// Parameters, each written with a leading semicolon: `;transport=tcp`.
    pub params: Vec<(String, Option<String>)>,
    /// The unparsed headers after the question mark.
    pub headers: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    Ip(IpAddr),
    Name(String),
}

impl Uri {
    pub fn sip(user: &str, host: Host, port: Option<u16>) -> Self {
        Self {
            scheme: "sip".to_owned(),
            user: user.to_owned(),
            host,
            port,
            params: Vec::new(),
            headers: None,
        }
    }

    pub fn param(&self, name: &str) -> Option<&str> {
        value_of(&self.params, name)
    }

    pub fn has(&self, name: &str) -> bool {
        has(&self.params, name)
    }

    /// True if both URIs have the same destination: the default port may be omitted, and parameters do not count.
    pub fn leads_to(&self, other: &Self) -> bool {
        let port = |uri: &Self| {
            let usual = if uri.scheme == "sips" { 5061 } else { 5060 };
            uri.port.unwrap_or(usual)
        };
        let same_host = match (&self.host, &other.host) {
            (Host::Name(one), Host::Name(another)) => one.eq_ignore_ascii_case(another),
            (one, another) => one == another,
        };
        self.user == other.user && same_host && port(self) == port(other)
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: Option<&str>) -> Self {
        self.params
            .push((name.to_owned(), value.map(str::to_owned)));
        self
    }
}

impl FromStr for Uri {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text.is_empty() || text.contains([' ', '\t', '<', '>', '"']) {
            return Err(());
        }
        let (scheme, rest) = text.split_once(':').ok_or(())?;
        let scheme = scheme.to_ascii_lowercase();
        if !scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        {
            return Err(());
        }
        if !matches!(scheme.as_str(), "sip" | "sips") {
            let (user, params) = rest.split_once(';').map_or((rest, ""), |parts| parts);
            return Ok(Self {
                scheme,
                user: unescape(user).ok_or(())?,
                host: Host::Name(String::new()),
                port: None,
                params: read_params(params).ok_or(())?,
                headers: None,
            });
        }
        // The user may contain a question mark or a semicolon: the host begins after the @.
        let (user, rest) = rest.rsplit_once('@').map_or(("", rest), |parts| parts);
        let (rest, headers) = match rest.split_once('?') {
            Some((rest, headers)) => (rest, Some(headers.to_owned())),
            None => (rest, None),
        };
        let (host, params) = rest.split_once(';').map_or((rest, ""), |parts| parts);
        let (host, port) = read_host_port(host).ok_or(())?;
        let user = user.split_once(':').map_or(user, |(user, _)| user);
        Ok(Self {
            scheme,
            user: unescape(user).ok_or(())?,
            host,
            port,
            params: read_params(params).ok_or(())?,
            headers,
        })
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.scheme, escape(&self.user))?;
        if matches!(self.scheme.as_str(), "sip" | "sips") {
            if !self.user.is_empty() {
                f.write_str("@")?;
            }
            write!(f, "{}", self.host)?;
            if let Some(port) = self.port {
                write!(f, ":{port}")?;
            }
        }
        write_params(f, &self.params)?;
        match &self.headers {
            Some(headers) => write!(f, "?{headers}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]"),
            Self::Ip(ip) => write!(f, "{ip}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl FromStr for Host {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let bare = text
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'));
        if let Some(bare) = bare {
            return Ok(Self::Ip(IpAddr::V6(bare.parse().map_err(|_| ())?)));
        }
        if let Ok(ip) = text.parse() {
            return Ok(Self::Ip(ip));
        }
        let named = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if text.is_empty() || text.len() > 253 || !text.bytes().all(named) {
            return Err(());
        }
        Ok(Self::Name(text.to_owned()))
    }
}

/// An address as in From, To, Contact and Route: a URI with a display name and parameters of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameAddr {
    /// Without quotes.
    pub name: String,
    pub uri: Uri,
    pub params: Vec<(String, Option<String>)>,
}

impl NameAddr {
    pub fn param(&self, name: &str) -> Option<&str> {
        value_of(&self.params, name)
    }
}

impl FromStr for NameAddr {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let text = text.trim();
        let (name, rest) = read_name(text).ok_or(())?;
        if let Some(rest) = rest.strip_prefix('<') {
            let (uri, after) = rest.split_once('>').ok_or(())?;
            let after = after.trim();
            let params = match after.strip_prefix(';') {
                Some(params) => read_params(params).ok_or(())?,
                None if after.is_empty() => Vec::new(),
                None => return Err(()),
            };
            return Ok(Self {
                name,
                uri: uri.trim().parse()?,
                params,
            });
        }
        if !name.is_empty() {
            return Err(());
        }
        // Without brackets, everything after the first semicolon belongs to the header.
        let (uri, params) = rest.split_once(';').map_or((rest, ""), |parts| parts);
        Ok(Self {
            name,
            uri: uri.trim().parse()?,
            params: read_params(params).ok_or(())?,
        })
    }
}

impl fmt::Display for NameAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.name.is_empty() {
            let name = self.name.replace('\\', "\\\\").replace('"', "\\\"");
            write!(f, "\"{name}\" ")?;
        }
        write!(f, "<{}>", self.uri)?;
        write_params(f, &self.params)
    }
}

/// The display name, and the rest, which begins with the address.
fn read_name(text: &str) -> Option<(String, &str)> {
    if let Some(quoted) = text.strip_prefix('"') {
        let mut name = String::new();
        let mut escaped = false;
        for (at, letter) in quoted.char_indices() {
            match letter {
                _ if escaped => {
                    name.push(letter);
                    escaped = false;
                }
                '\\' => escaped = true,
                '"' => {
                    let rest = quoted[at + 1..].trim_start();
                    return rest.starts_with('<').then_some((name, rest));
                }
                _ => name.push(letter),
            }
        }
        return None;
    }
    match text.find('<') {
        Some(at) => {
            let name = text[..at].trim();
            (!name.contains(['"', ':', ','])).then(|| (name.to_owned(), &text[at..]))
        }
        None => Some((String::new(), text)),
    }
}

/// Splits a list at its commas, but not inside quotes or brackets.
pub fn split_list(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut from, mut quoted, mut escaped, mut inside) = (0, false, false, false);
    for (at, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '<' if !quoted => inside = true,
            '>' if !quoted => inside = false,
            ',' if !quoted && !inside => {
                parts.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[from..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

/// `host`, `host:port`, `[v6]:port`.
pub fn read_host_port(text: &str) -> Option<(Host, Option<u16>)> {
    let colon = match text.rfind(']') {
        Some(bracket) => text[bracket..].find(':').map(|at| bracket + at),
        None => text.find(':'),
    };
    let (host, port) = match colon {
        Some(at) => (&text[..at], Some(text[at + 1..].trim().parse().ok()?)),
        None => (text, None),
    };
    Some((host.trim().parse().ok()?, port))
}

/// `a=1;b;c="2"`.
pub fn read_params(text: &str) -> Option<Vec<(String, Option<String>)>> {
    let mut params = Vec::new();
    let (mut from, mut quoted, mut escaped) = (0, false, false);
    let ends = text
        .char_indices()
        .filter(|(_, letter)| {
            match letter {
                _ if escaped => escaped = false,
                '\\' if quoted => escaped = true,
                '"' => quoted = !quoted,
                ';' => return !quoted,
                _ => {}
            }
            false
        })
        .map(|(at, _)| at)
        .collect::<Vec<_>>();
    if quoted {
        return None;
    }
    for end in ends.into_iter().chain([text.len()]) {
        let part = text[from..end].trim();
        from = (end + 1).min(text.len());
        if part.is_empty() {
            continue;
        }
        params.push(match part.split_once('=') {
            Some((name, value)) => (
                name.trim().to_owned(),
                Some(value.trim().trim_matches('"').to_owned()),
            ),
            None => (part.to_owned(), None),
        });
    }
    Some(params)
}

pub fn value_of<'a>(params: &'a [(String, Option<String>)], name: &str) -> Option<&'a str> {
    params
        .iter()
        .find(|(held, _)| held.eq_ignore_ascii_case(name))
        .and_then(|(_, value)| value.as_deref())
}

pub fn has(params: &[(String, Option<String>)], name: &str) -> bool {
    params
        .iter()
        .any(|(held, _)| held.eq_ignore_ascii_case(name))
}

pub fn write_params(
    f: &mut fmt::Formatter<'_>,
    params: &[(String, Option<String>)],
) -> fmt::Result {
    for (name, value) in params {
        match value {
            Some(value) if value.contains([' ', '"', ',', ';', '<', '>', '=']) => {
                write!(f, ";{name}=\"{value}\"")?;
            }
            Some(value) => write!(f, ";{name}={value}")?,
            None => write!(f, ";{name}")?,
        }
    }
    Ok(())
}

fn unescape(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'%' {
            let byte = hex::decode(text.get(at + 1..at + 3)?).ok()?;
            plain.extend(byte);
            at += 3;
        } else {
            plain.push(bytes[at]);
            at += 1;
        }
    }
    Some(String::from_utf8_lossy(&plain).into_owned())
}

fn escape(user: &str) -> String {
    let mut text = String::with_capacity(user.len());
    for byte in user.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.!~*'()&=+$,;?/".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}
