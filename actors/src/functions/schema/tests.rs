//! Schemas of generators are accepted, harmful ones are refused or bounded, and validation agrees with a full
//! validator.

use dikala_testkit::json_schema;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

fn compiled(schema: &Value) -> Schema {
    Schema::new(schema).unwrap_or_else(|faults| panic!("{schema}: {faults:?}"))
}

/// The faults as `place kind`.
fn faults(schema: &Value) -> Vec<(String, FaultKind)> {
    let faults = Schema::new(schema).err().unwrap_or_default();
    faults
        .into_iter()
        .map(|fault| (fault.at, fault.kind))
        .collect()
}

fn check(schema: &Schema, arguments: &Value) -> Result<(), String> {
    schema.check(arguments.as_object().expect("an object"))
}

/// Generated schemas, with arguments that fit and arguments that do not.
fn generated(fixture: &str) -> Map<String, Value> {
    serde_json::from_str(fixture).expect("a fixture")
}

fn hold(fixture: &str, cases: &[(&str, Value, Value)]) {
    let models = generated(fixture);
    assert_eq!(models.len(), 12);
    for (name, schema) in &models {
        let schema = compiled(schema);
        let mut tried = 0;
        for (_, good, bad) in cases.iter().filter(|(model, ..)| model == name) {
            assert_eq!(check(&schema, good), Ok(()), "{name}: {good}");
            assert!(check(&schema, bad).is_err(), "{name}: {bad}");
            tried += 1;
        }
        assert!(tried > 0, "{name} was not tried");
    }
}

#[test]
fn what_pydantic_writes_is_taken() {
    let card = json!({"kind": "card", "number": "4"});
    let home = json!({"street": "Jl. Braga", "zip": "40111"});
    hold(
        include_str!("fixtures/pydantic.json"),
        &[
            (
                "OrderLookup",
                json!({"order_number": "A-1042"}),
                json!({"order_number": "A"}),
            ),
            (
                "Pizza",
                json!({"size": "small", "stars": 2, "toppings": ["ham"]}),
                json!({"size": "huge"}),
            ),
            (
                "Pizza",
                json!({"size": "large"}),
                json!({"size": "small", "stars": 3}),
            ),
            (
                "Appointment",
                json!({"day": "2026-01-15", "at": "10:00", "made": "2026-01-14T00:00:00Z", "note": null, "minutes": 45}),
                json!({"day": "2026-01-15", "at": "10:00", "made": "2026-01-14T00:00:00Z", "minutes": 44}),
            ),
            (
                "Customer",
                json!({"name": "Budi", "home": home, "work": null, "others": [home]}),
                json!({"name": "Budi", "home": {"street": "x", "zip": "4011"}}),
            ),
            (
                "Payment",
                json!({"amount": "12.50"}),
                json!({"amount": "-"}),
            ),
            (
                "Payment",
                json!({"amount": 12.5, "currency": "USD"}),
                json!({"amount": 1, "currency": "EUR"}),
            ),
            (
                "Checkout",
                json!({"pay": card}),
                json!({"pay": {"kind": "card"}}),
            ),
            (
                "Checkout",
                json!({"pay": {"kind": "cash"}}),
                json!({"pay": {"kind": "gold"}}),
            ),
            (
                "Search",
                json!({"text": "x", "limit": 100, "price": 19.99}),
                json!({"text": "x", "limit": 101}),
            ),
            (
                "Search",
                json!({"text": "x"}),
                json!({"text": "x", "more": 1}),
            ),
            (
                "Anything",
                json!({"payload": [{}], "either": 1, "bag": {"a": 1}}),
                json!({"payload": 1, "either": 1.5}),
            ),
            (
                "Contact",
                json!({"id": "x", "site": "y", "tags": ["a", "b"]}),
                json!({"id": "x", "site": "y", "tags": ["a", "a"]}),
            ),
            (
                "Order",
                json!({"lines": [card, {"name": "x", "home": home}], "page": {"items": [home], "next": 2}}),
                json!({"lines": [{"name": 1}], "page": {"items": []}}),
            ),
            (
                "Page[int]",
                json!({"items": [1, 2.0]}),
                json!({"items": [1, "2"]}),
            ),
            ("Address", home.clone(), json!({"street": "x"})),
        ],
    );
}

