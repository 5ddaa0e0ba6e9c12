//! The rules of an operator's booking.

use dikala_entities::{MINUTES_MAX, TransactionType};

use super::Credit;

const TEXT_CHARS_MAX: usize = 255;

/// The rules of a booking that do not depend on the account.
pub(crate) fn check(credit: &Credit) -> Result<(), String> {
    if credit.minutes == 0 || credit.minutes.unsigned_abs() > MINUTES_MAX.unsigned_abs() {
        return Err(format!(
            "minutes must be a whole number from 1 to {MINUTES_MAX}, or negative for an adjustment"
        ));
    }
    if credit.kind == TransactionType::Usage {
        return Err("usage is booked by calls only".to_owned());
    }
    if credit.minutes < 0 && credit.kind != TransactionType::Adjustment {
        return Err(
            "a purchase, a bonus or a refund must be positive; take minutes away with the type adjustment"
                .to_owned(),
        );
    }
    let unfit =
        |text: &String| text.chars().count() > TEXT_CHARS_MAX || text.chars().any(char::is_control);
    if credit
        .reference
        .as_ref()
        .is_some_and(|text| text.is_empty() || unfit(text))
    {
        return Err(format!(
            "reference must have 1 to {TEXT_CHARS_MAX} characters, none of them control characters"
        ));
    }
    if credit.description.as_ref().is_some_and(unfit) {
        return Err(format!(
            "description must have at most {TEXT_CHARS_MAX} characters, none of them control characters"
        ));
    }
    Ok(())
}
