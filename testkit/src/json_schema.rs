//! A full validator of JSON Schema, to compare with.
//!
//! `boon`, because it turns on no feature of a library that the program shares with it. Otherwise tests would need a build of
//! almost everything for themselves.

use boon::{Compiler, Schemas};
use serde_json::Value;

/// How a value differs from a schema; `None` if it fits. Panics if the schema is none.
pub fn mismatch(schema: &Value, value: &Value) -> Option<String> {
    const PLACE: &str = "schema.json";
    let mut compiler = Compiler::new();
    compiler.add_resource(PLACE, schema.clone()).unwrap();
    let mut schemas = Schemas::new();
    let compiled = compiler.compile(PLACE, &mut schemas);
    let compiled = compiled.unwrap_or_else(|error| panic!("{schema}: {error}"));
    let checked = schemas.validate(value, compiled);
    checked.err().map(|error| format!("{error:#}"))
}
