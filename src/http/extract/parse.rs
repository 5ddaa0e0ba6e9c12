//! Parsers of single values. Each fault says what the value must be.

use std::str::FromStr;

use dikala_entities::{
    Language, Millis, OutboundUrl, PhoneNumber, TransferPrefixes, URL_LENGTH_MAX, UnknownValue,
    UrlError, UrlPolicy, is_blank, is_one_line,
};
use serde_json::{Map, Value};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::ParseResult;
use crate::http::field::{FieldCode, ValueFault, quoted, suggestion};

/// The largest page.
pub const LIMIT_MAX: i64 = 100;
/// The default page size.
pub const LIMIT_DEFAULT: i64 = 50;
/// The largest page offset: the largest integer that every JSON reader holds exactly.
pub const OFFSET_MAX: i64 = 9_007_199_254_740_991;
/// Fewest and most characters of a search for a number.
pub const SEARCHED: (usize, usize) = (3, 64);

/// The treatment of blanks at both ends of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlankRule {
    /// Removed: names, labels, descriptions.
    Trim,
    /// Kept, but a text of blanks only is refused: prompts.
    Keep,
    /// Kept like other characters: secrets, and optional texts.
    Opaque,
}

pub fn string(value: &Value) -> Result<&str, ValueFault> {
    value
        .as_str()
        .ok_or_else(|| ValueFault::new(FieldCode::InvalidType, "must be a string"))
}

/// A text of `min` to `max` characters.
pub fn text(min: usize, max: usize, blanks: BlankRule) -> impl Fn(&Value) -> ParseResult<String> {
    move |value| {
        let given = string(value)?;
        let given = match blanks {
            BlankRule::Trim => given.trim(),
            BlankRule::Keep | BlankRule::Opaque => given,
        };
        let length = given.chars().count();
        if min > 0 && blanks != BlankRule::Opaque && is_blank(given) {
            Err(ValueFault::new(FieldCode::Required, "is required").into())
        } else if length < min {
            let predicate = format!("must have at least {}", characters(min));
            Err(ValueFault::new(FieldCode::TooShort, predicate)
                .bounded(count(min))
                .into())
        } else if length > max {
            let predicate = format!("must have at most {}", characters(max));
            Err(ValueFault::new(FieldCode::TooLong, predicate)
                .bounded(count(max))
                .into())
        } else {
            Ok(given.to_owned())
        }
    }
}

/// A text of one line, such as a name or a label: not blank, at most `max` characters.
pub fn line(max: usize) -> impl Fn(&Value) -> ParseResult<String> {
    move |value| {
        let text = text(1, max, BlankRule::Trim)(value)?;
        if is_one_line(&text) {
            Ok(text)
        } else {
            let predicate = "must not contain control characters";
            let fault = ValueFault::new(FieldCode::InvalidFormat, predicate);
            Err(fault.in_words("fault-control-characters").into())
        }
    }
}

fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn characters(n: usize) -> String {
    if n == 1 {
        "1 character".to_owned()
    } else {
        format!("{n} characters")
    }
}

/// A whole number from `min` to `max`. `10.0` is one, as in JSON Schema.
pub fn integer(min: i64, max: i64) -> impl Fn(&Value) -> ParseResult<i64> {
    move |value| {
        let Value::Number(number) = value else {
            return Err(not_whole().into());
        };
        let whole = match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => i128::from(whole),
            // Saturates, so a too large number stays too large.
            (None, Some(float)) if float.fract() == 0.0 => float as i128,
            _ => return Err(not_whole().into()),
        };
        in_range(whole, min, max).map_err(Into::into)
    }
}

fn not_whole() -> ValueFault {
    ValueFault::new(FieldCode::InvalidType, "must be a whole number").in_words("fault-whole-number")
}

fn in_range(whole: i128, min: i64, max: i64) -> Result<i64, ValueFault> {
    if whole < i128::from(min) {
        let predicate = format!("must be at least {min}");
        return Err(ValueFault::new(FieldCode::TooSmall, predicate).bounded(min));
    }
    i64::try_from(whole)
        .ok()
        .filter(|whole| *whole <= max)
        .ok_or_else(|| {
            let predicate = format!("must be at most {max}");
            ValueFault::new(FieldCode::TooLarge, predicate).bounded(max)
        })
}

