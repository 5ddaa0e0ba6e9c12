//! `pattern`: a regular expression in JavaScript's or Python's syntax, run in linear time.

use regex::{Regex, RegexBuilder};

/// Maximum size of a compiled pattern, and of its search cache, in bytes. Otherwise a pattern of three characters
/// could use megabytes.
const BYTES_MAX: usize = 128 * 1024;
/// The smallest size class; each next class is twice as large.
const BYTES_LEAST: usize = 1024;
/// Maximum nesting of groups.
const NESTING_MAX: u32 = 50;

/// Patterns of schema generators with look-ahead, which linear time excludes, and equivalents without it.
const WITHOUT_LOOK_AHEAD: &[(&str, &str)] = &[
    // pydantic's `Decimal`.
    (
        r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$",
        r"^[+-]?(?:\d+\.?\d*|\.\d+)$",
    ),
    // zod's email.
    (
        r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$",
        r"^(?:[A-Za-z0-9_'+\-]+\.)*[A-Za-z0-9_'+\-]*[A-Za-z0-9_+\-]@(?:[A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$",
    ),
    // zod's duration.
    (
        r"^P(?:(\d+W)|(?!.*W)(?=\d|T\d)(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+([.,]\d+)?S)?)?)$",
        r"^P(?:\d+W|(?:\d+Y(?:\d+M)?(?:\d+D)?|\d+M(?:\d+D)?|\d+D)(?:T(?:\d+H(?:\d+M)?(?:\d+(?:[.,]\d+)?S)?|\d+M(?:\d+(?:[.,]\d+)?S)?|\d+(?:[.,]\d+)?S))?|T(?:\d+H(?:\d+M)?(?:\d+(?:[.,]\d+)?S)?|\d+M(?:\d+(?:[.,]\d+)?S)?|\d+(?:[.,]\d+)?S))$",
    ),
];

#[derive(Clone, Debug)]
pub(super) struct Pattern {
    regex: Regex,
    /// Its compiled size, rounded up to a power of two.
    kib: usize,
}

impl Pattern {
    pub(super) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    pub(super) fn as_str(&self) -> &str {
        self.regex.as_str()
    }

    /// The steps of a search in this text. At worst each character is tried in each state of the pattern.
    pub(super) fn steps(&self, text: &str) -> usize {
        text.len().saturating_mul(self.kib)
    }
}

/// Compiles a pattern, or says what is wrong with it.
pub(super) fn compile(pattern: &str) -> Result<Pattern, String> {
    let known = WITHOUT_LOOK_AHEAD
        .iter()
        .find(|(written, _)| *written == pattern);
    let pattern = translated(known.map_or(pattern, |(_, same)| same));
    // The regex crate does not report a pattern's size, only if it exceeds a limit.
    let mut bytes_max = BYTES_LEAST;
    loop {
        let built = RegexBuilder::new(&pattern)
            .size_limit(bytes_max)
            .dfa_size_limit(BYTES_MAX)
            .nest_limit(NESTING_MAX)
            .build();
        match built {
            Ok(regex) => {
                let kib = bytes_max / 1024;
                return Ok(Pattern { regex, kib });
            }
            Err(regex::Error::CompiledTooBig(_)) if bytes_max < BYTES_MAX => bytes_max *= 2,
            Err(regex::Error::CompiledTooBig(_)) => {
                return Err(format!(
                    "is too large: compiled it must have at most {BYTES_MAX} bytes"
                ));
            }
            Err(error) => {
                let text = error.to_string();
                let reason = text.rsplit("error: ").next().unwrap_or_default().trim();
                return Err(format!(
                    "cannot be run in linear time or is no regular expression ({reason})"
                ));
            }
        }
    }
}

/// Translates syntax with another meaning in JavaScript: `\d`, `\w` and `\b` are ASCII, and `[`, `&` and `~` inside a
/// class are literal.
fn translated(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut in_class = false;
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match (c, in_class) {
            ('\\', _) => match (chars.next(), in_class) {
                (Some('d'), false) => out.push_str("[0-9]"),
                (Some('d'), true) => out.push_str("0-9"),
                (Some('D'), _) => out.push_str("[^0-9]"),
                (Some('w'), false) => out.push_str("[0-9A-Za-z_]"),
                // Ends with a range, so that a following hyphen is literal, as in JavaScript.
                (Some('w'), true) => out.push_str("_0-9A-Za-z"),
                (Some('W'), _) => out.push_str("[^0-9A-Za-z_]"),
                (Some('b'), false) => out.push_str(r"(?-u:\b)"),
                (Some('b'), true) => out.push_str(r"\x08"),
                (Some(plain @ ('<' | '>')), _) => out.push(plain),
                (Some(other), _) => out.extend(['\\', other]),
                (None, _) => out.push('\\'),
            },
            ('[', false) => {
                in_class = true;
                out.push('[');
            }
            ('[' | '&' | '~', true) => out.extend(['\\', c]),
            (']', true) => {
                in_class = false;
                out.push(']');
            }
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn javascript_patterns_mean_what_they_mean_there() {
        for (pattern, fits, fails) in [
            (r"^\d+$", "12", "١٢"),
            (r"^\w+$", "az_09", "ä"),
            (r"^[\w.-]+$", "a.b-c", "a b"),
            (
                r"^[\w-.]+@([\w-]+\.)+[\w-]{2,4}$",
                "a-b.c@d-e.org",
                "a b@c.org",
            ),
            (r"^[\w-z]+$", "a-z", "`"),
            (r"^[\s\w-:]+$", "a - b", "`"),
            (r"^[[]x\/y$", "[x/y", "x/y"),
            (r"^[a&&b]+$", "a&b", "c"),
            (r"\bfoo\b", "a foo b", "afoo"),
            (r"^[^\d]$", "x", "7"),
            (r"^\u0041$", "A", "B"),
        ] {
            let regex = compile(pattern).expect(pattern);
            assert!(regex.is_match(fits), "{pattern} {fits}");
            assert!(!regex.is_match(fails), "{pattern} {fails}");
        }
    }

    #[test]
    fn what_stands_for_look_ahead_means_the_same() {
        for (at, fits, fails) in [
            (
                0,
                &["1", "-1.50", "+.5", "007", "1."][..],
                &["", ".", "-", "+-", "1.2.3", "x"][..],
            ),
            (
                1,
                &["a@b.co", "a.b+c@x-y.z.org", "o'x_@b.co"],
                &[
                    ".a@b.co",
                    "a..b@b.co",
                    "a.@b.co",
                    "a'@b.co",
                    "@b.co",
                    "a@b",
                    "a@b.c",
                ],
            ),
            (
                2,
                &["P1W", "P1D", "P1Y2M3DT4H5M6.5S", "PT5M", "P2MT1S"],
                &["P", "PT", "P1DT", "P1W2D", "P1S", "1D", "P1D1Y"],
            ),
        ] {
            let regex = compile(WITHOUT_LOOK_AHEAD[at].0).expect("compiles");
            for text in fits {
                assert!(regex.is_match(text), "{text}");
            }
            for text in fails {
                assert!(!regex.is_match(text), "{text}");
            }
        }
    }

    #[test]
    fn what_cannot_be_linear_or_is_too_large_is_refused() {
        for (pattern, words) in [
            (r"^(?=a)", "look-around"),
            (r"(a)\1", "backreferences"),
            ("(", "unclosed group"),
            (r"\p{L}{190}", "too large"),
            (r"(a{500}){500}", "too large"),
        ] {
            let error = compile(pattern).expect_err(pattern);
            assert!(error.contains(words), "{pattern}: {error}");
        }
    }
}
