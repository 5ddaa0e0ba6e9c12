//! How deep JSON from outside may be nested: what is taken in here stands a few levels deeper in what is stored and sent,
//! and has to be readable there too.

use serde_json::{Map, Value};

/// Objects and arrays inside one another; `{}` is one.
pub const DEPTH_MAX: usize = 64;

/// Whether an object is nested at most [`DEPTH_MAX`] deep.
pub fn fits(object: &Map<String, Value>) -> bool {
    object.values().all(|value| fits_in(value, DEPTH_MAX - 1))
}

fn fits_in(value: &Value, left: usize) -> bool {
    match value {
        Value::Array(items) => left > 0 && items.iter().all(|item| fits_in(item, left - 1)),
        Value::Object(fields) => left > 0 && fields.values().all(|field| fits_in(field, left - 1)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixty_four_levels_fit() {
        let nested = |open: &str, close: &str, levels: usize| {
            let text = format!("{{\"a\":{}1{}}}", open.repeat(levels), close.repeat(levels));
            serde_json::from_str::<Map<String, Value>>(&text).expect("JSON")
        };
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            assert!(fits(&nested(open, close, 63)));
            assert!(!fits(&nested(open, close, 64)));
            assert!(!fits(&nested(open, close, 126)));
        }
    }
}
