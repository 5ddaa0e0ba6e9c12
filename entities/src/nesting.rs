//! The limit of nesting in JSON from outside. Stored and sent documents hold it a few levels deeper and must stay
//! readable there.

use serde_json::{Map, Value};

/// Maximum depth of objects and arrays; `{}` has depth 1.
pub const DEPTH_MAX: usize = 64;

/// True if an object's depth is at most [`DEPTH_MAX`].
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
