//! Whether a value fits a compiled schema. Stops at the first thing that does not, and after a stated number of steps.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{
    STEPS_MAX,
    node::{ArrayRules, Kinds, Node, NumberRules, ObjectRules, StringRules},
    number::Decimal,
};

/// Characters of text that are looked at in one step.
const CHARS_A_STEP: usize = 16;
/// Values that a sentence names.
const NAMED_MAX: usize = 10;

/// Why a value does not fit.
#[derive(Debug)]
pub(super) enum Misfit {
    /// There is too much to check.
    Steps,
    At {
        /// From the inside to the outside.
        path: Vec<String>,
        /// Comes after "…: ".
        what: String,
        /// It is not even of the right type.
        wrong_kind: bool,
    },
}

fn misfit(what: impl Into<String>) -> Misfit {
    Misfit::At {
        path: Vec::new(),
        what: what.into(),
        wrong_kind: false,
    }
}

impl Misfit {
    fn inside(mut self, step: &str) -> Self {
        if let Self::At { path, .. } = &mut self {
            path.push(step.to_owned());
        }
        self
    }

    fn is_other_kind(&self) -> bool {
        matches!(self, Self::At { path, wrong_kind: true, .. } if path.is_empty())
    }
}

/// One checking of one value.
#[derive(Debug)]
pub(super) struct Checker {
    left: u32,
}

impl Checker {
    pub fn new() -> Self {
        Self { left: STEPS_MAX }
    }

    fn spend(&mut self, steps: usize) -> Result<(), Misfit> {
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        self.left = self.left.checked_sub(steps).ok_or(Misfit::Steps)?;
        Ok(())
    }

    /// Checks the value against the node.
    pub fn check(&mut self, node: &Node, value: &Value) -> Result<(), Misfit> {
        self.spend(1)?;
        if node.nullable && value.is_null() {
            return Ok(());
        }
        kind(node.kinds, value)?;
        if let Some(constant) = &node.constant
            && !self.equal(constant, value)?
        {
            return Err(misfit(format!("must be {}", shown(constant))));
        }
        if let Some(values) = &node.values {
            self.one_of(values, value)?;
        }
        match value {
            Value::Object(members) => self.object(&node.object, members)?,
            Value::Array(items) => self.array(&node.array, items)?,
            Value::String(text) => self.text(&node.string, text)?,
            Value::Number(number) => within(&node.number, Decimal::of(number))?,
            Value::Null | Value::Bool(_) => {}
        }
        if let Some(target) = &node.refers {
            self.check(target, value)?;
        }
        for branch in &node.all {
            self.check(branch, value)?;
        }
        self.any(&node.any, value)?;
        self.one(&node.one, value)
    }

    fn one_of(&mut self, values: &[Value], value: &Value) -> Result<(), Misfit> {
        for allowed in values {
            if self.equal(allowed, value)? {
                return Ok(());
            }
        }
        let named: Vec<String> = values.iter().take(NAMED_MAX).map(shown).collect();
        let more = if values.len() > NAMED_MAX {
            ", …"
        } else {
            ""
        };
        Err(misfit(format!("must be one of {}{more}", named.join(", "))))
    }

    fn object(&mut self, rules: &ObjectRules, members: &Map<String, Value>) -> Result<(), Misfit> {
        self.spend(rules.required.len() + members.len())?;
        for name in &rules.required {
            if !members.contains_key(name) {
                return Err(misfit(format!("{} is required", shown_text(name))));
            }
        }
        for (name, member) in members {
            match rules.properties.get(name) {
                Some(node) => self
                    .check(node, member)
                    .map_err(|misfit| misfit.inside(name))?,
                None if rules.closed => {
                    return Err(misfit(format!(
                        "{} is not one of the properties",
                        shown_text(name)
                    )));
                }
                None => {}
            }
        }
        Ok(())
    }

    fn array(&mut self, rules: &ArrayRules, items: &[Value]) -> Result<(), Misfit> {
        within_count(rules.min, rules.max, items.len(), "items")?;
        if let Some(node) = &rules.items {
            for (index, item) in items.iter().enumerate() {
                self.check(node, item)
                    .map_err(|misfit| misfit.inside(&index.to_string()))?;
            }
        }
        if rules.unique {
            let mut seen = HashSet::new();
            for item in items {
                let mut text = String::new();
                canonical(item, &mut text);
                self.spend(1 + text.len() / CHARS_A_STEP)?;
                if !seen.insert(text) {
                    return Err(misfit("must not have the same item twice"));
                }
            }
        }
        Ok(())
    }

    fn text(&mut self, rules: &StringRules, text: &str) -> Result<(), Misfit> {
        if rules.min.is_some() || rules.max.is_some() {
            self.spend(text.len() / CHARS_A_STEP)?;
            within_count(rules.min, rules.max, text.chars().count(), "characters")?;
        }
        if let Some(pattern) = &rules.pattern {
            self.spend(text.len() / CHARS_A_STEP)?;
            if !pattern.is_match(text) {
                return Err(misfit(format!("must match {}", pattern.as_str())));
            }
        }
        Ok(())
    }

