//! Templates of agents for kinds of business, in both languages. A template fills in the form of a new agent.
//!
//! The first line of a file is the agent's name, the second its greeting, and the rest its instructions.

use dikala_entities::agent;

use crate::pages::lang::Lang;

/// A kind of business: its name in addresses, the id of its label, and the texts in English and Indonesian.
pub struct Template {
    pub name: &'static str,
    pub label: &'static str,
    english: &'static str,
    indonesian: &'static str,
}

macro_rules! templates {
    ($($name:literal $label:literal)*) => {
        &[$(Template {
            name: $name,
            label: $label,
            english: include_str!(concat!("templates/", $name, ".en.txt")),
            indonesian: include_str!(concat!("templates/", $name, ".id.txt")),
        },)*]
    };
}

pub const ALL: &[Template] = templates! {
    "clinic" "template-clinic"
    "workshop" "template-workshop"
    "restaurant" "template-restaurant"
    "hotel" "template-hotel"
    "shop" "template-shop"
    "courier" "template-courier"
    "school" "template-school"
    "property" "template-property"
};

/// The template with this name in addresses.
pub fn find(name: &str) -> Option<&'static Template> {
    ALL.iter().find(|template| template.name == name)
}

impl Template {
    /// Fills in a blank agent, which then speaks the reader's language.
    pub fn fill(&self, blank: agent::Model, lang: Lang) -> agent::Model {
        let text = match lang {
            Lang::En => self.english,
            Lang::Id => self.indonesian,
        };
        let (name, rest) = text.split_once('\n').unwrap_or((text, ""));
        let (greeting, prompt) = rest.split_once('\n').unwrap_or((rest, ""));
        agent::Model {
            name: name.to_owned(),
            greeting_text: Some(greeting.to_owned()),
            system_prompt: prompt.trim().to_owned(),
            language: lang.tag().parse().unwrap_or(blank.language.clone()),
            ..blank
        }
    }
}

#[cfg(test)]
mod tests {
    use dikala_entities::{Millis, TenantId};

    use super::*;

    #[test]
    fn every_template_has_a_name_a_greeting_and_instructions_in_both_languages() {
        for template in ALL {
            for lang in [Lang::En, Lang::Id] {
                let blank = agent::Model::new(TenantId::new(Millis::MIN), Millis::MIN);
                let filled = template.fill(blank, lang);
                let greeting = filled.greeting_text.unwrap_or_default();
                let name = template.name;
                assert!((4..60).contains(&filled.name.len()), "{name}");
                assert!((20..120).contains(&greeting.len()), "{name}: {greeting}");
                let prompt = filled.system_prompt;
                assert!((500..2_500).contains(&prompt.len()), "{name}: {prompt}");
                assert!(prompt.contains('[') && prompt.contains("\n- "), "{name}");
                assert_eq!(filled.language.as_str(), lang.tag(), "{name}");
            }
        }
    }
}
