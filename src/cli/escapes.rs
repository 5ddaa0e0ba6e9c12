//! Characters that a terminal obeys, in text from tenants, bridges and servers. Pure.

use std::{borrow::Cow, fmt::Write};

/// The text with control and bidirectional characters escaped as in JSON, but for line breaks and tabs. A JSON document
/// keeps its meaning, because such characters can only be inside its strings.
pub fn escaped(text: &str) -> Cow<'_, str> {
    let drives = |sign: char| sign.is_control() && !matches!(sign, '\n' | '\t') || turns(sign);
    if !text.contains(drives) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    for sign in text.chars() {
        if drives(sign) {
            // Writing to a string does not fail.
            let _ = write!(safe, "\\u{:04x}", u32::from(sign));
        } else {
            safe.push(sign);
        }
    }
    Cow::Owned(safe)
}

/// True for characters that embed, override or isolate a direction (Unicode Standard Annex #9, 2.1 to 2.4), or
/// separate lines.
pub fn turns(sign: char) -> bool {
    matches!(sign, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_server_does_not_drive_the_terminal_and_its_json_keeps_its_meaning() {
        let document = json!({"a": "\u{9b}2K\u{202e}é\n", "b": 1}).to_string();
        let safe = escaped(&document);
        assert!(
            safe.chars().all(|sign| !sign.is_control() && !turns(sign)),
            "{safe}"
        );
        let [before, after] = [&document, &*safe].map(|text| serde_json::from_str(text).ok());
        assert_eq!(before, after.filter(|value: &Value| value["b"] == 1));
        assert_eq!(
            escaped("made \u{1b}[31mevt\n\tx"),
            "made \\u001b[31mevt\n\tx"
        );
        assert!(matches!(escaped("a plain line"), Cow::Borrowed(_)));
    }
}
