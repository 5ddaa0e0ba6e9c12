//! The headers of a message, in order, by their long names.

use super::uri::NameAddr;

const HEADERS_MAX: usize = 200;

/// Names and values. Folded lines are joined. Content-Length is left out: it follows from the body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    pub fn push(&mut self, name: &str, value: &str) {
        self.0.push(line(name, value));
    }

    pub fn push_front(&mut self, name: &str, value: &str) {
        self.0.insert(0, line(name, value));
    }

    /// Replaces the topmost Via, and puts every Via on its own line.
    pub fn set_top_via(&mut self, top: &str) {
        let below = self.list("Via");
        let below = below.iter().skip(1).map(|via| line("Via", via));
        let others = std::mem::take(&mut self.0).into_iter();
        let others = others.filter(|(held, _)| !is(held, "Via"));
        self.0 = std::iter::once(line("Via", top))
            .chain(below)
            .chain(others)
            .collect();
    }

    /// Replaces all headers of this name by one.
    pub fn set(&mut self, name: &str, value: &str) {
        match self.0.iter().position(|(held, _)| is(held, name)) {
            Some(at) => {
                self.0[at].1 = value.replace(['\r', '\n'], " ");
                let mut first = true;
                self.0
                    .retain(|(held, _)| !is(held, name) || std::mem::take(&mut first));
            }
            None => self.push(name, value),
        }
    }

    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(held, _)| !is(held, name));
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(held, _)| is(held, name))
            .map(|(_, value)| value.as_str())
    }

    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(held, _)| is(held, name))
            .map(|(_, value)| value.as_str())
    }

    fn elements<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.all(name).flat_map(super::uri::split_list)
    }

    /// The elements of a list header, over all its lines.
    pub fn list(&self, name: &str) -> Vec<String> {
        self.elements(name).map(str::to_owned).collect()
    }

    /// The first element of a list header.
    pub fn first<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.elements(name).next()
    }

    /// True if a list of tokens contains this one.
    pub fn lists(&self, name: &str, token: &str) -> bool {
        self.elements(name)
            .any(|held| held.eq_ignore_ascii_case(token))
    }

    /// The tag of From or To.
    pub fn tag(&self, name: &str) -> Option<String> {
        let address: NameAddr = self.get(name)?.parse().ok()?;
        address.param("tag").map(str::to_owned)
    }

    /// The media type of the body, without parameters, in lower case.
    pub fn media_type(&self) -> String {
        let kind = self.get("Content-Type").unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default();
        kind.trim().to_ascii_lowercase()
    }

    pub fn call_id(&self) -> &str {
        self.get("Call-ID").unwrap_or_default()
    }

    /// Number and method.
    pub fn cseq(&self) -> Option<(u32, &str)> {
        let (number, method) = self.get("CSeq")?.split_once([' ', '\t'])?;
        let number: u32 = number.parse().ok().filter(|number| *number < 1 << 31)?;
        Some((number, method.trim()))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// A header line. A value from elsewhere must not begin another line.
fn line(name: &str, value: &str) -> (String, String) {
    let value = value.replace(['\r', '\n'], " ");
    (long_name(name).to_owned(), value)
}

fn is(held: &str, name: &str) -> bool {
    held.eq_ignore_ascii_case(name)
}

/// The long form of a header's one-letter name.
pub fn long_name(name: &str) -> &str {
    if name.len() != 1 {
        return name;
    }
    match name.to_ascii_lowercase().as_str() {
        "a" => "Accept-Contact",
        "b" => "Referred-By",
        "c" => "Content-Type",
        "e" => "Content-Encoding",
        "f" => "From",
        "i" => "Call-ID",
        "k" => "Supported",
        "l" => "Content-Length",
        "m" => "Contact",
        "o" => "Event",
        "r" => "Refer-To",
        "s" => "Subject",
        "t" => "To",
        "u" => "Allow-Events",
        "v" => "Via",
        "x" => "Session-Expires",
        _ => name,
    }
}

/// Parses header lines and joins folded ones. A faulty line does not hide the others.
pub fn read_headers<'a>(lines: impl Iterator<Item = &'a str>) -> (Headers, Option<&'static str>) {
    let mut unfolded: Vec<(String, String)> = Vec::new();
    let mut fault = None;
    for line in lines {
        if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = unfolded.last_mut() {
                value.push(' ');
                value.push_str(line.trim());
            }
            continue;
        }
        if unfolded.len() >= HEADERS_MAX {
            fault = Some("there are too many headers");
            break;
        }
        match line.split_once(':') {
            Some((name, value)) if is_token(name.trim_end()) => {
                unfolded.push((name.trim_end().to_owned(), value.trim().to_owned()));
            }
            _ => fault = Some("a header has no name"),
        }
    }
    let mut headers = Headers::default();
    for (name, value) in unfolded {
        if !long_name(&name).eq_ignore_ascii_case("Content-Length") {
            headers.push(&name, value.trim());
        }
    }
    (headers, fault)
}

pub fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&byte))
}
