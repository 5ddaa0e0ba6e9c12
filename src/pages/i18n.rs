//! The languages of the pages. Texts are Fluent messages in `locales/`, the console's in files of their own. A test
//! fails if a language lacks a message or uses other variables, or if no page uses a message.

use std::{collections::BTreeMap, sync::LazyLock};

use fluent_bundle::{
    FluentArgs, FluentResource, FluentValue,
    concurrent::FluentBundle,
    types::{FluentNumber, FluentNumberOptions},
};
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
    let tag: LanguageIdentifier = lang.tag().parse().unwrap_or_default();
    let mut bundle = FluentBundle::new_concurrent(vec![tag]);
    bundle.set_use_isolating(false);
    bundle.set_formatter(Some(match lang {
        Lang::En => in_english,
        Lang::Id => in_indonesian,
    }));
    for source in sources(lang) {
        // The sources are compiled in, and a test parses them.
        let resource = match FluentResource::try_new(source.to_owned()) {
            Ok(resource) | Err((resource, _)) => resource,
        };
        bundle.add_resource_overriding(resource);
    }
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
        FluentValue::Number(number) if number.options.use_grouping => {
            Some(format::number(lang, number.value as i64))
        }
        _ => None,
    }
}

/// A number that texts show without separators, as JSON has it.
pub fn ungrouped(value: i64) -> FluentValue<'static> {
    let options = FluentNumberOptions {
        use_grouping: false,
        ..FluentNumberOptions::default()
    };
    FluentNumber::new(value as f64, options).into()
}