/// A whole number written in decimal digits, as query strings carry it.
pub fn digits(min: i64, max: i64) -> impl Fn(&Value) -> ParseResult<i64> {
    move |value| {
        let text = string(value)?;
        let (negative, figures) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        if figures.is_empty() || !figures.bytes().all(|b| b.is_ascii_digit()) {
            return Err(not_whole().into());
        }
        // More digits than fit are too large anyway.
        let size = figures.parse::<i128>().unwrap_or(i128::MAX);
        in_range(if negative { -size } else { size }, min, max).map_err(Into::into)
    }
}

/// `true` or `false`.
pub fn boolean(value: &Value) -> ParseResult<bool> {
    value
        .as_bool()
        .ok_or_else(|| ValueFault::new(FieldCode::InvalidType, "must be true or false").into())
}

/// An object of any content.
pub fn object(value: &Value) -> ParseResult<Map<String, Value>> {
    match value {
        Value::Object(fields) => Ok(fields.clone()),
        _ => Err(ValueFault::new(FieldCode::InvalidType, "must be an object").into()),
    }
}

/// A word of a closed set; `noun` names the set in messages: "a voice".
pub fn word<T>(noun: &'static str) -> impl Fn(&Value) -> ParseResult<T>
where
    T: FromStr<Err = UnknownValue>,
{
    move |value| {
        string(value)?.parse().map_err(|unknown: UnknownValue| {
            not_allowed(&unknown.given, noun, unknown.allowed.iter().copied()).into()
        })
    }
}

/// The fault of a word that is not in the set.
pub fn not_allowed<'a>(
    given: &str,
    noun: &str,
    allowed: impl Iterator<Item = &'a str> + Clone,
) -> ValueFault {
    let hint = match suggestion(given, allowed.clone()) {
        Some(meant) => format!("; did you mean \"{meant}\"?"),
        None => format!(
            "; allowed are: {}.",
            allowed.clone().collect::<Vec<_>>().join(", ")
        ),
    };
    let sentence = format!("{} is not {noun}{hint}", quoted(given));
    ValueFault::sentence(FieldCode::NotAllowed, sentence)
        .allowing(allowed.map(str::to_owned).collect())
        .in_words("fault-not-in-list")
}

/// An array of at least `min` different items; `same` compares two items.
pub fn list<T>(
    min: usize,
    item: impl Fn(&Value) -> ParseResult<T>,
    same: impl Fn(&T, &T) -> bool,
) -> impl Fn(&Value) -> ParseResult<Vec<T>> {
    move |value| {
        let Value::Array(values) = value else {
            return Err(ValueFault::new(FieldCode::InvalidType, "must be an array").into());
        };
        if values.len() < min {
            return Err(ValueFault::new(
                FieldCode::TooShort,
                format!("must have at least {min} item"),
            )
            .into());
        }
        let (mut items, mut faults) = (Vec::new(), Vec::new());
        for (i, value) in values.iter().enumerate() {
            let at = format!("[{i}]");
            match item(value) {
                Ok(new) if items.iter().any(|old| same(old, &new)) => {
                    let twice = ValueFault::new(FieldCode::Duplicate, "is there twice");
                    faults.push(twice.in_words("fault-twice").inside(&at));
                }
                Ok(new) => items.push(new),
                Err(inner) => faults.extend(inner.into_iter().map(|fault| fault.inside(&at))),
            }
        }
        if faults.is_empty() {
            Ok(items)
        } else {
            Err(faults)
        }
    }
}

/// A phone number in E.164.
pub fn e164(value: &Value) -> ParseResult<PhoneNumber> {
    string(value)?.parse().map_err(|error| {
        let fault = ValueFault::new(FieldCode::InvalidFormat, format!("{error}"));
        fault.in_words("fault-phone").into()
    })
}

/// A phone number that calls may be transferred to.
pub fn transfer_target(transfers: &TransferPrefixes, value: &Value) -> ParseResult<PhoneNumber> {
    let number = e164(value)?;
    if transfers.allow(&number) {
        Ok(number)
    } else {
        Err(no_transfer().into())
    }
}

/// The fault of a number that is no allowed transfer target.
pub fn no_transfer() -> ValueFault {
    let predicate = "must be a number that calls may be transferred to: premium, satellite and shared-cost numbers are not, \
                     and your operator may allow fewer";
    ValueFault::new(FieldCode::NotAllowed, predicate).in_words("fault-no-transfer")
}

