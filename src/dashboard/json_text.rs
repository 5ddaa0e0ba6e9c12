//! Finds positions in a JSON text, so that errors can be shown beside their lines. Pure.

use dikala_entities::foreign_json;

/// Lines shown before and after an error's line.
const AROUND: usize = 1;

/// A position in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
}

/// The position of a syntax error and the parser's message, in English; `None` if the text is valid JSON.
pub fn broken(text: &str) -> Option<(Position, String)> {
    let error = foreign_json::value(text.as_bytes()).err()?;
    let told = error.to_string();
    let reason = told.split(" at line ").next().unwrap_or_default();
    let line = error.line().max(1);
    let bytes = line_of(text, line).as_bytes();
    let before = bytes
        .get(..error.column().saturating_sub(1))
        .unwrap_or(bytes);
    let column = String::from_utf8_lossy(before).chars().count() + 1;
    Some((Position { line, column }, reason.to_owned()))
}

/// The position of a path in the API's notation: `.properties.a`, `.required[1]`. For a missing member it is the
/// position of the value that lacks it. The text must be valid JSON.
pub fn find(text: &str, path: &str) -> Position {
    let mut search = Search {
        text,
        at: 0,
        wanted: path,
        found: (0, 0),
    };
    search.skip_blanks();
    search.found = (0, search.at);
    search.value(&mut String::new());
    position(text, search.found.1)
}

/// The lines around a position, numbered, with a mark below the position.
pub fn excerpt(text: &str, at: Position) -> String {
    let first = at.line.saturating_sub(AROUND).max(1);
    let mut shown = String::new();
    for (number, line) in (1..)
        .zip(text.split('\n'))
        .skip(first - 1)
        .take(at.line - first + 1 + AROUND)
    {
        shown.push_str(&format!("{number:>4} │ {line}\n"));
        if number == at.line {
            let before = line.chars().take(at.column.saturating_sub(1));
            // Tabs are kept, so that the mark is aligned whatever their width.
            let blanks: String = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
            shown.push_str(&format!("     │ {blanks}^\n"));
        }
    }
    shown
}

fn line_of(text: &str, line: usize) -> &str {
    text.split('\n')
        .nth(line.saturating_sub(1))
        .unwrap_or_default()
}

fn position(text: &str, at: usize) -> Position {
    let before = text.get(..at).unwrap_or(text);
    let line_begins = before.rfind('\n').map_or(0, |newline| newline + 1);
    Position {
        line: before.matches('\n').count() + 1,
        column: before[line_begins..].chars().count() + 1,
    }
}

/// A scan of a JSON text for a path.
struct Search<'t> {
    text: &'t str,
    at: usize,
    wanted: &'t str,
    /// Length of the longest matching prefix of `wanted`, in bytes, and its position.
    found: (usize, usize),
}