fn zod_cases() -> Vec<(&'static str, Value, Value)> {
    let home = json!({"street": "Jl. Braga", "zip": "40111"});
    vec![
        (
            "OrderLookup",
            json!({"orderNumber": "A-1042"}),
            json!({"orderNumber": 1042}),
        ),
        (
            "Pizza",
            json!({"size": "small", "toppings": ["ham"]}),
            json!({"size": "huge", "toppings": []}),
        ),
        (
            "Appointment",
            json!({"at": "2026-01-15T10:00:00Z", "minutes": 45}),
            json!({"at": "2026-01-15T10:00:00Z", "minutes": 44}),
        ),
        (
            "Customer",
            json!({"name": "Budi", "home": home, "work": null}),
            json!({"name": "Budi", "home": home}),
        ),
        (
            "Payment",
            json!({"amount": 0.5, "currency": "IDR", "fee": 19.99}),
            json!({"amount": 0, "currency": "IDR", "fee": 0}),
        ),
        (
            "Checkout",
            json!({"pay": {"kind": "cash"}}),
            json!({"pay": {"kind": "card"}}),
        ),
        (
            "Search",
            json!({"text": "x", "limit": 100}),
            json!({"text": "x", "limit": 101}),
        ),
        (
            "Anything",
            json!({"payload": 1, "either": "x", "other": 1}),
            json!({"payload": 1, "either": true}),
        ),
        (
            "Contact",
            json!({"email": "a.b@example.com", "id": "123e4567-e89b-42d3-a456-426614174000"}),
            json!({"email": 5, "id": "x"}),
        ),
        (
            "Hosts",
            json!({"four": "192.0.2.1", "six": "2001:db8::1"}),
            json!({"four": 4, "six": "2001:db8::1"}),
        ),
        (
            "Encoded",
            json!({"raw": "YWI", "day": "2026-01-15", "long": "P1D"}),
            json!({"raw": "YWI", "day": 1, "long": "P1D"}),
        ),
    ]
}

#[test]
fn what_zod_writes_is_taken() {
    let mut cases = zod_cases();
    // An intersection of two closed objects fits nothing, in zod's own schema as well.
    let models = generated(include_str!("fixtures/zod.json"));
    assert!(
        check(
            &compiled(&models["Both"]),
            &json!({"all": {"a": "x", "b": 1}})
        )
        .is_err()
    );
    cases.push((
        "Contact",
        cases[8].1.clone(),
        json!({"email": "a..b@example.com", "id": cases[8].1["id"]}),
    ));
    cases.push((
        "Encoded",
        cases[10].1.clone(),
        json!({"raw": "YWI", "day": "2026-01-15", "long": "P"}),
    ));
    let others: Map<String, Value> = models
        .into_iter()
        .filter(|(name, _)| name != "Both")
        .collect();
    assert_eq!(others.len(), 11);
    for (name, good, bad) in cases {
        let schema = compiled(&others[name]);
        assert_eq!(check(&schema, &good), Ok(()), "{name}");
        assert!(check(&schema, &bad).is_err(), "{name}: {bad}");
    }
}

#[test]
fn what_zod_to_json_schema_writes_is_taken() {
    let mut cases = zod_cases();
    cases.push((
        "Both",
        json!({"all": {"a": "x", "b": 1}}),
        json!({"all": {"a": "x"}}),
    ));
    hold(include_str!("fixtures/zod_to_json_schema.json"), &cases);
}

