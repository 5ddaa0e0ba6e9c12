//! Codes and summaries.

use super::*;
use crate::http::field::FieldCode;

#[test]
fn every_code_is_written_once_and_has_an_error_status() {
    for (i, code) in Code::ALL.iter().enumerate() {
        assert!((400..600).contains(&code.status()));
        assert!(!Code::ALL[..i].iter().any(|c| c.as_str() == code.as_str()));
    }
}

#[test]
fn the_summary_names_the_fields() {
    let field = |name: &str| FieldError::new(name, FieldCode::Required, "is required");
    assert_eq!(summary(&[field("name")]), "1 field is invalid: name.");
    assert_eq!(
        summary(&[field("name"), field("voiceId")]),
        "2 fields are invalid: name, voiceId."
    );
    let many: Vec<FieldError> = (0..12).map(|i| field(&i.to_string())).collect();
    assert!(summary(&many).ends_with("9 and 2 more."));
}