/// The source texts of a language's messages.
const fn sources(lang: Lang) -> [&'static str; 2] {
    match lang {
        Lang::En => [
            include_str!("locales/en.ftl"),
            include_str!("locales/console/en.ftl"),
        ],
        Lang::Id => [
            include_str!("locales/id.ftl"),
            include_str!("locales/console/id.ftl"),
        ],
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

    /// A duration in whole seconds, minutes, hours or days.
    pub fn duration(self, ms: i64) -> String {
        let seconds = ms.max(0) / 1_000;
        let (id, count) = match seconds {
            ..120 => ("console-seconds", seconds),
            120..7_200 => ("console-minutes-short", seconds / 60),
            7_200..172_800 => ("console-hours", seconds / 3_600),
            _ => ("console-days", seconds / 86_400),
        };
        self.tn(id, &[("count", ungrouped(count))])
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
    use dikala_entities::{
        CallStatus, DeliveryStatus, HangupInitiator, Ranking, Role, TransactionType, WebhookState,
    };
    use fluent_syntax::{ast, parser};

    #[test]
    fn numbers_in_texts_are_written_as_the_language_does() {
        let said = |lang: Lang| lang.tn("home-minutes", &[("minutes", 1_234.into())]);
        assert!(said(Lang::En).contains("1,234"), "{}", said(Lang::En));
        assert!(said(Lang::Id).contains("1.234"), "{}", said(Lang::Id));
        let plain = Lang::En.tn("home-minutes", &[("minutes", ungrouped(1_234))]);
        assert_eq!(plain, "1234 minutes");
    }

    #[test]
    fn durations_are_written_as_people_do() {
        for (ms, english, indonesian) in [
            (-1, "0 s", "0 dtk"),
            (1_500, "1 s", "1 dtk"),
            (119_999, "119 s", "119 dtk"),
            (120_000, "2 min", "2 mnt"),
            (7_200_000, "2 h", "2 jam"),
            (172_799_999, "47 h", "47 jam"),
            (7_200_000_000, "83 days", "83 hari"),
        ] {
            assert_eq!(Lang::En.duration(ms), english);
            assert_eq!(Lang::Id.duration(ms), indonesian);
        }
    }

    /// All messages of a language with their variables.
    fn messages(lang: Lang) -> BTreeMap<String, BTreeSet<String>> {
        let parse = |source| parser::parse(source).expect("every message can be read");
        let mut found = BTreeMap::new();
        for entry in sources(lang).map(parse).into_iter().flat_map(|it| it.body) {
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
    const ROOMS: [&str; 7] = [
        "console",
        "dashboard",
        "http",
        "mails",
        "operations",
        "pages",
        "web",
    ];

    /// All string literals in the sources of the rooms.
    fn quoted_in_sources() -> BTreeSet<String> {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut open: Vec<_> = ROOMS.iter().map(|room| sources.join(room)).collect();
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
        let (english, indonesian) = (messages(Lang::En), messages(Lang::Id));
        let of_api = BTreeSet::from(["api".to_owned()]);
        for (id, variables) in &english {
            // In English, errors have the words of the API, which hold the numbers.
            if *variables != of_api {
                assert_eq!(Some(variables), indonesian.get(id), "{id}");
            }
        }
        assert!(english.keys().eq(indonesian.keys()));
    }

    #[test]
    fn tables_have_the_same_columns_in_both_languages() {
        let count = |lang: Lang, id: &str| lang.t(id).split('|').count();
        for id in messages(Lang::En).into_keys() {
            assert_eq!(count(Lang::En, &id), count(Lang::Id, &id), "{id}");
        }
    }

    #[test]
    fn every_message_is_asked_for() {
        let quoted = quoted_in_sources();
        // The console composes the ids of these messages, or the overview names them.
        let composed = [WORD, FIGURE, PROBLEM, AMOUNT];
        let unused: Vec<String> = messages(Lang::En)
            .into_keys()
            .filter(|id| !composed.iter().any(|begin| id.starts_with(begin)))
            .filter(|id| !quoted.contains(id))
            .collect();
        assert_eq!(unused, [""; 0], "messages that no page asks for");
    }

    const WORD: &str = "console-word-";
    const FIGURE: &str = "console-figure-";
    const PROBLEM: &str = "console-problem-";
    const AMOUNT: &str = "console-amount-";

    /// All messages whose id begins so, without that beginning, with their English texts.
    fn beginning(begin: &str) -> BTreeMap<String, String> {
        let ids = messages(Lang::En).into_keys();
        let rest = ids.filter_map(|id| Some((id.strip_prefix(begin)?.to_owned(), Lang::En.t(&id))));
        rest.collect()
    }

    #[test]
    fn words_of_the_api_are_translated_and_stay_the_same_in_english() {
        let unnamed = "closed open sealed unread elsewhere default";
        let words = [
            CallStatus::WORDS,
            DeliveryStatus::WORDS,
            HangupInitiator::WORDS,
            Ranking::WORDS,
            Role::WORDS,
            TransactionType::WORDS,
            WebhookState::WORDS,
        ];
        let words = words.concat().into_iter().chain(unnamed.split(' '));
        let words = words.map(|word| (word.to_owned(), word.to_owned()));
        assert_eq!(beginning(WORD), words.collect());
    }

    #[test]
    fn figures_of_the_overview_have_the_labels_of_the_api() {
        let table = include_str!("../overview/figures.rs").lines();
        let kinds = table.filter_map(|line| line.trim().strip_prefix("kind(\""));
        let mut labels = BTreeMap::new();
        for kind in kinds {
            let [name, _, label, ..] = kind.split('"').collect::<Vec<_>>()[..] else {
                panic!("{kind}");
            };
            labels.insert(name.to_owned(), label.to_owned());
        }
        assert_eq!(beginning(FIGURE), labels);
    }

    /// Codes of problems are the string literals with an underscore.
    #[test]
    fn every_problem_of_the_overview_has_a_sentence_and_an_advice() {
        let source = include_str!("../overview/judge.rs");
        let literals = source.split('"').skip(1).step_by(2);
        let codes = literals.filter(|text| text.contains('_'));
        let ids: BTreeSet<String> = codes
            .flat_map(|code| [code.to_owned(), format!("{code}-action")])
            .collect();
        assert!(ids.contains("ledger_differences"), "{ids:?}");
        let texts: BTreeSet<String> = beginning(PROBLEM).into_keys().collect();
        assert_eq!(texts, ids);
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
        let quoted = quoted_in_sources();
        let missing: Vec<&String> = quoted
            .iter()
            .filter(is_name)
            .filter(|id| !known.contains_key(*id))
            .collect();
        assert_eq!(missing, [""; 0], "messages that are not there");
    }
}
