//! Schemas of the typed values, as the API writes and reads them.

use dikala_entities::{
    AgentId, CallId, CallStatus, DeliveryId, DeliveryStatus, EventId, EventKind, FunctionId,
    FunctionMethod, HangupInitiator, HangupReason, PhoneNumberId, TransactionId, TransactionType,
    VoiceId, WebhookId,
};
use serde_json::{Value, json};
use utoipa::openapi::{
    Array, ArrayBuilder, KnownFormat, Object, ObjectBuilder, Schema, SchemaFormat, Type,
    schema::{AdditionalProperties, AnyOfBuilder, SchemaType},
};

/// What the middle of an id looks like: a ULID in small letters.
pub const ULID_PATTERN: &str = "[0-7][0-9a-hjkmnp-tv-z]{25}";
const E164_PATTERN: &str = r"^\+[1-9][0-9]{6,14}$";
/// A text of which something can be seen; a little wider than what is taken, which knows all of Unicode.
const VISIBLE_PATTERN: &str = concat!(
    r"^[^\x00]*[^\s\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e",
    r"\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb][^\x00]*$",
);
const URL_PATTERN: &str = r"^https?://[^@#\s\x00-\x1f]+$";

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

/// An object with whatever is in it. Said aloud: generators of clients take silence for an object without fields.
fn open_object() -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .additional_properties(Some(AdditionalProperties::FreeForm(true)))
}

fn or_null(kind: Type) -> SchemaType {
    SchemaType::from_iter([kind, Type::Null])
}

fn nullable(mut object: Object) -> Object {
    if let SchemaType::Type(kind) = object.schema_type {
        object.schema_type = or_null(kind);
    }
    if let Some(values) = &mut object.enum_values {
        values.push(Value::Null);
    }
    object
}

fn with_default(object: Object, default: Value) -> Object {
    let mut object = nullable(object);
    object.default = Some(default);
    object
}

fn visible(max: usize, description: &str) -> Object {
    text()
        .min_length(Some(1))
        .max_length(Some(max))
        .pattern(Some(VISIBLE_PATTERN))
        .description(Some(description))
        .build()
}

fn words(words: &[&str]) -> Object {
    text().enum_values(Some(words.iter().copied())).build()
}

fn id(prefix: &str) -> Object {
    text()
        .pattern(Some(format!("^{prefix}_{ULID_PATTERN}$")))
        .build()
}

macro_rules! ids {
    ($($name:ident $($or_null:ident)? = $id:ident;)*) => {$(
        /// The id.
        pub fn $name() -> Object {
            id($id::PREFIX)
        }
        $(
            /// The id, or null.
            pub fn $or_null() -> Object {
                nullable(id($id::PREFIX))
            }
        )?
    )*};
}

ids! {
    agent_id agent_id_or_null = AgentId;
    phone_number_id = PhoneNumberId;
    call_id call_id_or_null = CallId;
    webhook_id = WebhookId;
    function_id = FunctionId;
    transaction_id = TransactionId;
    event_id = EventId;
    delivery_id = DeliveryId;
}

macro_rules! schemas {
    ($($name:ident: $schema:expr;)*) => {$(
        #[doc = concat!("`", stringify!($name), "`")]
        pub fn $name() -> Object {
            $schema
        }
    )*};
}

schemas! {
    call_status: words(CallStatus::WORDS);
    direction: words(&["inbound"]);
    hangup_reason: nullable(words(HangupReason::WORDS));
    hangup_initiator: nullable(words(HangupInitiator::WORDS));
    event_kind: words(EventKind::WORDS);
    transaction_type: words(TransactionType::WORDS);
    delivery_status: words(DeliveryStatus::WORDS);
    role: words(&["caller", "agent", "tool"]);
    outcome_status: words(&["ok", "error"]);
    outcome_code: words(&["timeout", "connection", "blocked_target", "http_status", "invalid_response", "too_large",
        "invalid_arguments", "unknown_function", "disabled", "circuit_open"]);
    circuit_state: words(&["closed", "open", "half_open"]);
    voice: nullable(words(VoiceId::WORDS));
    method: words(FunctionMethod::WORDS);
    method_input: with_default(method(), json!("POST"));
    phone: text().pattern(Some(E164_PATTERN)).build();
    phone_or_null: nullable(phone());
    language_input: with_default(
        text().min_length(Some(2)).max_length(Some(35)).pattern(Some("^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$")).build(),
        json!("id"));
    duration_input: with_default(
        ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).maximum(Some(240)).build(),
        json!(10));
    active_input: with_default(Object::with_type(Type::Boolean), json!(true));
    instant: text().format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime))).build();
    instant_or_null: nullable(instant());
    outbound_url: text()
        .max_length(Some(2048))
        .pattern(Some(URL_PATTERN))
        .description(Some("https, public host, no user info, no fragment; stored normalised."))
        .build();
    agent_name: visible(120, "Display name.");
    system_prompt: visible(32_000, "Instructions and persona of the AI.");
    function_description: visible(1_000, "What the function does, read by the AI.");
    function_name: text().min_length(Some(1)).max_length(Some(64)).pattern(Some("^[A-Za-z_][A-Za-z0-9_-]{0,63}$")).build();
    any_object: open_object().build();
    any_object_or_null: nullable(any_object());
    any_object_input: with_default(any_object(), json!({}));
    parameters_input: with_default(
        open_object()
            .property("type", words(&["object"]))
            .property("properties", open_object().description(Some("Valid JSON Schemas by name.")))
            .property("required", ArrayBuilder::new().items(Object::with_type(Type::String)).unique_items(true)
                .description(Some("Names of properties.")))
            .required("type")
            .description(Some("A JSON Schema of at most 16384 bytes."))
            .build(),
        json!({"type": "object", "properties": {}, "required": []}));
}

fn instant_or_date() -> AnyOfBuilder {
    let of = |format| text().format(Some(SchemaFormat::KnownFormat(format)));
    AnyOfBuilder::new()
        .item(of(KnownFormat::DateTime))
        .item(of(KnownFormat::Date))
        .description(Some(
            "RFC 3339, or a date, which means its midnight in UTC.",
        ))
}

/// A time as requests give it.
pub fn instant_input() -> Schema {
    Schema::AnyOf(instant_or_date().build())
}

/// A time as requests give it, or null.
pub fn instant_input_or_null() -> Schema {
    let null = Object::with_type(Type::Null);
    Schema::AnyOf(instant_or_date().item(null).build())
}

/// Names of tools, none twice.
pub fn tools_input() -> Array {
    ArrayBuilder::new()
        .schema_type(or_null(Type::Array))
        .items(
            text()
                .min_length(Some(1))
                .max_length(Some(64))
                .pattern(Some("^[A-Za-z_][A-Za-z0-9_-]*$")),
        )
        .unique_items(true)
        .default(Some(json!(["end_call"])))
        .build()
}

/// Kinds of events, at least one and none twice.
pub fn event_kinds() -> Array {
    ArrayBuilder::new()
        .items(event_kind())
        .min_items(Some(1))
        .unique_items(true)
        .build()
}
