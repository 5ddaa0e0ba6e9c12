//! Source files as tokens, without comments, literals and tests.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A source file of the workspace.
#[derive(Clone, Debug)]
pub struct File {
    /// Relative to the root, such as `actors/src/lib.rs`.
    pub path: String,
    pub text: String,
}

impl File {
    pub fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    /// True for tests and benches, which may be long.
    pub fn is_a_test(&self) -> bool {
        self.path
            .split('/')
            .any(|part| matches!(part, "tests" | "benches" | "docs" | "tests.rs"))
    }

    /// True for tests and test helpers, which may read the clock.
    pub fn is_for_tests(&self) -> bool {
        self.is_a_test() || self.path.starts_with("testkit/")
    }

    /// The tokens outside of tests.
    pub fn words(&self) -> Vec<Word> {
        words(&without_tests(&blank(&self.text)))
    }
}

/// Every file below the folder whose name ends so, except build output and installed packages.
pub fn below(root: &Path, ending: &str) -> Vec<File> {
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                if name != "target" && name != "node_modules" && !name.starts_with('.') {
                    folders.push(path);
                }
            } else if name.ends_with(ending) {
                let below = path.strip_prefix(root).unwrap().to_string_lossy();
                files.push(File::new(&below, &fs::read_to_string(&path).unwrap()));
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// A token: a name, `::`, or a single character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    pub text: String,
    /// Counted from 1.
    pub line: usize,
}

impl Word {
    pub fn is(&self, text: &str) -> bool {
        self.text == text
    }

    pub fn is_name(&self) -> bool {
        self.text
            .starts_with(|c: char| c.is_alphabetic() || c == '_')
    }
}

fn words(code: &str) -> Vec<Word> {
    let mut words = Vec::new();
    for (line, text) in (1..).zip(code.lines()) {
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next() {
            let of_name = |c: char| c.is_alphanumeric() || c == '_';
            let length = match first {
                _ if of_name(first) => rest.find(|c| !of_name(c)).unwrap_or(rest.len()),
                ':' if rest.starts_with("::") => 2,
                _ => first.len_utf8(),
            };
            words.push(Word {
                text: rest[..length].to_owned(),
                line,
            });
            rest = rest[length..].trim_start();
        }
    }
    words
}

/// The text with spaces in place of comments and literals; line numbers stay.
pub fn blank(text: &str) -> String {
    let mut left = text.as_bytes().to_vec();
    let mut at = 0;
    while at < left.len() {
        let end = end_of_literal(text, at);
        for byte in &mut left[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end.max(at + 1);
    }
    String::from_utf8(left).expect("whole characters are blanked")
}

/// The end of the comment or literal that begins here, or `at` if none does.
fn end_of_literal(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    let rest = &bytes[at..];
    let until = |what: &str, from: usize| {
        let found = text.get(from..).and_then(|rest| rest.find(what));
        found.map_or(text.len(), |found| from + found)
    };
    match rest[0] {
        b'/' if rest.starts_with(b"//") => until("\n", at),
        b'/' if rest.starts_with(b"/*") => end_of_comment(bytes, at),
        b'"' => end_of_text(bytes, at),
        b'r' if at == 0 || !is_name_byte(bytes[at - 1]) || matches!(bytes[at - 1], b'b' | b'c') => {
            let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
            if rest.get(1 + hashes) != Some(&b'"') {
                return at;
            }
            let close = format!("\"{}", "#".repeat(hashes));
            (until(&close, at + 2 + hashes) + close.len()).min(text.len())
        }
        b'\'' if rest.get(1) == Some(&b'\\') => (until("'", at + 3) + 1).min(text.len()),
        b'\'' => {
            let width = text[at + 1..].chars().next().map_or(0, char::len_utf8);
            // Without a second quote it is a lifetime.
            let closed = rest.get(1 + width) == Some(&b'\'');
            if closed { at + width + 2 } else { at }
        }
        _ => at,
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn end_of_comment(bytes: &[u8], from: usize) -> usize {
    let (mut depth, mut at) = (0_usize, from);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

fn end_of_text(bytes: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Replaces code that is compiled for tests only by spaces. Expects a text without comments and literals.
fn without_tests(code: &str) -> String {
    const ATTRIBUTE: &str = "#[cfg(test)]";
    let mut left = code.to_owned();
    while let Some(begin) = left.find(ATTRIBUTE) {
        let end = end_of_item(&left, begin + ATTRIBUTE.len());
        let blanks: String = left[begin..end]
            .chars()
            .map(|c| if c == '\n' { '\n' } else { ' ' })
            .collect();
        left.replace_range(begin..end, &blanks);
    }
    left
}

/// An item ends with its block, or with a semicolon outside of brackets.
fn end_of_item(code: &str, from: usize) -> usize {
    let (mut brackets, mut braces) = (0_usize, 0_usize);
    for (at, sign) in code[from..].char_indices() {
        match sign {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets = brackets.saturating_sub(1),
            '{' => braces += 1,
            '}' => {
                braces = braces.saturating_sub(1);
                if braces == 0 && brackets == 0 {
                    return from + at + 1;
                }
            }
            ';' if brackets == 0 && braces == 0 => return from + at + 1,
            _ => {}
        }
    }
    code.len()
}
