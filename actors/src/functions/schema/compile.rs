//! Compiles a schema's JSON to the tree used for validation. Every keyword is either known or refused by name.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{
    BRANCH_LEVELS_MAX, BRANCHES_MAX, DEPTH_MAX, FaultKind, NODES_MAX, PATTERN_WEIGHT, SchemaFault,
    node::{Kinds, SchemaNode},
    number::Decimal,
    pattern,
};

/// Maximum number of faults reported at once.
const FAULTS_MAX: usize = 16;
/// Bytes of JSON in `enum`, `const` and `required` that count as one node.
const VALUE_BYTES: u32 = 64;
/// Keywords that hold definitions.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];
/// The dialects of this subset, without scheme and trailing `#`.
const DIALECTS: [&str; 2] = [
    "json-schema.org/draft/2020-12/schema",
    "json-schema.org/draft-07/schema",
];
/// Keywords for the AI that validation ignores.
const ANNOTATIONS: [&str; 10] = [
    "description",
    "title",
    "default",
    "examples",
    "format",
    "contentEncoding",
    "discriminator",
    "deprecated",
    "readOnly",
    "writeOnly",
];
const KEYWORDS: &str = "type, properties, required, additionalProperties, items, enum, const, description, title, default, \
    examples, format, minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, minLength, maxLength, pattern, \
    minItems, maxItems, uniqueItems, nullable, anyOf, oneOf, allOf, $ref, $defs, definitions and $schema";

pub(super) fn compile(schema: &Value) -> Result<(SchemaNode, u32), Vec<SchemaFault>> {
    let mut compiler = Compiler {
        root: schema,
        left: NODES_MAX,
        full: false,
        following: Vec::new(),
        followed: BTreeSet::new(),
        faults: Vec::new(),
    };
    let node = compiler.node(schema, "", Spot::default());
    compiler.unused_definitions();
    if compiler.faults.is_empty() {
        Ok((node, NODES_MAX - compiler.left))
    } else {
        compiler.faults.truncate(FAULTS_MAX);
        Err(compiler.faults)
    }
}

struct Compiler<'a> {
    root: &'a Value,
    /// The remaining number of nodes.
    left: u32,
    /// The number of nodes exceeded the limit.
    full: bool,
    /// The definitions being followed, from the outside to the inside.
    following: Vec<(&'static str, &'a str)>,
    followed: BTreeSet<(&'static str, &'a str)>,
    faults: Vec<SchemaFault>,
}

/// A schema's depth.
#[derive(Clone, Copy, Default)]
struct Spot {
    depth: usize,
    /// Enclosing alternatives about the same value.
    branches: usize,
}

impl Spot {
    /// The spot of a schema about another value.
    fn below(self) -> Self {
        Self {
            depth: self.depth + 1,
            branches: 0,
        }
    }

    /// The spot of a schema about the same value.
    fn beside(self, branches: usize) -> Self {
        Self {
            depth: self.depth + 1,
            branches: self.branches + branches,
        }
    }
}

impl<'a> Compiler<'a> {
    fn fault(&mut self, at: &str, kind: FaultKind, predicate: impl Into<String>) {
        let fault = SchemaFault {
            at: at.to_owned(),
            kind,
            predicate: predicate.into(),
        };
        // A faulty definition that is used twice is reported once.
        if self.faults.len() < FAULTS_MAX && !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
    }

    fn wrong_type(&mut self, at: &str, predicate: &str) {
        self.fault(at, FaultKind::WrongType, predicate);
    }

    /// Counts nodes. False once there are too many.
    fn spend(&mut self, nodes: u32) -> bool {
        match self.left.checked_sub(nodes) {
            Some(left) if !self.full => self.left = left,
            _ => {
                if !self.full {
                    self.full = true;
                    let predicate = format!(
                        "is too large once its references are followed: at most {NODES_MAX} schemas, of which each pattern \
                         counts as {PATTERN_WEIGHT} and {VALUE_BYTES} bytes of enum, const and required as one"
                    );
                    self.fault("", FaultKind::TooLarge, predicate);
                }
                return false;
            }
        }
        true
    }

