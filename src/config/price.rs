//! Prices of what voice providers bill: rupiah with up to three decimals, stored as whole thousandths.

use std::fmt;

use config::ValueKind;
use serde::{Deserialize, Deserializer, de};

/// A part of the keys that hold prices: `telephony.gemini.idr_per_million.text_in`.
pub(super) const PRICES: &str = ".idr_per_million.";
const THOUSANDTHS: u64 = 1_000;
const MOST: u64 = 1_000_000_000 * THOUSANDTHS;

/// A price in thousandths of a rupiah.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Price(pub(super) u64);

impl Price {
    /// Parses `49200`, `49200.5` or `0.125`.
    fn parse(text: &str) -> Option<Self> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let is_number =
            |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        if !is_number(whole) || !is_number(decimals) || decimals.len() > 3 {
            return None;
        }
        let whole = whole.parse::<u64>().ok()?.checked_mul(THOUSANDTHS)?;
        let price = whole.checked_add(format!("{decimals:0<3}").parse().ok()?)?;
        (price <= MOST).then_some(Self(price))
    }

    fn of(value: &ValueKind) -> Option<Self> {
        match value {
            ValueKind::I64(_) | ValueKind::Float(_) => Self::parse(&value.to_string()),
            ValueKind::String(text) => Self::parse(text.trim()),
            _ => None,
        }
    }
}

/// The fault of a price, if it has one: "it must be …".
pub(super) fn fault(value: &ValueKind) -> Option<String> {
    Price::of(value).is_none().then(|| {
        format!(
            "it must be a number from 0 to {}, with three decimals at most",
            MOST / THOUSANDTHS
        )
    })
}

impl<'de> Deserialize<'de> for Price {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Price;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a price")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Price, E> {
                Price::parse(text.trim()).ok_or_else(|| E::custom("it is no price"))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Price, E> {
                self.visit_str(&value.to_string())
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Price, E> {
                // The shortest digits that give this number are the ones in the file.
                self.visit_str(&value.to_string())
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_exact() {
        for (text, thousandths) in [
            ("0", 0),
            ("49200", 49_200_000),
            ("49200.5", 49_200_500),
            ("0.1", 100),
            ("0.125", 125),
            ("1000000000", 1_000_000_000_000),
        ] {
            assert_eq!(Price::parse(text), Some(Price(thousandths)), "{text}");
            let float: f64 = text.parse().expect("a number");
            assert_eq!(
                Price::of(&ValueKind::Float(float)),
                Some(Price(thousandths))
            );
        }
        for strange in [
            "",
            "-1",
            "+1",
            ".5",
            "5.",
            "0.1234",
            "1e3",
            "NaN",
            "1000000000.001",
            "1.2.3",
        ] {
            assert_eq!(Price::parse(strange), None, "{strange}");
        }
        assert!(fault(&ValueKind::Float(f64::NAN)).is_some());
        assert!(fault(&ValueKind::Float(f64::MAX)).is_some());
        assert!(fault(&ValueKind::Boolean(true)).is_some());
    }
}