impl Search<'_> {
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while self.byte().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Records that the value with this path begins at `at`.
    fn seen(&mut self, path: &str, at: usize) {
        let rest = self.wanted.strip_prefix(path);
        let leads_there = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
        // The last of several members with the same name counts.
        if leads_there && path.len() >= self.found.0 {
            self.found = (path.len(), at);
        }
    }

    fn value(&mut self, path: &mut String) {
        self.skip_blanks();
        match self.byte() {
            Some(b'{') => self.object(path),
            Some(b'[') => self.array(path),
            Some(b'"') => {
                self.string();
            }
            _ => {
                let ends =
                    |byte: u8| matches!(byte, b',' | b']' | b'}') || byte.is_ascii_whitespace();
                while self.byte().is_some_and(|byte| !ends(byte)) {
                    self.at += 1;
                }
            }
        }
        self.skip_blanks();
    }

    fn object(&mut self, path: &mut String) {
        let outside = path.len();
        self.at += 1;
        self.skip_blanks();
        while self.byte() == Some(b'"') {
            let begins = self.at;
            let name = self.string();
            path.push('.');
            path.push_str(&name);
            self.seen(path, begins);
            self.skip_blanks();
            self.at += 1;
            self.value(path);
            path.truncate(outside);
            self.comma();
        }
        self.at += 1;
    }

    fn array(&mut self, path: &mut String) {
        let outside = path.len();
        self.at += 1;
        self.skip_blanks();
        for index in 0.. {
            if matches!(self.byte(), None | Some(b']')) {
                break;
            }
            let begins = self.at;
            path.push_str(&format!("[{index}]"));
            self.seen(path, begins);
            self.value(path);
            path.truncate(outside);
            self.comma();
            if self.at == begins {
                break;
            }
        }
        self.at += 1;
    }

    fn comma(&mut self) {
        if self.byte() == Some(b',') {
            self.at += 1;
        }
        self.skip_blanks();
    }

    /// Skips a string and returns it.
    fn string(&mut self) -> String {
        let begins = self.at;
        self.at += 1;
        while let Some(byte) = self.byte() {
            self.at += if byte == b'\\' { 2 } else { 1 };
            if byte == b'"' {
                break;
            }
        }
        let text = self.text.get(begins..self.at).unwrap_or_default();
        serde_json::from_str(text).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::Value;

    use super::*;

    const SCHEMA: &str = r#"{
  "type": "object",
  "properties": {
    "ukuran \"é\"": {"type": "strin"},
	"b.c": [1, {"deep": []}, [ true , null ]]
  },
  "required": ["a",
    "b"]
}"#;

    fn at(line: usize, column: usize) -> Position {
        Position { line, column }
    }

    #[rstest]
    #[case("", 1, 1)]
    #[case(".type", 2, 3)]
    #[case(".properties", 3, 3)]
    #[case(".properties.ukuran \"é\"", 4, 5)]
    #[case(".properties.ukuran \"é\".type", 4, 22)]
    #[case(".properties.b.c[1].deep", 5, 14)]
    #[case(".properties.b.c[2][1]", 5, 36)]
    #[case(".required[1]", 8, 5)]
    // A missing value has the position of the value that lacks it.
    #[case(".description", 1, 1)]
    #[case(".properties.other.type", 3, 3)]
    #[case(".required[7]", 7, 3)]
    #[case(".typed", 1, 1)]
    fn places(#[case] path: &str, #[case] line: usize, #[case] column: usize) {
        assert_eq!(find(SCHEMA, path), at(line, column));
    }

    #[test]
    fn of_two_members_of_one_name_the_last_counts() {
        assert_eq!(find("{\"a\": 1,\n \"a\": {\"b\": 2}}", ".a.b"), at(2, 8));
        assert_eq!(find("{\"a\": {\"b\": 2},\n \"a\": 1}", ".a"), at(2, 2));
    }

    #[rstest]
    #[case("{\n \"é\": 1\n \"b\": 2\n}", 3, 2, "expected `,` or `}`")]
    #[case("{\"éé\": nope}", 1, 9, "expected ident")]
    #[case("{\n  \"a\": [1,\n", 3, 1, "EOF while parsing a value")]
    #[case("nope", 1, 2, "expected ident")]
    fn where_json_ends(
        #[case] text: &str,
        #[case] line: usize,
        #[case] column: usize,
        #[case] reason: &str,
    ) {
        assert_eq!(broken(text), Some((at(line, column), reason.to_owned())));
    }

    #[test]
    fn json_is_not_broken() {
        assert_eq!(broken(SCHEMA), None);
    }

    #[test]
    fn an_excerpt_marks_the_place_between_its_neighbours() {
        let text = "{\n\t\"a\": 1\n\t\"b\": 2\n}\n\n";
        let expected = "   2 │ \t\"a\": 1\n   3 │ \t\"b\": 2\n     │ \t^\n   4 │ }\n";
        assert_eq!(excerpt(text, at(3, 2)), expected);
        assert_eq!(excerpt("nope", at(1, 2)), "   1 │ nope\n     │  ^\n");
        assert_eq!(excerpt("", at(1, 1)), "   1 │ \n     │ ^\n");
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map("[a-z\"\\\\{}\\[\\]é]{1,4}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// All paths of a value, with the values there.
    fn paths(value: &Value, path: &str, all: &mut Vec<(String, Value)>) {
        all.push((path.to_owned(), value.clone()));
        match value {
            Value::Object(members) => {
                for (name, inner) in members {
                    paths(inner, &format!("{path}.{name}"), all);
                }
            }
            Value::Array(items) => {
                for (index, inner) in items.iter().enumerate() {
                    paths(inner, &format!("{path}[{index}]"), all);
                }
            }
            _ => {}
        }
    }

    proptest! {
        /// Every path is found at its value, and no text makes the search panic.
        #[test]
        fn what_is_at_a_path_is_found(value in json(), nonsense in ".{0,40}") {
            let text = serde_json::to_string_pretty(&value).expect("JSON");
            let mut all = Vec::new();
            paths(&value, "", &mut all);
            for (path, inner) in all {
                // A name with dots or brackets is ambiguous.
                if path.matches(['[', ']']).count() != path.matches('[').count() * 2 {
                    continue;
                }
                let Position { line, column } = find(&text, &path);
                let rest: String = line_of(&text, line).chars().skip(column - 1).collect();
                let is_member = rest.starts_with('"') && rest.contains("\": ");
                let begins = inner.to_string().chars().next().expect("a sign");
                prop_assert!(is_member || rest.starts_with(begins), "{path} in {text}: {rest}");
            }
            find(&nonsense, ".a[1]");
            if let Some((at, _)) = broken(&nonsense) {
                excerpt(&nonsense, at);
            }
        }
    }
}
