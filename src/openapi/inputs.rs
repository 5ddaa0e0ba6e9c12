//! Schemas of request bodies: closed against unknown fields, and made into patches.

use dikala_actors::calls::settings::BUILT_IN_TOOLS;
use serde_json::{Value, json};

use super::{ApiRoute, BodyKind};

/// The name and schema of a request body. `AgentInput` gives `AgentCreate` and `AgentUpdate`.
pub(super) fn closed(
    name: &str,
    mut schema: Value,
    input: BodyKind,
    route: &ApiRoute,
) -> (String, Value) {
    let patch = input == BodyKind::Patch;
    let name = match name.strip_suffix("Input") {
        Some(stem) if patch => format!("{stem}Update"),
        Some(stem) => format!("{stem}Create"),
        None => name.to_owned(),
    };
    schema["additionalProperties"] = json!(false);
    let required: Vec<Value> = schema["required"].as_array().cloned().unwrap_or_default();
    let has_default = |field: &Value| {
        let field = field.as_str().unwrap_or_default();
        schema["properties"][field].get("default").is_some()
    };
    let required: Vec<Value> = required
        .into_iter()
        .filter(|field| !patch && !has_default(field))
        .collect();
    let properties = schema["properties"].as_object_mut();
    for property in properties.into_iter().flat_map(|p| p.values_mut()) {
        tell_default(property, patch);
    }
    if required.is_empty() {
        if let Some(schema) = schema.as_object_mut() {
            schema.remove("required");
        }
    } else {
        schema["required"] = json!(required);
    }
    let ignored = route.ignored.iter().map(|field| (field, "Ignored."));
    let kept = route
        .kept
        .iter()
        .map(|field| (field, "Taken as it is; cannot be changed here."));
    for (field, description) in ignored.chain(kept) {
        // Not `readOnly`, which test generators take to mean that sending it is an error. No type, because any value
        // may be sent and client generators have no name for a union of all types.
        schema["properties"][*field] = json!({"description": description});
    }
    if name == "AgentCreate" {
        // A new agent has no functions of its own yet.
        schema["properties"]["toolsEnabled"]["items"] =
            json!({"type": "string", "enum": BUILT_IN_TOOLS});
    }
    (name, schema)
}

/// Describes the default in words. Client generators take a property with a declared default as always present, and
/// allow no object as default. In a patch an absent field stays as it is, and `null` resets it to the default.
fn tell_default(property: &mut Value, patch: bool) {
    if let Some(default) = property
        .as_object_mut()
        .and_then(|property| property.remove("default"))
    {
        let when = if patch { "null" } else { "Left out or null" };
        let description = property["description"].as_str().unwrap_or_default();
        let description = format!("{description} {when}: {default}.");
        property["description"] = json!(description.trim());
    }
}
