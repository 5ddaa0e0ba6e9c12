//! The languages of the pages. Texts are Fluent messages in `locales/`, one file per language. A test fails if a
//! language lacks a message or uses other variables, or if no page uses a message.

use std::{collections::BTreeMap, sync::LazyLock};

use fluent_bundle::{FluentArgs, FluentResource, FluentValue, concurrent::FluentBundle};
use unic_langid::LanguageIdentifier;

use super::{format, lang::Lang};

type Bundle = FluentBundle<FluentResource>;

static BUNDLES: LazyLock<BTreeMap<Lang, Bundle>> = LazyLock::new(|| {
    Lang::ALL
        .iter()
        .map(|lang| (*lang, bundle(*lang)))
        .collect()
});

fn bundle(lang: Lang) -> Bundle {
    // The sources are compiled in, and a test parses them.
    let resource = match FluentResource::try_new(source(lang).to_owned()) {
        Ok(resource) | Err((resource, _)) => resource,
    };
    let tag: LanguageIdentifier = lang.tag().parse().unwrap_or_default();
    let mut bundle = FluentBundle::new_concurrent(vec![tag]);
    bundle.set_use_isolating(false);
    bundle.set_formatter(Some(match lang {
        Lang::En => in_english,
        Lang::Id => in_indonesian,
    }));
    bundle.add_resource_overriding(resource);
    bundle
}

fn in_english<M>(value: &FluentValue<'_>, _: &M) -> Option<String> {
    written(Lang::En, value)
}

fn in_indonesian<M>(value: &FluentValue<'_>, _: &M) -> Option<String> {
    written(Lang::Id, value)
}

/// Formats numbers inside texts by the language's rules.
fn written(lang: Lang, value: &FluentValue<'_>) -> Option<String> {
    match value {
        // Only whole numbers are ever passed in.
        FluentValue::Number(number) => Some(format::number(lang, number.value as i64)),
        _ => None,
    }
}

/// The source text of a language's messages.
const fn source(lang: Lang) -> &'static str {
    match lang {
        Lang::En => include_str!("locales/en.ftl"),
        Lang::Id => include_str!("locales/id.ftl"),
    }
}

impl Lang {
    pub fn t(self, id: &str) -> String {
        self.tn(id, &[])
    }

    /// The text of a message with its variables filled in.
    pub fn tn(self, id: &str, values: &[(&'static str, FluentValue<'_>)]) -> String {
        self.find(id, values).unwrap_or_else(|| {
            tracing::error!(id, lang = self.tag(), "a message is missing");
            id.to_owned()
        })
    }

    /// The text of a message whose id comes from outside, if it exists.
    pub fn find(self, id: &str, values: &[(&'static str, FluentValue<'_>)]) -> Option<String> {
        let bundle = BUNDLES.get(&self)?;
        let pattern = bundle.get_message(id)?.value()?;
        let args: FluentArgs<'_> = values
            .iter()
            .map(|(name, value)| (*name, value.clone()))
            .collect();
        let mut faults = Vec::new();
        let text = bundle.format_pattern(pattern, Some(&args), &mut faults);
        if !faults.is_empty() {
            tracing::error!(id, ?faults, "a message lacks a value");
        }
        Some(text.into_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::{BTreeMap, BTreeSet},
        fs,
        path::Path,
    };

    use super::*;
    use fluent_syntax::{ast, parser};

    #[test]
    fn numbers_in_texts_are_written_as_the_language_does() {
        let said = |lang: Lang| lang.tn("home-minutes", &[("minutes", 1_234.into())]);
        assert!(said(Lang::En).contains("1,234"), "{}", said(Lang::En));
        assert!(said(Lang::Id).contains("1.234"), "{}", said(Lang::Id));
    }

    /// All messages of a language with their variables.
    fn messages(lang: Lang) -> BTreeMap<String, BTreeSet<String>> {
        let resource = parser::parse(source(lang)).expect("every message can be read");
        let mut found = BTreeMap::new();
        for entry in resource.body {
            match entry {
                ast::Entry::Message(message) => {
                    let pattern = message.value.expect("every message has a text");
                    let mut variables = BTreeSet::new();
                    of_pattern(&pattern, &mut variables);
                    let name = message.id.name.to_owned();
                    assert!(
                        found.insert(name, variables).is_none(),
                        "{} is there twice",
                        message.id.name
                    );
                }
                ast::Entry::Comment(_)
                | ast::Entry::GroupComment(_)
                | ast::Entry::ResourceComment(_) => {}
                other => panic!("{other:?} is no message"),
            }
        }
        found
    }

    fn of_pattern(pattern: &ast::Pattern<&str>, variables: &mut BTreeSet<String>) {
        for element in &pattern.elements {
            if let ast::PatternElement::Placeable { expression } = element {
                let inline = match expression {
                    ast::Expression::Inline(inline) => inline,
                    ast::Expression::Select { selector, variants } => {
                        for variant in variants {
                            of_pattern(&variant.value, variables);
                        }
                        selector
                    }
                };
                if let ast::InlineExpression::VariableReference { id } = inline {
                    variables.insert(id.name.to_owned());
                }
            }
        }
    }

    /// Rooms whose texts exist in all languages.
    const ROOMS: [&str; 4] = ["dashboard", "mails", "operations/agents", "pages"];

    /// All string literals in the sources of these rooms.
    fn quoted_in_sources(rooms: &[&str]) -> BTreeSet<String> {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut open: Vec<_> = rooms.iter().map(|room| sources.join(room)).collect();
        let mut quoted = BTreeSet::new();
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    open.push(path);
                } else if path.extension().is_some_and(|it| it == "rs") {
                    let text = fs::read_to_string(&path).expect("a source");
                    let code = text
                        .lines()
                        .filter(|line| !line.trim_start().starts_with("//"));
                    let quoted_in =
                        |line: &str| line.split('"').map(str::to_owned).collect::<Vec<_>>();
                    quoted.extend(code.flat_map(quoted_in));
                }
            }
        }
        quoted
    }

    #[test]
    fn both_languages_have_the_same_messages_with_the_same_variables() {
        assert_eq!(messages(Lang::En), messages(Lang::Id));
    }

    #[test]
    fn every_message_is_asked_for() {
        // The console uses some messages, but most of its texts are English only and stand in its sources.
        let quoted = quoted_in_sources(&[&ROOMS[..], &["console"]].concat());
        let unused: Vec<String> = messages(Lang::En)
            .into_keys()
            .filter(|id| !quoted.contains(id))
            .collect();
        assert_eq!(unused, [""; 0], "messages that no page asks for");
    }

    /// A string literal counts as a message id if it begins like one, with the name of a page or thing that has
    /// messages.
    #[test]
    fn every_message_that_is_asked_for_is_there() {
        let known = messages(Lang::En);
        let begins: BTreeSet<&str> = known.keys().filter_map(|id| id.split('-').next()).collect();
        let is_name = |text: &&String| {
            text.contains('-')
                && !text.ends_with('-')
                && text
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
                && text
                    .split('-')
                    .next()
                    .is_some_and(|first| begins.contains(first))
        };
        let quoted = quoted_in_sources(&ROOMS);
        let missing: Vec<&String> = quoted
            .iter()
            .filter(is_name)
            .filter(|id| !known.contains_key(*id))
            .collect();
        assert_eq!(missing, [""; 0], "messages that are not there");
    }
}
