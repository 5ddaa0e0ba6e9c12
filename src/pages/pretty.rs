//! Formats JSON for people: one line per member, in the original order. Pure.

/// Spaces per level.
const INDENT: usize = 2;
/// Deeper levels stay in one line.
const DEPTH_MAX: usize = 64;

/// Indents a JSON text. In invalid JSON only whitespace changes.
pub fn pretty(json: &str) -> String {
    pretty_to(json, usize::MAX)
}

/// The first `bytes` bytes of the indented text: indentation can make a text fifty times longer.
pub fn pretty_to(json: &str, bytes: usize) -> String {
    let mut text = String::with_capacity(json.len().min(bytes) * 2);
    let mut depth = 0_usize;
    let (mut in_string, mut escaped) = (false, false);
    let mut signs = json.chars().peekable();
    let line = |text: &mut String, depth: usize| {
        if depth <= DEPTH_MAX {
            text.push('\n');
            text.extend(std::iter::repeat_n(' ', depth * INDENT));
        }
    };
    while text.len() < bytes
        && let Some(sign) = signs.next()
    {
        if in_string {
            text.push(sign);
            in_string = escaped || sign != '"';
            escaped = !escaped && sign == '\\';
            continue;
        }
        match sign {
            '"' => {
                in_string = true;
                text.push(sign);
            }
            '{' | '[' => {
                text.push(sign);
                while signs.next_if(|next| next.is_ascii_whitespace()).is_some() {}
                if let Some(end) = signs.next_if(|next| matches!(next, '}' | ']')) {
                    text.push(end);
                } else {
                    depth += 1;
                    line(&mut text, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut text, depth);
                text.push(sign);
            }
            ',' => {
                text.push(sign);
                line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            blank if blank.is_ascii_whitespace() => {}
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn members_stand_in_the_order_in_which_they_were_sent() {
        let sent = r#"{"event":"call.ended","data":{"b":[1,-2.5e3],"a":{},"n":[ ]},"text":"a \"b\": {c},\\"}"#;
        let expected = r#"{
  "event": "call.ended",
  "data": {
    "b": [
      1,
      -2.5e3
    ],
    "a": {},
    "n": []
  },
  "text": "a \"b\": {c},\\"
}"#;
        assert_eq!(pretty(sent), expected);
        assert_eq!(pretty(expected), expected);
        assert_eq!(pretty(""), "");
    }

    #[test]
    fn deep_json_does_not_grow_by_its_square() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(pretty(&deep).len() < 4 * deep.len());
        let wide = format!(
            "{}1{}{}",
            "[".repeat(50),
            ",1".repeat(25_000),
            "]".repeat(50)
        );
        let whole = pretty(&wide);
        assert!(whole.len() > 20 * wide.len());
        let beginning = pretty_to(&wide, 6_000);
        assert!(whole.starts_with(&beginning) && (6_000..6_200).contains(&beginning.len()));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(".*", inner, 0..4).prop_map(|map| json!(map)),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_stays_the_same_json(value in any_json()) {
            let shown = pretty(&value.to_string());
            prop_assert_eq!(serde_json::from_str::<Value>(&shown).expect("JSON"), value);
        }
    }
}