#[test]
fn everything_else_is_refused_by_name() {
    use FaultKind::{Duplicate, Invalid, NotAllowed, TooLarge, UnknownKeyword, WrongType};
    let wide: Vec<Value> = (0..9).map(|n| json!({"const": n})).collect();
    let deep = json!({"anyOf": [{"anyOf": [{"anyOf": [{}]}]}]});
    for (property, place, kind) in [
        (
            json!({"patternProperties": {}}),
            ".patternProperties",
            UnknownKeyword,
        ),
        (json!({"not": {}}), ".not", UnknownKeyword),
        (json!({"if": {}}), ".if", UnknownKeyword),
        (json!({"prefixItems": []}), ".prefixItems", UnknownKeyword),
        (json!({"contains": {}}), ".contains", UnknownKeyword),
        (
            json!({"propertyNames": {}}),
            ".propertyNames",
            UnknownKeyword,
        ),
        (
            json!({"unevaluatedProperties": false}),
            ".unevaluatedProperties",
            UnknownKeyword,
        ),
        (
            json!({"dependentSchemas": {}}),
            ".dependentSchemas",
            UnknownKeyword,
        ),
        (json!({"$id": "x"}), ".$id", UnknownKeyword),
        (json!({"id": "x"}), ".id", UnknownKeyword),
        (json!({"$anchor": "x"}), ".$anchor", UnknownKeyword),
        (json!({"$dynamicRef": "#x"}), ".$dynamicRef", UnknownKeyword),
        (json!({"$defs": {}}), ".$defs", UnknownKeyword),
        (json!({"$schema": "x"}), ".$schema", UnknownKeyword),
        (json!({"typo": 1}), ".typo", UnknownKeyword),
        (
            json!({"additionalProperties": {"type": "integer"}}),
            ".additionalProperties",
            WrongType,
        ),
        (json!({"items": [{}]}), ".items", WrongType),
        (
            json!({"exclusiveMinimum": true}),
            ".exclusiveMinimum",
            WrongType,
        ),
        (
            json!({"exclusiveMaximum": false}),
            ".exclusiveMaximum",
            WrongType,
        ),
        (json!({"required": true}), ".required", WrongType),
        (json!({"minLength": -1}), ".minLength", WrongType),
        (json!({"minLength": 1.5}), ".minLength", WrongType),
        (json!({"minimum": "1"}), ".minimum", WrongType),
        (json!({"multipleOf": 0}), ".multipleOf", Invalid),
        (json!({"enum": []}), ".enum", WrongType),
        (json!({"anyOf": []}), ".anyOf", WrongType),
        (json!({"type": "text"}), ".type", NotAllowed),
        (json!({"type": ["string", "string"]}), ".type", Duplicate),
        (json!({"format": 5}), ".format", WrongType),
        (json!({"pattern": "(?=a)"}), ".pattern", Invalid),
        (json!({"oneOf": wide}), ".oneOf", TooLarge),
        (deep, ".anyOf[0].anyOf[0].anyOf", TooLarge),
        (json!({"$ref": "#"}), ".$ref", Invalid),
        (json!({"$ref": "#/%24defs/a"}), ".$ref", Invalid),
        (json!({"$ref": "#/$defs/a~1b"}), ".$ref", Invalid),
        (json!({"$ref": "#/$defs/nowhere"}), ".$ref", Invalid),
        (json!({"$ref": "https://example.com/"}), ".$ref", Invalid),
    ] {
        let schema = json!({"type": "object", "properties": {"a": property}});
        assert_eq!(
            faults(&schema),
            [(format!(".properties.a{place}"), kind)],
            "{schema}"
        );
    }
    let unknown = Schema::new(&json!({"type": "object", "not": {}})).expect_err("is refused");
    assert!(unknown[0].predicate.contains("anyOf"), "{unknown:?}");
    assert_eq!(
        faults(&json!({"$schema": "http://json-schema.org/draft-04/schema#"})),
        [(".$schema".to_owned(), NotAllowed)]
    );
    // Definitions without a reference count too.
    assert_eq!(
        faults(&json!({"$defs": {"a": {"not": {}}}})),
        [(".$defs.a.not".to_owned(), UnknownKeyword)]
    );
}