    fn any(&mut self, branches: &[Node], value: &Value) -> Result<(), Misfit> {
        if branches.is_empty() {
            return Ok(());
        }
        let mut closest = Closest::default();
        for branch in branches {
            match self.check(branch, value) {
                Ok(()) => return Ok(()),
                Err(Misfit::Steps) => return Err(Misfit::Steps),
                Err(misfit) => closest.take(misfit),
            }
        }
        Err(closest.misfit(branches.len()))
    }

    fn one(&mut self, branches: &[Node], value: &Value) -> Result<(), Misfit> {
        if branches.is_empty() {
            return Ok(());
        }
        let (mut fits, mut closest) = (0, Closest::default());
        for branch in branches {
            match self.check(branch, value) {
                Ok(()) => fits += 1,
                Err(Misfit::Steps) => return Err(Misfit::Steps),
                Err(misfit) => closest.take(misfit),
            }
        }
        match fits {
            0 => Err(closest.misfit(branches.len())),
            1 => Ok(()),
            _ => Err(misfit("fits more than one of the alternatives of oneOf")),
        }
    }

    /// Equal as JSON: `1` is `1.0`.
    fn equal(&mut self, a: &Value, b: &Value) -> Result<bool, Misfit> {
        self.spend(1)?;
        Ok(match (a, b) {
            (Value::Number(a), Value::Number(b)) => Decimal::of(a) == Decimal::of(b),
            (Value::String(a), Value::String(b)) => {
                self.spend(a.len().min(b.len()) / CHARS_A_STEP)?;
                a == b
            }
            (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
                for (a, b) in a.iter().zip(b) {
                    if !self.equal(a, b)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Value::Object(a), Value::Object(b)) if a.len() == b.len() => {
                for (name, a) in a {
                    match b.get(name) {
                        Some(b) if self.equal(a, b)? => {}
                        _ => return Ok(false),
                    }
                }
                true
            }
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            _ => false,
        })
    }
}

/// The one branch whose type was right, if there is just one: its misfit says most.
#[derive(Default)]
struct Closest {
    misfit: Option<Misfit>,
    more: bool,
}

impl Closest {
    fn take(&mut self, misfit: Misfit) {
        if !misfit.is_other_kind() {
            self.more |= self.misfit.is_some();
            self.misfit.get_or_insert(misfit);
        }
    }

    fn misfit(self, branches: usize) -> Misfit {
        match self.misfit {
            Some(misfit) if !self.more => misfit,
            _ => misfit(format!("fits none of the {branches} alternatives")),
        }
    }
}

fn kind(kinds: Option<Kinds>, value: &Value) -> Result<(), Misfit> {
    match kinds {
        Some(kinds) if !kinds.take(value) => Err(Misfit::At {
            path: Vec::new(),
            what: format!("must be {kinds}"),
            wrong_kind: true,
        }),
        _ => Ok(()),
    }
}

fn within(rules: &NumberRules, number: Decimal) -> Result<(), Misfit> {
    let wrong = |words: &str, bound: Decimal| Err(misfit(format!("must be {words} {bound}")));
    match rules {
        NumberRules { min: Some(min), .. } if number < *min => wrong("at least", *min),
        NumberRules { max: Some(max), .. } if number > *max => wrong("at most", *max),
        NumberRules {
            above: Some(bound), ..
        } if number <= *bound => wrong("more than", *bound),
        NumberRules {
            below: Some(bound), ..
        } if number >= *bound => wrong("less than", *bound),
        NumberRules {
            multiple_of: Some(unit),
            ..
        } if !number.is_multiple_of(*unit) => wrong("a multiple of", *unit),
        _ => Ok(()),
    }
}

fn within_count(
    min: Option<u64>,
    max: Option<u64>,
    count: usize,
    noun: &str,
) -> Result<(), Misfit> {
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    match (min, max) {
        (Some(min), _) if count < min => Err(misfit(format!("must have at least {min} {noun}"))),
        (_, Some(max)) if count > max => Err(misfit(format!("must have at most {max} {noun}"))),
        _ => Ok(()),
    }
}

/// The same text for equal values.
fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Number(number) => out.push_str(&Decimal::of(number).to_string()),
        Value::Array(items) => {
            out.push('[');
            for item in items {
                canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (name, member) in members {
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                canonical(member, out);
                out.push(',');
            }
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

fn shown(value: &Value) -> String {
    shortened(value.to_string())
}

fn shown_text(text: &str) -> String {
    shortened(Value::from(text).to_string())
}

fn shortened(text: String) -> String {
    const CHARS_MAX: usize = 60;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
