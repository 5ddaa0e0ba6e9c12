//! Decimal options of the command line as integers of thousandths, to avoid floating point.

use std::fmt;

use serde::{Serialize, Serializer, ser::Error};
use serde_json::Number;

/// The largest accepted value.
const WHOLE_MAX: u64 = 1_000_000_000;

/// A number with three decimals: 1,500 means 1.5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DecimalArgument(pub u64);

impl DecimalArgument {
    /// `of` divided by `by`; 0 if `by` is 0.
    pub fn ratio(of: u64, by: Self) -> Self {
        let scaled = u128::from(of) * 1_000_000;
        let quotient = scaled.checked_div(u128::from(by.0)).unwrap_or(0);
        Self(u64::try_from(quotient).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for DecimalArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1_000, self.0 % 1_000)
    }
}

/// Serializes as a JSON number.
impl Serialize for DecimalArgument {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let number: Number = self.to_string().parse().map_err(S::Error::custom)?;
        number.serialize(serializer)
    }
}

/// Parses a number with up to three decimals, such as `2`, `0.25` or `.5`.
pub fn decimal(text: &str) -> Result<DecimalArgument, String> {
    let wrong = || {
        format!("must be a number from 0 to {WHOLE_MAX} with up to three decimals, such as 0.25")
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty())
        || fraction.len() > 3
        || !digits(whole)
        || !digits(fraction)
    {
        return Err(wrong());
    }
    let number = |text: &str| {
        if text.is_empty() {
            Ok(0)
        } else {
            text.parse::<u64>()
        }
    };
    let whole = number(whole)
        .ok()
        .filter(|whole| *whole <= WHOLE_MAX)
        .ok_or_else(wrong)?;
    let fraction = number(&format!("{fraction:0<3}")).map_err(|_| wrong())?;
    Ok(DecimalArgument(whole * 1_000 + fraction))
}

/// Parses a share from 0 to 1.
pub fn share(text: &str) -> Result<DecimalArgument, String> {
    let share = decimal(text)?;
    if share.0 <= 1_000 {
        Ok(share)
    } else {
        Err("must be from 0 to 1, such as 0.2".to_owned())
    }
}

/// Parses a positive rate in calls per second.
pub fn rate(text: &str) -> Result<DecimalArgument, String> {
    let rate = decimal(text)?;
    if rate.0 > 0 {
        Ok(rate)
    } else {
        Err("must be more than 0 calls per second".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_and_written_without_loss() {
        for (text, thousandths, written) in [
            ("0", 0, "0.000"),
            ("2", 2_000, "2.000"),
            ("0.2", 200, "0.200"),
            (".05", 50, "0.050"),
            ("1.", 1_000, "1.000"),
            ("12.345", 12_345, "12.345"),
        ] {
            let figure = decimal(text).expect(text);
            assert_eq!(
                (figure.0, figure.to_string().as_str()),
                (thousandths, written),
                "{text}"
            );
        }
        for wrong in [
            "",
            ".",
            "-1",
            "1e3",
            "0.1234",
            "one",
            "1,5",
            " 1",
            "99999999999999999999",
            "1.2.3",
        ] {
            assert!(decimal(wrong).is_err(), "{wrong:?} was taken");
        }
        assert!(share("1.001").is_err() && share("1").is_ok());
        assert!(rate("0").is_err() && rate("0.001").is_ok());
    }

    #[test]
    fn ratios_are_exact_to_the_thousandth() {
        assert_eq!(
            DecimalArgument::ratio(1_000, DecimalArgument(3_000)),
            DecimalArgument(333_333)
        );
        assert_eq!(
            DecimalArgument::ratio(1, DecimalArgument(0)),
            DecimalArgument(0)
        );
        assert_eq!(
            serde_json::to_string(&DecimalArgument(12_345)).expect("a number"),
            "12.345"
        );
    }
}