#[test]
fn what_would_run_without_end_is_refused() {
    let there_and_back = json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}});
    assert_eq!(faults(&there_and_back)[0].1, FaultKind::Invalid);
    let mut defs = Map::new();
    for n in 0..40 {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        defs.insert(
            format!("d{n}"),
            json!({"properties": {"a": next, "b": next}}),
        );
    }
    defs.insert("d40".to_owned(), json!({"type": "object"}));
    let doubling = json!({"type": "object", "$ref": "#/$defs/d0", "$defs": defs});
    assert!(
        faults(&doubling)
            .iter()
            .all(|(_, kind)| *kind == FaultKind::TooLarge)
    );
    assert!(!faults(&doubling).is_empty());
    let deep = (0..40).fold(json!({}), |inner, _| json!({"items": inner}));
    assert_eq!(faults(&deep)[0].1, FaultKind::TooLarge);
    let many: Vec<Value> = (0..600).map(|_| json!({"type": "string"})).collect();
    let attack = json!({"type": "object", "properties": {"a": {"items": {"allOf": many}}}});
    assert_eq!(
        faults(&attack),
        [(".properties.a.items.allOf".to_owned(), FaultKind::TooLarge)]
    );
    // A value in a definition counts at each reference.
    let numbers: Vec<u32> = (0..2_000).collect();
    let referred = (0..200)
        .map(|n| (format!("p{n}"), json!({"$ref": "#/$defs/e"})))
        .collect();
    let copies = json!({"type": "object", "properties": Value::Object(referred), "$defs": {"e": {"enum": numbers}}});
    assert_eq!(faults(&copies), [(String::new(), FaultKind::TooLarge)]);
    let patterns = (0..30)
        .map(|n| (format!("p{n}"), json!({"pattern": "a"})))
        .collect();
    let patterns = json!({"type": "object", "properties": Value::Object(patterns)});
    assert_eq!(faults(&patterns), [(String::new(), FaultKind::TooLarge)]);
}

/// The steps bound a validation, however schema and arguments multiply.
#[test]
fn a_check_ends_after_its_steps() {
    let too_much = |schema: Value, arguments: Value| {
        let told = check(&compiled(&schema), &arguments).expect_err("ends");
        assert!(told.contains("too much to check"), "{told}");
    };
    let words: Vec<String> = (0..1_500).map(|n| format!("w{n}")).collect();
    let in_items = |node: Value| json!({"type": "object", "properties": {"a": {"type": "array", "items": node}}});
    too_much(
        in_items(json!({"enum": words})),
        json!({"a": vec!["w1499"; 8_000]}),
    );
    let branch = |n: usize| json!({"anyOf": (0..8).map(|m| json!({"const": n * 8 + m})).collect::<Vec<_>>()});
    let wide = json!({"anyOf": (0..8).map(branch).collect::<Vec<_>>()});
    too_much(in_items(wide), json!({"a": vec![63; 16_000]}));
    let long = json!({"enum": ["x".repeat(8_000) + "a", "x".repeat(8_000) + "b"]});
    let text = "x".repeat(8_000) + "c";
    let told = check(&compiled(&in_items(long)), &json!({"a": [text]})).expect_err("does not fit");
    assert!(told.contains("must be one of"), "{told}");
    // Each character may be tried in each state of a pattern.
    let states =
        |count: u32| json!({"type": "string", "pattern": format!("^[ab]*a[ab]{{{count}}}c$")});
    for count in [300, 1_500] {
        too_much(in_items(states(count)), json!({"a": ["ab".repeat(30_000)]}));
    }
    let mut alternatives = vec![states(300); 7];
    alternatives.push(json!({"type": "string"}));
    let alternatives = json!({"anyOf": alternatives});
    too_much(
        in_items(alternatives),
        json!({"a": vec!["ab".repeat(100); 300]}),
    );
    // With an ordinary schema, arguments of the maximum size are validated completely.
    let ordinary = in_items(json!({"type": "integer", "minimum": 0, "maximum": 9}));
    assert_eq!(
        check(&compiled(&ordinary), &json!({"a": vec![7; 32_000]})),
        Ok(())
    );
    let pattern = in_items(json!({"type": "string", "pattern": "^(a+)+$"}));
    assert!(
        check(
            &compiled(&pattern),
            &json!({"a": ["a".repeat(50_000) + "!"]})
        )
        .is_err()
    );
    let large = json!({"a": ["x".repeat(ARGUMENTS_BYTES_MAX)]});
    assert!(check(&compiled(&json!({})), &large).is_err());
}