    fn node(&mut self, schema: &'a Value, at: &str, place: Spot) -> SchemaNode {
        let mut node = SchemaNode::default();
        if !self.spend(1) {
            return node;
        }
        if place.depth > DEPTH_MAX {
            let predicate = format!("stands deeper than {DEPTH_MAX} schemas in one another");
            self.fault(at, FaultKind::TooLarge, predicate);
            return node;
        }
        let Value::Object(keywords) = schema else {
            self.wrong_type(at, "must be an object; write {} for a value of any kind");
            return node;
        };
        for (keyword, value) in keywords {
            let here = format!("{at}.{keyword}");
            self.keyword(&mut node, keyword, value, &here, place);
        }
        node
    }

    fn keyword(
        &mut self,
        node: &mut SchemaNode,
        keyword: &'a str,
        value: &'a Value,
        at: &str,
        place: Spot,
    ) {
        match keyword {
            "type" => node.kinds = self.kinds(value, at),
            "nullable" => node.nullable = self.boolean(value, at, "must be true or false"),
            "const" => node.constant = self.may_keep(value).then(|| value.clone()),
            "enum" => node.values = self.values(value, at),
            "properties" => {
                for (name, property) in self.object(value, at).into_iter().flatten() {
                    let property = self.node(property, &format!("{at}.{name}"), place.below());
                    node.object.properties.insert(name.clone(), property);
                }
            }
            "required" => node.object.required = self.names(value, at),
            "additionalProperties" => node.object.closed = self.closed(value, at),
            "items" if value.is_array() => {
                self.wrong_type(
                    at,
                    "must be one schema for all items, not a list of schemas",
                );
            }
            "items" => node.array.items = Some(Box::new(self.node(value, at, place.below()))),
            "uniqueItems" => node.array.unique = self.boolean(value, at, "must be true or false"),
            "minItems" => node.array.min = self.count(value, at),
            "maxItems" => node.array.max = self.count(value, at),
            "minLength" => node.string.min = self.count(value, at),
            "maxLength" => node.string.max = self.count(value, at),
            "pattern" => node.string.pattern = self.pattern(value, at),
            "minimum" => node.number.min = self.number(value, at),
            "maximum" => node.number.max = self.number(value, at),
            "exclusiveMinimum" => node.number.above = self.exclusive(value, at),
            "exclusiveMaximum" => node.number.below = self.exclusive(value, at),
            "multipleOf" => node.number.multiple_of = self.unit(value, at),
            "anyOf" => node.any = self.branches(value, at, place),
            "oneOf" => node.one = self.branches(value, at, place),
            "allOf" => node.all = self.branches(value, at, place),
            "$ref" => node.refers = self.reference(value, at, place),
            "$defs" | "definitions" if place.depth == 0 => drop(self.object(value, at)),
            "$schema" if place.depth == 0 => self.dialect(value, at),
            "$defs" | "definitions" | "$schema" => {
                self.fault(
                    at,
                    FaultKind::UnknownKeyword,
                    "stands at the top of the schema only",
                );
            }
            annotation if ANNOTATIONS.contains(&annotation) => {
                self.annotation(annotation, value, at)
            }
            unknown => self.fault(at, FaultKind::UnknownKeyword, instead_of(unknown)),
        }
    }

