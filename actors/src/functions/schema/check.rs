//! Validates a value against a compiled schema. Stops at the first mismatch or after a given number of steps.

use std::{collections::HashSet, fmt};

use serde_json::{Map, Value};

use super::{
    MismatchReason,
    node::{ArrayRules, Kinds, NumberRules, ObjectRules, SchemaNode, StringRules},
    number::Decimal,
};

/// Characters of text examined in one step.
const CHARS_A_STEP: usize = 16;
/// Maximum number of values listed in a message.
const NAMED_MAX: usize = 10;

/// The reason why a value does not fit. It is turned into words only when reported: most mismatches are of
/// alternatives that are not chosen.
#[derive(Debug)]
pub(super) enum Mismatch<'a> {
    /// The steps are used up.
    Steps,
    At {
        /// From the inside to the outside.
        path: Vec<PathStep<'a>>,
        what: MismatchKind<'a>,
    },
}

/// One step of a path into a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum PathStep<'a> {
    Member(&'a str),
    Item(usize),
}

/// The mismatch; displayed after "…: ".
#[derive(Debug)]
pub(super) enum MismatchKind<'a> {
    Kind(Kinds),
    Constant(&'a Value),
    Values(&'a [Value]),
    Required(&'a str),
    NoProperty(&'a str),
    SameItemTwice,
    Pattern(&'a str),
    /// Words and a bound, such as "at least" and 5.
    Number(&'static str, Decimal),
    /// Words, a bound and the unit counted.
    Count(&'static str, u64, &'static str),
    NoAlternative(usize),
    SeveralAlternatives,
}

impl<'a> From<MismatchKind<'a>> for Mismatch<'a> {
    fn from(what: MismatchKind<'a>) -> Self {
        Self::At {
            path: Vec::new(),
            what,
        }
    }
}

impl<'a> Mismatch<'a> {
    fn inside(mut self, step: PathStep<'a>) -> Self {
        if let Self::At { path, .. } = &mut self {
            path.push(step);
        }
        self
    }

    fn is_other_kind(&self) -> bool {
        matches!(self, Self::At { path, what: MismatchKind::Kind(_) } if path.is_empty())
    }
}

impl<'a> MismatchKind<'a> {
    /// The reason for people, and the member that it is about.
    pub(super) fn reason(&self) -> (MismatchReason, Option<&'a str>) {
        match self {
            Self::Kind(kinds) => match kinds.only() {
                Some(word) => (MismatchReason::Type(word), None),
                None => (MismatchReason::Other, None),
            },
            Self::Required(name) => (MismatchReason::Required, Some(name)),
            Self::NoProperty(name) => (MismatchReason::Unknown, Some(name)),
            _ => (MismatchReason::Other, None),
        }
    }
}

impl fmt::Display for PathStep<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member(name) => write!(f, "/{name}"),
            Self::Item(index) => write!(f, "/{index}"),
        }
    }
}

impl fmt::Display for MismatchKind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(kinds) => write!(f, "must be {kinds}"),
            Self::Constant(constant) => write!(f, "must be {}", shown(constant)),
            Self::Values(values) => {
                let named: Vec<String> = values.iter().take(NAMED_MAX).map(shown).collect();
                let more = if values.len() > NAMED_MAX {
                    ", …"
                } else {
                    ""
                };
                write!(f, "must be one of {}{more}", named.join(", "))
            }
            Self::Required(name) => write!(f, "{} is required", shown_text(name)),
            Self::NoProperty(name) => {
                write!(f, "{} is not one of the properties", shown_text(name))
            }
            Self::SameItemTwice => f.write_str("must not have the same item twice"),
            Self::Pattern(pattern) => write!(f, "must match {pattern}"),
            Self::Number(words, bound) => write!(f, "must be {words} {bound}"),
            Self::Count(words, bound, noun) => write!(f, "must have {words} {bound} {noun}"),
            Self::NoAlternative(branches) => {
                write!(f, "fits none of the {branches} alternatives")
            }
            Self::SeveralAlternatives => {
                f.write_str("fits more than one of the alternatives of oneOf")
            }
        }
    }
}

/// The validation of one value.
#[derive(Debug)]
pub(super) struct Checker {
    left: u32,
}

impl Checker {
    /// A validation with at most this many steps.
    pub(super) fn new(steps_max: u32) -> Self {
        Self { left: steps_max }
    }

    fn spend<'a>(&mut self, steps: usize) -> Result<(), Mismatch<'a>> {
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        self.left = self.left.checked_sub(steps).ok_or(Mismatch::Steps)?;
        Ok(())
    }

