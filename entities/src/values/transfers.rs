//! The numbers to which a call may be transferred. Numbers that are expensive or pay the called party turn stolen
//! keys into money, so they are refused unless an operator allows them.

use super::{PhoneNumber, phone::DIGITS_MAX};

/// Prefixes that are refused unless an equally long or longer prefix is allowed.
///
/// Country codes: ITU-T E.164, list of assigned country codes (Annex to ITU Operational Bulletin). National ranges:
/// the numbering plans that administrations publish with the ITU (ITU-T E.129). Whole countries are not listed,
/// however expensive: operators who never call them allow only the ones that they do.
const REFUSED: &[&str] = &[
    // International shared cost, satellite, personal numbers, networks and premium rate; disaster relief and a
    // trial.
    "+808", "+870", "+878", "+881", "+882", "+883", "+888", "+979", "+991",
    // North America: premium rate.
    "+1900", // Great Britain: personal numbers, shared cost and premium rate.
    "+4470", "+4484", "+4487", "+449",
    // Germany: mass calls, shared cost and premium rate.
    "+49137", "+49180", "+49900", // France, Italy, Spain, Portugal.
    "+3381", "+3382", "+3389", "+39166", "+39199", "+3984", "+3989", "+34803", "+34806", "+34807",
    "+34901", "+34902", "+34905", "+34907", "+35160", "+35164", "+35170", "+35176",
    // The Netherlands, Belgium, Switzerland, Austria.
    "+31900", "+31906", "+31909", "+3270", "+3290", "+4184", "+41900", "+41901", "+41906", "+43810",
    "+43820", "+43821", "+43900", "+43901", "+43930", "+43931", "+43939",
    // Denmark, Norway, Sweden, Finland.
    "+4590", "+47820", "+47829", "+46900", "+46939", "+46944", "+358600", "+358700",
    // Poland, the Czech Republic, Hungary, Romania, Bulgaria, Greece, Turkey, Russia.
    "+4870", "+48801", "+42090", "+3690", "+3691", "+4090", "+35990", "+3090", "+90898", "+90900",
    "+7809",
    // Indonesia, Singapore, Malaysia, Thailand, Japan, South Korea, India, Australia, New Zealand.
    "+62804", "+62807", "+62809", "+651900", "+60600", "+661900", "+81570", "+81990", "+8260",
    "+911860", "+61190", "+64900",
    // Brazil, Argentina, Mexico, South Africa, Kenya, Israel, the Emirates.
    "+55300", "+55500", "+55900", "+54600", "+52900", "+2786", "+254900", "+9721700", "+972190",
    "+971700", "+971900",
];

/// The prefixes to which operators allow transfers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferPrefixes(Vec<String>);

/// The text is no prefix of telephone numbers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no prefix of a number in international format: a plus and up to 15 digits, such as \"+62\""
)]
pub struct TransferPrefixError(String);

impl Default for TransferPrefixes {
    /// Allows every number that is not refused by default.
    fn default() -> Self {
        Self(vec!["+".to_owned()])
    }
}

impl TransferPrefixes {
    /// Parses prefixes such as `+62`; an empty list allows no transfer at all.
    pub fn parse(prefixes: &[String]) -> Result<Self, TransferPrefixError> {
        let is_prefix = |text: &String| {
            text.strip_prefix('+').is_some_and(|digits| {
                digits.len() <= DIGITS_MAX && digits.bytes().all(|b| b.is_ascii_digit())
            })
        };
        match prefixes.iter().find(|text| !is_prefix(text)) {
            Some(wrong) => Err(TransferPrefixError(wrong.clone())),
            None => Ok(Self(prefixes.to_vec())),
        }
    }

    /// True if a call may be transferred to this number. The longest prefix decides; of equally long ones, the
    /// operator's.
    pub fn allow(&self, number: &PhoneNumber) -> bool {
        let allowed = longest(number, self.0.iter().map(String::as_str));
        let refused = longest(number, REFUSED.iter().copied());
        allowed.is_some_and(|allowed| refused.is_none_or(|refused| allowed >= refused))
    }
}

fn longest<'a>(number: &PhoneNumber, prefixes: impl Iterator<Item = &'a str>) -> Option<usize> {
    prefixes
        .filter(|prefix| number.as_str().starts_with(prefix))
        .map(str::len)
        .max()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allow(prefixes: &[&str], number: &str) -> bool {
        let prefixes: Vec<String> = prefixes.iter().map(|&prefix| prefix.to_owned()).collect();
        let prefixes = TransferPrefixes::parse(&prefixes).expect("prefixes");
        prefixes.allow(&number.parse().expect("a number"))
    }

    #[test]
    fn what_costs_more_than_a_call_is_refused_unless_it_is_named() {
        for number in [
            "+19005551234",
            "+8811234567",
            "+88213123456",
            "+870773111222",
            "+97912345678",
            "+808123456",
            "+62809123456",
            "+449012345678",
            "+44871234567",
            "+39899123456",
            "+33899123456",
            "+491801234567",
        ] {
            assert!(!allow(&["+"], number), "{number}");
            assert!(
                !allow(&["+62", "+1", "+44", "+49", "+33", "+39"], number),
                "{number}"
            );
            assert!(allow(&["+", number], number), "{number}");
        }
        assert!(
            allow(&["+62809"], "+62809123456"),
            "as long: the operator's word"
        );
    }

    #[test]
    fn ordinary_numbers_are_allowed_and_only_those_that_are_wanted() {
        for number in [
            "+6281234567890",
            "+622150001000",
            "+628001234567",
            "+12125551234",
            "+442071234567",
            "+447700900123",
            "+4930123456",
            "+46901234567",
            "+81312345678",
            "+6598765432",
            "+85290012345",
            "+18001234567",
        ] {
            assert!(allow(&["+"], number), "{number}");
            assert!(!allow(&[], number), "{number}");
        }
        assert!(allow(&["+62"], "+6281234567890"));
        assert!(!allow(&["+62"], "+12125551234"));
        assert!(TransferPrefixes::default().allow(&"+12125551234".parse().expect("a number")));
    }

    #[test]
    fn prefixes_are_prefixes_and_those_that_are_refused_are_documented() {
        for wrong in ["", "62", "+62 81", "+a", "+1234567890123456"] {
            let error = TransferPrefixes::parse(&[wrong.to_owned()]).expect_err(wrong);
            assert!(error.to_string().contains(&format!("{wrong:?}")));
        }
        let documentation = include_str!("../../../docs/operating.md");
        for prefix in REFUSED {
            assert!(documentation.contains(&format!("`{prefix}`")), "{prefix}");
            assert!(TransferPrefixes::parse(&[(*prefix).to_owned()]).is_ok());
        }
    }
}