    fn object(&mut self, value: &'a Value, at: &str) -> Option<&'a Map<String, Value>> {
        if !value.is_object() {
            self.wrong_type(at, "must be an object");
        }
        value.as_object()
    }

    fn boolean(&mut self, value: &Value, at: &str, predicate: &str) -> bool {
        if !value.is_boolean() {
            self.wrong_type(at, predicate);
        }
        value.as_bool().unwrap_or_default()
    }

    /// Zod writes `{}` for an object that allows other properties.
    fn closed(&mut self, value: &Value, at: &str) -> bool {
        let open = value
            .as_bool()
            .or(value.as_object().filter(|all| all.is_empty()).map(|_| true));
        if open.is_none() {
            let predicate = "must be true or false; name each property in properties instead of a schema for all others";
            self.wrong_type(at, predicate);
        }
        open == Some(false)
    }

    fn kinds(&mut self, value: &Value, at: &str) -> Option<Kinds> {
        let words = match value {
            Value::Array(words) if !words.is_empty() => words.as_slice(),
            Value::String(_) => std::slice::from_ref(value),
            _ => {
                self.wrong_type(at, "must be the name of a type or a list of such names");
                return None;
            }
        };
        let mut kinds = Kinds::default();
        for word in words {
            let with = word.as_str().and_then(|word| kinds.with(word));
            match with {
                Some(with) if with == kinds => {
                    self.fault(at, FaultKind::Duplicate, "names a type twice")
                }
                Some(with) => kinds = with,
                None => {
                    let predicate = format!("must be one of {}", Kinds::WORDS.join(", "));
                    self.fault(at, FaultKind::NotAllowed, predicate);
                }
            }
        }
        Some(kinds)
    }

    /// A kept value counts once more at each reference to its definition.
    fn may_keep(&mut self, value: &Value) -> bool {
        let bytes = u32::try_from(value.to_string().len()).unwrap_or(u32::MAX);
        self.spend(bytes / VALUE_BYTES)
    }

    fn values(&mut self, value: &Value, at: &str) -> Option<Vec<Value>> {
        match value {
            Value::Array(values) if !values.is_empty() => {
                self.may_keep(value).then(|| values.clone())
            }
            _ => {
                self.wrong_type(at, "must be a list with at least one value");
                None
            }
        }
    }

    fn names(&mut self, value: &Value, at: &str) -> Vec<String> {
        let Value::Array(values) = value else {
            // In draft-04, beside a property, it was a boolean.
            self.wrong_type(
                at,
                "must be an array of the names of properties, beside properties",
            );
            return Vec::new();
        };
        let mut seen = BTreeSet::new();
        if !self.may_keep(value) {
            return Vec::new();
        }
        for (index, value) in values.iter().enumerate() {
            let here = format!("{at}[{index}]");
            match value.as_str() {
                None => self.wrong_type(&here, "must be a string"),
                Some(name) if !seen.insert(name) => {
                    self.fault(&here, FaultKind::Duplicate, "is there twice")
                }
                Some(_) => {}
            }
        }
        seen.into_iter().map(str::to_owned).collect()
    }

    fn number(&mut self, value: &Value, at: &str) -> Option<Decimal> {
        if !value.is_number() {
            self.wrong_type(at, "must be a number");
        }
        value.as_number().map(Decimal::of)
    }

    fn exclusive(&mut self, value: &Value, at: &str) -> Option<Decimal> {
        if value.is_boolean() {
            self.wrong_type(at, "must be the bound itself, a number, and takes the place of minimum or maximum; true and false are of draft-04");
            return None;
        }
        self.number(value, at)
    }

    fn unit(&mut self, value: &Value, at: &str) -> Option<Decimal> {
        let unit = self.number(value, at)?;
        if unit.is_positive() {
            return Some(unit);
        }
        self.fault(at, FaultKind::Invalid, "must be more than 0");
        None
    }

    fn count(&mut self, value: &Value, at: &str) -> Option<u64> {
        let count = value
            .as_number()
            .map(Decimal::of)
            .and_then(Decimal::as_count);
        if count.is_none() {
            self.wrong_type(at, "must be a whole number from 0 on");
        }
        count
    }

    fn pattern(&mut self, value: &Value, at: &str) -> Option<pattern::Pattern> {
        let Some(text) = value.as_str() else {
            self.wrong_type(at, "must be a string");
            return None;
        };
        if !self.spend(PATTERN_WEIGHT) {
            return None;
        }
        match pattern::compile(text) {
            Ok(regex) => Some(regex),
            Err(predicate) => {
                self.fault(at, FaultKind::Invalid, predicate);
                None
            }
        }
    }

    fn branches(&mut self, value: &'a Value, at: &str, place: Spot) -> Vec<SchemaNode> {
        let branches = match value {
            Value::Array(branches) if !branches.is_empty() => branches,
            _ => {
                self.wrong_type(at, "must be a list with at least one schema");
                return Vec::new();
            }
        };
        if branches.len() > BRANCHES_MAX {
            let predicate = format!(
                "must have at most {BRANCHES_MAX} alternatives; many constants are an enum"
            );
            self.fault(at, FaultKind::TooLarge, predicate);
            return Vec::new();
        }
        if place.branches >= BRANCH_LEVELS_MAX {
            let predicate = format!(
                "must not stand in more than {} other anyOf, oneOf or allOf; write one list",
                BRANCH_LEVELS_MAX - 1
            );
            self.fault(at, FaultKind::TooLarge, predicate);
            return Vec::new();
        }
        let numbered = branches.iter().enumerate();
        numbered
            .map(|(index, branch)| self.node(branch, &format!("{at}[{index}]"), place.beside(1)))
            .collect()
    }

    fn reference(&mut self, value: &'a Value, at: &str, place: Spot) -> Option<Box<SchemaNode>> {
        let Some((kind, name)) = value.as_str().and_then(definition_of) else {
            let predicate = "must be \"#/$defs/Name\" or \"#/definitions/Name\" with a plain name; put what is used twice into $defs";
            self.fault(at, FaultKind::Invalid, predicate);
            return None;
        };
        let Some(target) = self.root.get(kind).and_then(|defined| defined.get(name)) else {
            self.fault(
                at,
                FaultKind::Invalid,
                format!("names nothing: there is no {name} in {kind}"),
            );
            return None;
        };
        if self.following.contains(&(kind, name)) {
            self.fault(
                at,
                FaultKind::Invalid,
                "must not lead back to where it comes from; write the inner level out",
            );
            return None;
        }
        self.followed.insert((kind, name));
        self.following.push((kind, name));
        let node = self.node(target, &format!(".{kind}.{name}"), place.beside(0));
        self.following.pop();
        Some(Box::new(node))
    }

    /// Definitions without a reference must be valid too.
    fn unused_definitions(&mut self) {
        for kind in DEFINITIONS {
            let defined = self.root.get(kind).and_then(Value::as_object);
            for (name, schema) in defined.into_iter().flatten() {
                if !self.followed.contains(&(kind, name.as_str())) {
                    self.node(schema, &format!(".{kind}.{name}"), Spot::default().below());
                }
            }
        }
    }

    fn dialect(&mut self, value: &Value, at: &str) {
        let named = value.as_str().map(|text| {
            let text = text
                .strip_prefix("https://")
                .or(text.strip_prefix("http://"))
                .unwrap_or(text);
            text.trim_end_matches('#')
        });
        if !named.is_some_and(|named| DIALECTS.contains(&named)) {
            let predicate = "must be \"https://json-schema.org/draft/2020-12/schema\" or \"http://json-schema.org/draft-07/schema#\"";
            self.fault(at, FaultKind::NotAllowed, predicate);
        }
    }

    fn annotation(&mut self, keyword: &str, value: &Value, at: &str) {
        match keyword {
            "description" | "title" | "format" | "contentEncoding" if !value.is_string() => {
                self.wrong_type(at, "must be a string");
            }
            "examples" if !value.is_array() => self.wrong_type(at, "must be an array"),
            "discriminator" if !value.is_object() => self.wrong_type(at, "must be an object"),
            "deprecated" if !value.is_boolean() => self.wrong_type(at, "must be true or false"),
            _ => {}
        }
    }
}

/// The definition that a reference names. Only plain names, without escapes.
fn definition_of(reference: &str) -> Option<(&'static str, &str)> {
    let rest = reference.strip_prefix("#/")?;
    let (kind, name) = rest.split_once('/')?;
    let kind = DEFINITIONS.into_iter().find(|known| *known == kind)?;
    let plain = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    (!name.is_empty() && name.chars().all(plain)).then_some((kind, name))
}

/// A hint for what to write instead of an unsupported keyword.
fn instead_of(keyword: &str) -> String {
    let hint = match keyword {
        "patternProperties"
        | "propertyNames"
        | "minProperties"
        | "maxProperties"
        | "unevaluatedProperties"
        | "dependentRequired"
        | "dependentSchemas"
        | "dependencies" => {
            "name each property in properties, and close the object with \"additionalProperties\": false"
        }
        "prefixItems" | "additionalItems" | "unevaluatedItems" | "contains" | "minContains"
        | "maxContains" => {
            "use items, with one schema for all items, or an object with named properties"
        }
        "not" | "if" | "then" | "else" => {
            "write what is allowed as anyOf, or say it in the description"
        }
        "$id" | "id" | "$anchor" | "$dynamicAnchor" | "$dynamicRef" | "$recursiveAnchor"
        | "$recursiveRef" => "refer with \"$ref\": \"#/$defs/Name\"",
        "example" => "write examples, a list",
        "$comment" => "write description",
        "optional" => "leave the name out of required",
        _ => return format!("is not a keyword that is taken; taken are {KEYWORDS}"),
    };
    format!("is not a keyword that is taken; {hint}")
}
