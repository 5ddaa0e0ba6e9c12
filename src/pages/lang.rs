//! The languages of the pages, and the choice of one by `Accept-Language`. Pure.

use actix_web::http::header::{ACCEPT_LANGUAGE, HeaderMap};

use super::headers::header;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lang {
    En,
    Id,
}

impl Lang {
    /// All languages; the first is the default.
    pub const ALL: &'static [Self] = &[Self::En, Self::Id];

    pub const fn tag(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::Id => "id",
        }
    }

    /// The language's own name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::En => "English",
            Self::Id => "Bahasa Indonesia",
        }
    }

    /// The language of a tag, whatever its region: `en-GB` is English. `in` is the tag of Indonesian before 1989,
    /// which old Java programs still send.
    pub fn parse(tag: &str) -> Option<Self> {
        let primary = tag.split('-').next().unwrap_or_default().trim();
        let is = |lang: &&Self| {
            primary.eq_ignore_ascii_case(lang.tag())
                || (**lang == Self::Id && primary.eq_ignore_ascii_case("in"))
        };
        Self::ALL.iter().find(is).copied()
    }

    /// The reader's language: the chosen one, or the one that the browser prefers.
    pub fn of(headers: &HeaderMap, chosen: Option<&str>) -> Self {
        let accepted = header(headers, &ACCEPT_LANGUAGE).unwrap_or_default();
        let chosen = chosen.and_then(Self::parse);
        chosen.unwrap_or_else(|| Self::preferred(accepted))
    }

    /// The preferred language of an `Accept-Language` header (RFC 9110 section 12.5.4); English if none matches.
    fn preferred(accept: &str) -> Self {
        let mut best = (0, Self::En);
        for part in accept.split(',') {
            let (tag, weight) = part.split_once(';').unwrap_or((part, "q=1"));
            let weight = thousandths(weight.trim());
            let lang = match tag.trim() {
                "*" => Some(Self::En),
                tag => Self::parse(tag),
            };
            if let Some(lang) = lang.filter(|_| weight > best.0) {
                best = (weight, lang);
            }
        }
        best.1
    }
}

/// Parses `q=0.8` into thousandths; an invalid weight counts as 1.
fn thousandths(weight: &str) -> u32 {
    let Some(text) = weight.strip_prefix("q=") else {
        return 1_000;
    };
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let decimals: String = decimals.chars().chain("000".chars()).take(3).collect();
    match (whole, decimals.parse::<u32>()) {
        ("0", Ok(decimals)) => decimals,
        _ => 1_000,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("", Lang::En)]
    #[case("id", Lang::Id)]
    #[case("id-ID,id;q=0.9,en-US;q=0.8", Lang::Id)]
    #[case("en-US,en;q=0.9,id;q=0.8", Lang::En)]
    #[case("in-ID", Lang::Id)]
    #[case("de-DE, id;q=0.1", Lang::Id)]
    #[case("de", Lang::En)]
    #[case("id;q=0, en;q=0.5", Lang::En)]
    #[case("*", Lang::En)]
    #[case("ID;q=nonsense", Lang::Id)]
    fn the_browser_is_asked(#[case] accept: &str, #[case] lang: Lang) {
        assert_eq!(Lang::preferred(accept), lang, "{accept}");
    }
}