/// A language tag.
pub fn language(value: &Value) -> ParseResult<Language> {
    string(value)?.parse().map_err(|error| {
        let fault = ValueFault::new(FieldCode::InvalidFormat, format!("{error}"));
        fault.in_words("fault-language").into()
    })
}

/// An RFC 3339 date and time, or a date, which means midnight UTC. Instants before 1970 become 1970.
pub fn instant(value: &Value) -> ParseResult<Millis> {
    let text = string(value)?;
    // A plus that was not percent-encoded arrives in a query string as a blank: `2026-01-15T10:30:00 07:00`.
    let mended = match text.len().checked_sub(6) {
        Some(at) if text.as_bytes()[at] == b' ' && at > 10 => text.replacen(' ', "+", 1),
        _ => text.to_owned(),
    };
    Millis::parse_date_or_rfc3339(&mended)
        .ok()
        .or_else(|| clamped(&mended))
        .ok_or_else(|| {
            let predicate =
                "must be a date such as 2026-01-15 or a time such as 2026-01-15T03:30:00Z";
            let fault = ValueFault::new(FieldCode::InvalidFormat, predicate);
            fault.in_words("fault-date").into()
        })
}

/// A valid instant outside the stored range of years, moved to the nearest limit.
fn clamped(text: &str) -> Option<Millis> {
    let midnight = format!("{text}T00:00:00Z");
    let at = [text, &midnight]
        .into_iter()
        .find_map(|text| OffsetDateTime::parse(text, &Rfc3339).ok())?;
    Some(Millis::from_i64(at.unix_timestamp().saturating_mul(1_000)))
}

/// An id; `noun` names the object in messages: "an agent".
pub fn id<T: FromStr>(noun: &'static str) -> impl Fn(&Value) -> ParseResult<T> {
    move |value| {
        string(value)?.parse().map_err(|_| {
            let predicate = format!("must be the id of {noun}");
            let fault = ValueFault::new(FieldCode::InvalidFormat, predicate);
            fault.in_words("fault-id").into()
        })
    }
}

