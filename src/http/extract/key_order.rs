//! The order of the names in a JSON text, which parsed values do not keep. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;

/// The names of a JSON text in their order.
#[derive(Clone, Debug, Default)]
pub enum KeyOrder {
    /// A value without names, or an unknown order.
    #[default]
    None,
    Items(Vec<KeyOrder>),
    Members(Vec<(String, KeyOrder)>),
}

impl KeyOrder {
    /// The order in a text. Text that is not JSON has none.
    pub fn of(text: &[u8]) -> Self {
        serde_json::from_slice(text).unwrap_or_default()
    }

    /// The order inside a member.
    pub fn inside(&self, name: &str) -> &Self {
        let Self::Members(members) = self else {
            return &Self::None;
        };
        let found = members.iter().find(|(known, _)| known == name);
        found.map_or(&Self::None, |(_, inner)| inner)
    }

    /// The names of an object, each once.
    pub fn names(&self) -> Vec<&str> {
        let Self::Members(members) = self else {
            return Vec::new();
        };
        members.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// A value as compact JSON, with its names in this order. Names that the order lacks come last.
    pub fn write(&self, value: &Value) -> String {
        let mut text = String::new();
        self.write_to(value, &mut text);
        text
    }

    fn write_to(&self, value: &Value, text: &mut String) {
        match value {
            Value::Object(members) => {
                let mut names = self.names();
                names.retain(|name| members.contains_key(*name));
                let placed: BTreeSet<&str> = names.iter().copied().collect();
                let others = members.keys().map(String::as_str);
                names.extend(others.filter(|name| !placed.contains(name)));
                text.push('{');
                for (nth, name) in names.into_iter().enumerate() {
                    if nth > 0 {
                        text.push(',');
                    }
                    text.push_str(&Value::from(name).to_string());
                    text.push(':');
                    self.inside(name).write_to(&members[name], text);
                }
                text.push('}');
            }
            Value::Array(items) => {
                text.push('[');
                for (nth, item) in items.iter().enumerate() {
                    if nth > 0 {
                        text.push(',');
                    }
                    self.item(nth).write_to(item, text);
                }
                text.push(']');
            }
            plain => text.push_str(&plain.to_string()),
        }
    }

    fn item(&self, nth: usize) -> &Self {
        match self {
            Self::Items(items) => items.get(nth).unwrap_or(&Self::None),
            _ => &Self::None,
        }
    }
}

impl<'de> Deserialize<'de> for KeyOrder {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(OrderVisitor)
    }
}

struct OrderVisitor;

impl<'de> Visitor<'de> for OrderVisitor {
    type Value = KeyOrder;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<KeyOrder, E> {
        Ok(KeyOrder::None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<KeyOrder, E> {
        Ok(KeyOrder::None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<KeyOrder, E> {
        Ok(KeyOrder::None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<KeyOrder, E> {
        Ok(KeyOrder::None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<KeyOrder, E> {
        Ok(KeyOrder::None)
    }

    fn visit_str<E>(self, _: &str) -> Result<KeyOrder, E> {
        Ok(KeyOrder::None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<KeyOrder, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = from.next_element()? {
            items.push(item);
        }
        Ok(KeyOrder::Items(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<KeyOrder, A::Error> {
        let mut members: Vec<(String, KeyOrder)> = Vec::new();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        while let Some((name, order)) = from.next_entry::<String, KeyOrder>()? {
            // The last of several members with one name counts, as in parsed values.
            match places.get(&name) {
                Some(place) => members[*place].1 = order,
                None => {
                    places.insert(name.clone(), members.len());
                    members.push((name, order));
                }
            }
        }
        Ok(KeyOrder::Members(members))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(r#"{"b": 1, "a": {"d": [{"z": 1, "y": null}], "c": "x"}}"#)]
    #[case(r#"{"type": "object", "properties": {"é": {}, "a\"b": true}, "required": []}"#)]
    #[case("[1.5, -2, {}, []]")]
    #[case("\"text\"")]
    fn names_stay_where_they_were(#[case] text: &str) {
        let value: Value = serde_json::from_str(text).expect("JSON");
        let written = KeyOrder::of(text.as_bytes()).write(&value);
        let blanks = text.replace(": ", ":").replace(", ", ",");
        assert_eq!(written, blanks);
    }

    #[test]
    fn a_name_without_a_place_comes_last_and_one_that_occurs_twice_once() {
        let value = serde_json::json!({"a": 1, "b": {"y": 1, "x": 2}, "c": 3});
        let order = KeyOrder::of(br#"{"b": 1, "gone": 2, "b": {"y": 0, "x": 0}, "a": [1]}"#);
        assert_eq!(order.write(&value), r#"{"b":{"y":1,"x":2},"a":1,"c":3}"#);
        assert_eq!(KeyOrder::of(b"nonsense").write(&value), value.to_string());
    }
}
