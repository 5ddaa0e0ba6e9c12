//! JSON numbers, compared as decimals without the rounding of floating point.

use std::cmp::Ordering;

use serde_json::Number;

/// `± digits × 10^exponent`, without trailing zeros in the digits; zero has no sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    negative: bool,
    digits: u128,
    exponent: i32,
}

impl Decimal {
    /// The number as JSON writes it: at most 20 significant digits.
    pub(super) fn of(number: &Number) -> Self {
        Self::parse(&number.to_string())
    }

    fn parse(text: &str) -> Self {
        let (text, negative) = match text.strip_prefix('-') {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut exponent = exponent.parse::<i32>().unwrap_or(0);
        let mut digits = 0_u128;
        for digit in whole.bytes().chain(fraction.bytes()) {
            digits = digits
                .saturating_mul(10)
                .saturating_add(u128::from(digit.saturating_sub(b'0')));
        }
        exponent -= i32::try_from(fraction.len()).unwrap_or(0);
        if digits == 0 {
            return Self {
                negative: false,
                digits: 0,
                exponent: 0,
            };
        }
        while digits.is_multiple_of(10) {
            digits /= 10;
            exponent += 1;
        }
        Self {
            negative,
            digits,
            exponent,
        }
    }

    pub(super) fn is_whole(self) -> bool {
        self.exponent >= 0
    }

    pub(super) fn is_positive(self) -> bool {
        self.digits > 0 && !self.negative
    }

    /// The number as a non-negative integer, if it is one.
    pub(super) fn as_count(self) -> Option<u64> {
        let shift = u32::try_from(self.exponent).ok()?;
        let value = self.digits.checked_mul(10_u128.checked_pow(shift)?)?;
        u64::try_from(value).ok().filter(|_| !self.negative)
    }

    /// True if it is an integer multiple of the (positive) unit.
    pub(super) fn is_multiple_of(self, unit: Self) -> bool {
        if self.digits == 0 {
            return true;
        }
        // Neither has trailing zeros: a finer number than the unit is no multiple of it.
        let Ok(shift) = u32::try_from(self.exponent.saturating_sub(unit.exponent)) else {
            return false;
        };
        let (Ok(digits), Ok(unit)) = (u64::try_from(self.digits), u64::try_from(unit.digits))
        else {
            return false;
        };
        if unit == 0 {
            return false;
        }
        let times = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b) % u128::from(unit);
            u64::try_from(product).unwrap_or(0)
        };
        let (mut rest, mut power, mut shift) = (digits % unit, 10 % unit, shift);
        while shift > 0 && rest > 0 {
            if shift % 2 == 1 {
                rest = times(rest, power);
            }
            power = times(power, power);
            shift /= 2;
        }
        rest == 0
    }

    fn magnitude(self, other: Self) -> Ordering {
        let figures = |number: Self| number.digits.checked_ilog10().map_or(0, |log| log + 1);
        let place = |number: Self| i64::from(number.exponent) + i64::from(figures(number));
        let scaled = |number: Self, against: Self| {
            let missing = figures(against).saturating_sub(figures(number));
            number
                .digits
                .saturating_mul(10_u128.saturating_pow(missing))
        };
        place(self)
            .cmp(&place(other))
            .then_with(|| scaled(self, other).cmp(&scaled(other, self)))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let sign = |number: &Self| match (number.digits, number.negative) {
            (0, _) => 0,
            (_, true) => -1,
            (_, false) => 1,
        };
        sign(self).cmp(&sign(other)).then_with(|| match sign(self) {
            0 => Ordering::Equal,
            1 => self.magnitude(*other),
            _ => other.magnitude(*self),
        })
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl std::fmt::Display for Decimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.negative { "-" } else { "" };
        match u32::try_from(self.exponent) {
            Ok(0) => write!(f, "{sign}{}", self.digits),
            Ok(shift) if shift <= 15 => {
                let zeros = "0".repeat(usize::try_from(shift).unwrap_or(0));
                write!(f, "{sign}{}{zeros}", self.digits)
            }
            _ => write!(f, "{sign}{}e{}", self.digits, self.exponent),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decimal(value: serde_json::Value) -> Decimal {
        Decimal::of(value.as_number().expect("a number"))
    }

    #[test]
    fn whole_numbers_and_fractions_are_compared_exactly() {
        // Both are equal as floats.
        assert!(
            decimal(json!(9_007_199_254_740_993_u64)) > decimal(json!(9_007_199_254_740_992_u64))
        );
        assert!(decimal(json!(u64::MAX)) > decimal(json!(i64::MAX)));
        assert_eq!(decimal(json!(1)), decimal(json!(1.0)));
        assert_eq!(decimal(json!(-0.0)), decimal(json!(0)));
        for (smaller, larger) in [
            (json!(-2), json!(-1)),
            (json!(-1), json!(0)),
            (json!(0), json!(1e-300)),
            (json!(0.1), json!(0.11)),
            (json!(9), json!(10)),
            (json!(99.5), json!(100)),
            (json!(1e16), json!(1e300)),
            (json!(-1e300), json!(i64::MIN)),
        ] {
            assert!(
                decimal(smaller.clone()) < decimal(larger.clone()),
                "{smaller} < {larger}"
            );
            assert!(
                decimal(larger.clone()) > decimal(smaller.clone()),
                "{larger} > {smaller}"
            );
        }
    }

    #[test]
    fn multiples_are_told_as_written() {
        for (number, unit, is) in [
            (json!(19.99), json!(0.01), true),
            (json!(19.995), json!(0.01), false),
            (json!(0.3), json!(0.1), true),
            (json!(30), json!(5), true),
            (json!(31), json!(5), false),
            (json!(-30), json!(5), true),
            (json!(0), json!(7), true),
            (json!(1e300), json!(7), false),
            (json!(1e300), json!(8), true),
            (json!(7.5), json!(2.5), true),
            (json!(u64::MAX), json!(5), true),
            (json!(u64::MAX), json!(u64::MAX), true),
            (json!(100), json!(0.3), false),
        ] {
            assert_eq!(
                decimal(number.clone()).is_multiple_of(decimal(unit.clone())),
                is,
                "{number} / {unit}"
            );
        }
    }

    #[test]
    fn counts_are_whole() {
        assert_eq!(decimal(json!(300)).as_count(), Some(300));
        assert_eq!(decimal(json!(300.0)).as_count(), Some(300));
        assert_eq!(decimal(json!(1.5)).as_count(), None);
        assert_eq!(decimal(json!(-1)).as_count(), None);
        assert_eq!(decimal(json!(1e300)).as_count(), None);
        assert_eq!(decimal(json!(1200)).to_string(), "1200");
        assert_eq!(decimal(json!(-0.25)).to_string(), "-25e-2");
    }
}
