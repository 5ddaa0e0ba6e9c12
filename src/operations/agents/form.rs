//! The form of an agent: its fields in their order.

use super::fields::{AgentField, FIELDS};
use crate::pages::form::Shape;

/// A field of the form.
#[derive(Clone, Copy, Debug)]
pub struct FormField {
    /// Its name; a dot leads into an object.
    pub name: &'static str,
    pub shape: Shape,
    /// The id of its label.
    pub label: &'static str,
    /// The id of its hint.
    pub hint: Option<&'static str>,
}

/// The names of the fields in the order of the form. The conversation's settings are fields of their own.
const FORM_ORDER: [&str; 13] = [
    "name",
    "systemPrompt",
    "greetingText",
    "language",
    "voiceId",
    "voiceProvider",
    "voiceName",
    "timeZone",
    "maxCallDurationMinutes",
    "toolsEnabled",
    "escalationNumber",
    "conversation",
    "isActive",
];

/// The settings of the conversation.
#[rustfmt::skip]
const CONVERSATION: [FormField; 5] = [
    FormField { name: "conversation.reminderAfterSeconds", shape: Shape::Number, label: "agents-reminder",
        hint: Some("agents-reminder-hint") },
    FormField { name: "conversation.endAfterSilenceSeconds", shape: Shape::Number, label: "agents-silence",
        hint: Some("agents-silence-hint") },
    FormField { name: "conversation.fillers", shape: Shape::Optional, label: "agents-fillers",
        hint: None },
    FormField { name: "conversation.interruptions", shape: Shape::Optional, label: "agents-interruptions",
        hint: None },
    FormField { name: "conversation.maskKeys", shape: Shape::Switch, label: "agents-mask-keys",
        hint: Some("agents-mask-keys-hint") },
];

/// The fields in the order of the form.
pub fn in_form() -> Vec<FormField> {
    let fields = FORM_ORDER.iter().flat_map(|name| {
        if *name == "conversation" {
            return CONVERSATION.to_vec();
        }
        let field = FIELDS.iter().find(|field| field.name == *name);
        let form_field = |field: &AgentField| FormField {
            name: field.name,
            shape: field.shape,
            label: field.label,
            hint: field.hint,
        };
        field.map(form_field).into_iter().collect()
    });
    fields.collect()
}

/// The names and types of the form's values.
pub fn shapes() -> Vec<(&'static str, Shape)> {
    let fields = in_form().into_iter();
    fields.map(|field| (field.name, field.shape)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::json;
    use utoipa::PartialSchema;

    use super::*;
    use crate::operations::agents::conversation::ConversationInput;

    #[test]
    fn every_field_and_every_setting_has_a_place_in_the_form() {
        let names: HashSet<&str> = FORM_ORDER.into_iter().collect();
        let fields: HashSet<&str> = FIELDS.iter().map(|field| field.name).collect();
        assert_eq!(names, fields);
        let described = json!(ConversationInput::schema())["properties"].clone();
        let described = described.as_object().expect("properties").keys();
        let described: HashSet<String> = described
            .map(|name| format!("conversation.{name}"))
            .collect();
        let settings = CONVERSATION.iter().map(|field| field.name.to_owned());
        assert_eq!(settings.collect::<HashSet<_>>(), described);
    }
}
