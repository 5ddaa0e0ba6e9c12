//! The rules of names, comments and documents.

use std::collections::BTreeMap;

use super::source::File;

/// Maximum words of a sentence in a document. Code counts as one word.
const SENTENCE_WORDS_MAX: usize = 30;
/// Names that sea-orm gives to every table and step.
const GIVEN_NAMES: [&str; 3] = ["Model", "Relation", "Migration"];
/// A comment that opens with one of these has no subject.
const HEADLESS: [&str; 5] = ["Who", "What", "Whether", "Whose", "Whom"];
/// Programs and connections are "it".
const FOR_PEOPLE: [&str; 6] = [
    " for who ",
    " by who ",
    " to who ",
    " of who ",
    " from who ",
    " with who ",
];

/// Public types with the same name in two files.
pub fn types_declared_twice(files: &[File]) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for file in files.iter().filter(|file| !file.is_for_tests()) {
        for name in public_types(file) {
            places.entry(name).or_default().push(&file.path);
        }
    }
    places
        .into_iter()
        .filter(|(name, paths)| paths.len() > 1 && !GIVEN_NAMES.contains(&name.as_str()))
        .map(|(name, paths)| format!("{name} in {}", paths.join(" and ")))
        .collect()
}

fn public_types(file: &File) -> Vec<String> {
    let words = file.words();
    let mut found = Vec::new();
    for (at, _) in words.iter().enumerate().filter(|(_, word)| word.is("pub")) {
        let mut rest = &words[at + 1..];
        if rest.first().is_some_and(|word| word.is("(")) {
            let end = rest.iter().position(|word| word.is(")"));
            rest = &rest[end.map_or(rest.len(), |end| end + 1)..];
        }
        if let [kind, name, ..] = rest
            && name.is_name()
            && ["struct", "enum", "trait", "type"]
                .iter()
                .any(|it| kind.is(it))
        {
            found.push(name.text.clone());
        }
    }
    found
}

/// Comments without a subject, and sentences about programs that name people.
pub fn unclear_comments(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        let mut kind = "";
        for (number, line) in (1..).zip(file.text.lines()) {
            let before = kind;
            let line = line.trim_start();
            kind = ["///", "//!", "//"]
                .into_iter()
                .find(|kind| line.starts_with(kind))
                .unwrap_or_default();
            if kind.is_empty() {
                continue;
            }
            let text = line[kind.len()..].trim();
            let first = text.split_whitespace().next().unwrap_or_default();
            let opens = kind != before;
            if opens && HEADLESS.contains(&first)
                || FOR_PEOPLE.iter().any(|it| format!("{text} ").contains(it))
            {
                found.push(format!("{}:{number}: {text}", file.path));
            }
        }
    }
    found
}

/// Sentences of documents that are too long. A semicolon, a colon and a table's cell end a sentence.
pub fn long_sentences(documents: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for document in documents {
        let mut in_code = false;
        for (number, line) in (1..).zip(document.text.lines()) {
            if line.trim_start().starts_with("```") {
                in_code = !in_code;
            } else if !in_code {
                let prose = prose(line);
                let clauses = prose.split(['|', '\n']);
                let long = clauses.filter(|it| word_count(it) > SENTENCE_WORDS_MAX);
                found.extend(long.map(|it| format!("{}:{number}: {}", document.path, it.trim())));
            }
        }
    }
    found
}

/// The line without code, link targets and emphasis; a line break follows each sentence.
fn prose(line: &str) -> String {
    let mut text = String::new();
    for (at, part) in line.split('`').enumerate() {
        text.push_str(if at % 2 == 0 { part } else { "code" });
    }
    while let Some(begin) = text.find("](") {
        let end = text[begin..]
            .find(')')
            .map_or(text.len(), |end| begin + end + 1);
        text.replace_range(begin..end, "");
    }
    let mut text = text.replace(['*', '['], "");
    for end in [". ", "! ", "? ", ": ", "; "] {
        text = text.replace(end, "\n");
    }
    text
}

fn word_count(clause: &str) -> usize {
    let words = clause.split_whitespace();
    words
        .filter(|word| word.contains(char::is_alphanumeric))
        .count()
}

/// Names of modules in a document's tables that no file or folder has.
pub fn unknown_modules(document: &File, files: &[File]) -> Vec<String> {
    let known = |name: &str| {
        files.iter().any(|file| {
            let mut parts = file.path.split('/');
            parts.any(|part| part == name || part.strip_suffix(".rs") == Some(name))
        })
    };
    let is_module = |it: &str| {
        it.bytes()
            .all(|byte| byte.is_ascii_lowercase() || b"_/".contains(&byte))
    };
    let rows = (1..)
        .zip(document.text.lines())
        .filter(|(_, line)| line.starts_with('|'));
    rows.flat_map(|(number, line)| {
        line.split('`')
            .skip(1)
            .step_by(2)
            .map(move |it| (number, it))
    })
    .filter(|(_, name)| is_module(name))
    .flat_map(|(number, path)| path.split('/').map(move |name| (number, name)))
    .filter(|(_, name)| !name.is_empty() && !known(name))
    .map(|(number, name)| format!("{}:{number}: {name}", document.path))
    .collect()
}