    /// Validates a value against a node.
    pub(super) fn check<'a>(
        &mut self,
        node: &'a SchemaNode,
        value: &'a Value,
    ) -> Result<(), Mismatch<'a>> {
        self.spend(1)?;
        if node.nullable && value.is_null() {
            return Ok(());
        }
        kind(node.kinds, value)?;
        if let Some(constant) = &node.constant
            && !self.equal(constant, value)?
        {
            return Err(MismatchKind::Constant(constant).into());
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

    fn one_of<'a>(&mut self, values: &'a [Value], value: &Value) -> Result<(), Mismatch<'a>> {
        for allowed in values {
            if self.equal(allowed, value)? {
                return Ok(());
            }
        }
        Err(MismatchKind::Values(values).into())
    }

    fn object<'a>(
        &mut self,
        rules: &'a ObjectRules,
        members: &'a Map<String, Value>,
    ) -> Result<(), Mismatch<'a>> {
        self.spend(rules.required.len() + members.len())?;
        for name in &rules.required {
            if !members.contains_key(name) {
                return Err(MismatchKind::Required(name).into());
            }
        }
        for (name, member) in members {
            match rules.properties.get(name) {
                Some(node) => self
                    .check(node, member)
                    .map_err(|misfit| misfit.inside(PathStep::Member(name)))?,
                None if rules.closed => {
                    return Err(MismatchKind::NoProperty(name).into());
                }
                None => {}
            }
        }
        Ok(())
    }

    fn array<'a>(&mut self, rules: &'a ArrayRules, items: &'a [Value]) -> Result<(), Mismatch<'a>> {
        within_count(rules.min, rules.max, items.len(), "items")?;
        if let Some(node) = &rules.items {
            for (index, item) in items.iter().enumerate() {
                self.check(node, item)
                    .map_err(|misfit| misfit.inside(PathStep::Item(index)))?;
            }
        }
        if rules.unique {
            let mut seen = HashSet::new();
            for item in items {
                let mut text = String::new();
                canonical(item, &mut text);
                self.spend(1 + text.len() / CHARS_A_STEP)?;
                if !seen.insert(text) {
                    return Err(MismatchKind::SameItemTwice.into());
                }
            }
        }
        Ok(())
    }

    fn text<'a>(&mut self, rules: &'a StringRules, text: &str) -> Result<(), Mismatch<'a>> {
        if rules.min.is_some() || rules.max.is_some() {
            self.spend(text.len() / CHARS_A_STEP)?;
            within_count(rules.min, rules.max, text.chars().count(), "characters")?;
        }
        if let Some(pattern) = &rules.pattern {
            self.spend(pattern.steps(text))?;
            if !pattern.is_match(text) {
                return Err(MismatchKind::Pattern(pattern.as_str()).into());
            }
        }
        Ok(())
    }

    fn any<'a>(
        &mut self,
        branches: &'a [SchemaNode],
        value: &'a Value,
    ) -> Result<(), Mismatch<'a>> {
        if branches.is_empty() {
            return Ok(());
        }
        let mut closest = Closest::default();
        for branch in branches {
            match self.check(branch, value) {
                Ok(()) => return Ok(()),
                Err(Mismatch::Steps) => return Err(Mismatch::Steps),
                Err(misfit) => closest.take(misfit),
            }
        }
        Err(closest.misfit(branches.len()))
    }

    fn one<'a>(
        &mut self,
        branches: &'a [SchemaNode],
        value: &'a Value,
    ) -> Result<(), Mismatch<'a>> {
        if branches.is_empty() {
            return Ok(());
        }
        let (mut fits, mut closest) = (0, Closest::default());
        for branch in branches {
            match self.check(branch, value) {
                Ok(()) => fits += 1,
                Err(Mismatch::Steps) => return Err(Mismatch::Steps),
                Err(misfit) => closest.take(misfit),
            }
        }
        match fits {
            0 => Err(closest.misfit(branches.len())),
            1 => Ok(()),
            _ => Err(MismatchKind::SeveralAlternatives.into()),
        }
    }

    /// JSON equality: `1` equals `1.0`.
    fn equal<'a>(&mut self, a: &Value, b: &Value) -> Result<bool, Mismatch<'a>> {
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

/// The mismatch of the only branch with the right type, if there is exactly one: it is the most helpful.
#[derive(Default)]
struct Closest<'a> {
    misfit: Option<Mismatch<'a>>,
    more: bool,
}

impl<'a> Closest<'a> {
    fn take(&mut self, misfit: Mismatch<'a>) {
        if !misfit.is_other_kind() {
            self.more |= self.misfit.is_some();
            self.misfit.get_or_insert(misfit);
        }
    }

    fn misfit(self, branches: usize) -> Mismatch<'a> {
        match self.misfit {
            Some(misfit) if !self.more => misfit,
            _ => MismatchKind::NoAlternative(branches).into(),
        }
    }
}

fn kind<'a>(kinds: Option<Kinds>, value: &Value) -> Result<(), Mismatch<'a>> {
    match kinds {
        Some(kinds) if !kinds.take(value) => Err(MismatchKind::Kind(kinds).into()),
        _ => Ok(()),
    }
}

fn within<'a>(rules: &NumberRules, number: Decimal) -> Result<(), Mismatch<'a>> {
    let wrong = |words, bound| Err(MismatchKind::Number(words, bound).into());
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

fn within_count<'a>(
    min: Option<u64>,
    max: Option<u64>,
    count: usize,
    noun: &'static str,
) -> Result<(), Mismatch<'a>> {
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    match (min, max) {
        (Some(min), _) if count < min => Err(MismatchKind::Count("at least", min, noun).into()),
        (_, Some(max)) if count > max => Err(MismatchKind::Count("at most", max, noun).into()),
        _ => Ok(()),
    }
}

/// A text that is the same for equal values.
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