#[test]
fn the_sentence_says_where_and_is_short() {
    let schema = compiled(&json!({
        "properties": {
            "a": {"type": "integer"},
            "u": {"anyOf": [{"type": "object", "properties": {"x": {"maximum": 5}}}, {"type": "null"}]},
            "n": {"type": "string", "nullable": true}
        },
        "required": ["b"]
    }));
    let told = |arguments: Value| check(&schema, &arguments).expect_err("does not fit");
    assert_eq!(
        told(json!({"a": "x".repeat(10_000), "b": 1})),
        "The arguments do not fit the function's parameters at /a: must be an integer."
    );
    assert!(told(json!({})).ends_with(": \"b\" is required."));
    assert!(told(json!({"b": 1, "u": {"x": 6}})).ends_with("at /u/x: must be at most 5."));
    assert!(told(json!({"b": 1, "u": 1})).ends_with("at /u: fits none of the 2 alternatives."));
    assert!(told(json!({"b": 1, "x".repeat(9_000): 1, "n": 4})).len() < 600);
    assert_eq!(check(&schema, &json!({"b": 1, "n": null})), Ok(()));
}

/// Schemas of the subset, with bounds and words that the values below often match.
fn schemas() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({})),
        Just(json!({"type": "integer", "minimum": 1, "exclusiveMaximum": 3})),
        Just(json!({"type": "number", "maximum": 2, "exclusiveMinimum": -1, "multipleOf": 0.5})),
        Just(json!({"type": ["string", "null"], "minLength": 1, "maxLength": 2})),
        Just(json!({"type": "string", "pattern": "^[ab]+$"})),
        Just(json!({"enum": [1, "a", null, [1.0]]})),
        Just(json!({"const": {"a": 1}})),
        Just(json!({"type": "boolean"})),
        Just(json!({"$ref": "#/$defs/d"})),
    ];
    leaf.prop_recursive(3, 24, 3, |inner| {
        let list = prop::collection::vec(inner.clone(), 1..3);
        prop_oneof![
            (inner.clone(), any::<bool>(), 0..2_u8).prop_map(|(items, unique, min)| {
                json!({"type": "array", "items": items, "uniqueItems": unique, "minItems": min, "maxItems": 2})
            }),
            (inner.clone(), inner.clone(), any::<bool>()).prop_map(|(a, b, open)| {
                json!({"type": "object", "properties": {"a": a, "b": b}, "required": ["a"], "additionalProperties": open})
            }),
            list.clone().prop_map(|any| json!({"properties": {"a": {"anyOf": any}}})),
            list.clone().prop_map(|one| json!({"properties": {"b": {"oneOf": one}}})),
            list.prop_map(|all| json!({"items": {"allOf": all}})),
        ]
    })
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2..4_i64).prop_map(Value::from),
        prop::sample::select(vec![0.5, 1.0, 1.25, 2.0]).prop_map(Value::from),
        "[abc]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 0..3)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_024))]

    /// A full validator agrees on every schema of the subset.
    #[test]
    fn the_check_says_what_a_full_validator_says(root in schemas(), value in values()) {
        let schema = json!({
            "properties": {"v": root},
            "$defs": {"d": {"type": "array", "items": {"enum": ["a", 1]}}}
        });
        let arguments = json!({"v": value});
        let mismatch = json_schema::mismatch(&schema, &arguments);
        let told = check(&compiled(&schema), &arguments);
        prop_assert_eq!(told.is_ok(), mismatch.is_none(), "{:?} {:?} {} {}", told, mismatch, schema, arguments);
    }
}