/// A tenant's URL. Its host's address is checked elsewhere.
pub fn url(policy: UrlPolicy) -> impl Fn(&Value) -> ParseResult<OutboundUrl> {
    move |value| {
        let text = string(value)?;
        OutboundUrl::parse(text, policy).map_err(|error| {
            let (code, sentence) = match error {
                UrlError::Insecure => (FieldCode::InsecureUrl, "fault-url-insecure"),
                UrlError::TooLong => (FieldCode::TooLong, "fault-too-long"),
                UrlError::Malformed if is_blank(text) => {
                    (FieldCode::InvalidFormat, "fault-required")
                }
                UrlError::Malformed => (FieldCode::InvalidFormat, "fault-url"),
                UrlError::Host => (FieldCode::InvalidFormat, "fault-url-host"),
                UrlError::UserInfo => (FieldCode::InvalidFormat, "fault-url-user"),
                UrlError::Fragment => (FieldCode::InvalidFormat, "fault-url-fragment"),
            };
            let fault = ValueFault::new(code, error.to_string()).in_words(sentence);
            match error {
                UrlError::TooLong => fault.bounded(count(URL_LENGTH_MAX)).into(),
                _ => fault.into(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use dikala_entities::VoiceId;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn code<T: Debug>(parsed: ParseResult<T>) -> &'static str {
        let faults = parsed.expect_err("refused");
        faults[0].clone().in_field("x").code.as_str()
    }

    #[rstest]
    #[case(json!(1), Ok(1))]
    #[case(json!(240), Ok(240))]
    #[case(json!(10.0), Ok(10))]
    #[case(json!(0), Err("too_small"))]
    #[case(json!(-1e300), Err("too_small"))]
    #[case(json!(241), Err("too_large"))]
    #[case(json!(1e300), Err("too_large"))]
    #[case(json!(u64::MAX), Err("too_large"))]
    #[case(json!(1.5), Err("invalid_type"))]
    #[case(json!("10"), Err("invalid_type"))]
    #[case(json!(true), Err("invalid_type"))]
    fn whole_numbers(#[case] value: Value, #[case] expected: Result<i64, &str>) {
        match expected {
            Ok(whole) => assert_eq!(integer(1, 240)(&value), Ok(whole)),
            Err(expected) => assert_eq!(code(integer(1, 240)(&value)), expected),
        }
    }

    #[rstest]
    #[case("50", Ok(50))]
    #[case("007", Ok(7))]
    #[case("0", Err("too_small"))]
    #[case("-5", Err("too_small"))]
    #[case("101", Err("too_large"))]
    #[case("99999999999999999999999999999999999999999999999", Err("too_large"))]
    #[case("", Err("invalid_type"))]
    #[case("+5", Err("invalid_type"))]
    #[case("5.0", Err("invalid_type"))]
    #[case("٥", Err("invalid_type"))]
    fn numbers_of_query_strings(#[case] text: &str, #[case] expected: Result<i64, &str>) {
        match expected {
            Ok(whole) => assert_eq!(digits(1, 100)(&json!(text)), Ok(whole)),
            Err(expected) => assert_eq!(code(digits(1, 100)(&json!(text))), expected),
        }
    }

    #[test]
    fn texts_are_counted_in_characters() {
        let five = text(2, 5, BlankRule::Keep);
        assert_eq!(five(&json!("äöüß€")), Ok("äöüß€".to_owned()));
        assert_eq!(code(five(&json!("äöüß€x"))), "too_long");
        assert_eq!(code(five(&json!("x"))), "too_short");
        assert_eq!(five(&json!(" a ")), Ok(" a ".to_owned()));
        let secret = text(2, 5, BlankRule::Opaque);
        assert_eq!(secret(&json!("  ")), Ok("  ".to_owned()));
        for (blank, rule) in [
            ("", BlankRule::Keep),
            (" \n ", BlankRule::Keep),
            ("\u{200b}\u{feff}", BlankRule::Keep),
            ("\u{ad}\u{3164}", BlankRule::Trim),
        ] {
            assert_eq!(
                code(text(1, 5, rule)(&json!(blank))),
                "required",
                "{blank:?}"
            );
        }
        assert_eq!(
            code(text(1, 5, BlankRule::Trim)(&json!(" \t "))),
            "required"
        );
        assert_eq!(
            text(1, 1, BlankRule::Trim)(&json!(" a ")),
            Ok("a".to_owned())
        );
    }

    #[test]
    fn a_wrong_word_is_told_what_is_right() {
        let faults = word::<VoiceId>("a voice")(&json!("puck")).expect_err("refused");
        let error = faults[0].clone().in_field("voiceId");
        assert_eq!(
            error.message,
            "\"puck\" is not a voice; did you mean \"Puck\"?"
        );
        assert_eq!(error.allowed.expect("allowed").len(), 5);
    }

    #[test]
    fn lists_name_the_item() {
        let voices = list(1, word::<VoiceId>("a voice"), VoiceId::eq);
        assert_eq!(
            voices(&json!(["Puck", "Kore"])),
            Ok(vec![VoiceId::Puck, VoiceId::Kore])
        );
        let faults = voices(&json!(["Puck", "Puck", 5])).expect_err("refused");
        let errors: Vec<_> = faults.into_iter().map(|f| f.in_field("v")).collect();
        assert_eq!(
            (errors[0].field.as_str(), errors[0].code),
            ("v[1]", FieldCode::Duplicate)
        );
        assert_eq!(
            (errors[1].field.as_str(), errors[1].code),
            ("v[2]", FieldCode::InvalidType)
        );
        assert_eq!(code(voices(&json!([]))), "too_short");
        assert_eq!(code(voices(&json!({}))), "invalid_type");
    }

    #[test]
    fn a_plus_that_became_a_blank_is_mended() {
        let at = instant(&json!("2026-01-15T10:30:00+07:00"));
        assert!(at.is_ok());
        assert_eq!(instant(&json!("2026-01-15T10:30:00 07:00")), at);
        assert!(instant(&json!("2026-01-15")).is_ok());
        for early in ["0001-01-01", "1969-12-31T23:59:59.999Z"] {
            assert_eq!(instant(&json!(early)), Ok(Millis::MIN));
        }
        for wrong in ["", "yesterday", " ", "2026-13-01", "éééééé"] {
            assert_eq!(code(instant(&json!(wrong))), "invalid_format");
        }
    }
}
