//! Finds calls by any digits of the caller's number, and of the called one.
//!
//! The table `caller_parts` has, for each caller, the rest of the number from each digit on. Maintenance fills it a few minutes
//! after a call's ring, so the newest calls are looked at directly. Then there are two ways to the calls. The index of callers is
//! used if few calls match. Otherwise the newest calls are read one after the other until a page is full.

use dikala_entities::{
    CallId, CallerNumber, Millis, OfTenant, PhoneNumberId, TenantId, call, phone_number,
    rows::is_one_of,
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, DbErr, QueryFilter, QueryOrder, QuerySelect,
    Statement, Value, sea_query::SimpleExpr,
};

use crate::http::field::{FieldCode, ValueFault};

/// Fewest digits of a search: with fewer, nearly every number matches.
const DIGITS_MIN: usize = 3;
/// Most digits of a number (E.164).
const DIGITS_MAX: usize = 15;
/// Newest calls of a tenant that are looked at directly.
const NEWEST: u64 = 2_000;
/// Callers that are read by their index.
const CALLERS_MAX: usize = 50;
/// Rows of the table for one number, at most, that begin with the same digits.
const ROWS_OF_NUMBER: usize = DIGITS_MAX - DIGITS_MIN + 1;
/// Calls of several callers that are read by their index: all of them are sorted.
const BY_INDEX_MAX: u64 = 2_000;
/// Newest calls that are read one after the other.
const WINDOW: u64 = 10_000;
/// Begins the part that stands for a number's start.
const START: char = 's';
/// The country code of numbers that are written without one.
const HOME: &str = "62";

/// Digits of a caller's number, as somebody typed them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerPart {
    /// A caller may be known by this text, such as an extension.
    typed: String,
    /// Digits anywhere in the number.
    within: Option<String>,
    /// The number's first digits, with the country code.
    start: Option<String>,
}

impl CallerPart {
    /// A text that is no number, by which a caller may be known.
    pub fn whole(text: &str) -> Self {
        Self {
            typed: text.to_owned(),
            within: None,
            start: None,
        }
    }

    /// Reads digits with the usual signs between them. `+` begins a country code, and `0` a national number. `None` if the text
    /// is no number.
    pub fn read(text: &str) -> Option<Result<Self, ValueFault>> {
        let text = text.trim();
        let is_number = text.chars().all(|sign| "+0123456789 -.()/".contains(sign));
        if text.is_empty() || !is_number {
            return None;
        }
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        let is_country = text.starts_with('+') && !digits.is_empty();
        if digits.len() < DIGITS_MIN && !is_country {
            let predicate = format!("must have at least {DIGITS_MIN} digits");
            let fault = ValueFault::new(FieldCode::TooShort, predicate);
            return Some(Err(fault.bounded(DIGITS_MIN as i64)));
        }
        let national = digits
            .strip_prefix('0')
            .filter(|rest| !rest.starts_with('0'));
        let start = match national {
            _ if text.starts_with('+') => Some(digits.clone()),
            Some(rest) => Some(format!("{HOME}{rest}")),
            None => None,
        };
        let within = (!text.starts_with('+')).then_some(digits);
        Some(Ok(Self {
            typed: text.to_owned(),
            within,
            start,
        }))
    }

    /// The digits with which a number may begin, country code first; the likeliest last.
    pub fn starts(&self) -> Vec<String> {
        self.within
            .clone()
            .into_iter()
            .chain(self.start.clone())
            .collect()
    }

    /// The condition on a call's number, without any index.
    pub fn condition(&self) -> Condition {
        let like = |pattern: String| call::Column::CallerNumber.like(pattern);
        let within = self.within.as_ref();
        let start = self.start.as_ref();
        Condition::any()
            .add(call::Column::CallerNumber.eq(self.typed.as_str()))
            .add_option(within.map(|digits| like(format!("+%{digits}%"))))
            .add_option(start.map(|digits| like(format!("+{digits}%"))))
    }

    /// The beginnings of the parts that match.
    fn beginnings(&self) -> impl Iterator<Item = String> {
        let start = self.start.as_ref().map(|digits| format!("{START}{digits}"));
        self.within.clone().into_iter().chain(start)
    }

    /// The tenant's numbers that match.
    async fn called(
        &self,
        db: &impl ConnectionTrait,
        tenant: TenantId,
    ) -> Result<Vec<PhoneNumberId>, DbErr> {
        let numbers = phone_number::Entity::of(tenant).all(db).await?;
        let matching = numbers
            .into_iter()
            .filter(|number| self.is_in(number.did.as_str()));
        Ok(matching.map(|number| number.id).collect())
    }

    /// Finds the way to the matching calls of a tenant. `times`: only calls from the first on and up to the second are wanted.
    /// With `is_called` the digits may also be in the called number.
    pub async fn search(
        &self,
        db: &impl ConnectionTrait,
        tenant: TenantId,
        (from, until): (Option<Millis>, Option<Millis>),
        is_called: bool,
    ) -> Result<FoundCallers, DbErr> {
        let called = match is_called {
            true => self.called(db, tenant).await?,
            false => Vec::new(),
        };
        if called.is_empty()
            && let Some(callers) = self.callers(db, tenant).await?
            && let Some(condition) = by_index(db, tenant, &callers).await?
        {
            return Ok(FoundCallers {
                condition: condition.into(),
                is_by_index: !callers.is_empty(),
                since: None,
            });
        }
        let since = window(db, tenant, until).await?;
        let mut condition = self.condition();
        if !called.is_empty() {
            condition = condition.add(call::Column::PhoneNumberId.is_in(called));
        }
        Ok(FoundCallers {
            condition,
            is_by_index: false,
            since: since.filter(|(since, _)| from.is_none_or(|from| from < *since)),
        })
    }

    /// Matching callers, a few more than [`CALLERS_MAX`] at most. `None` while the table lacks calls.
    async fn callers(
        &self,
        db: &impl ConnectionTrait,
        tenant: TenantId,
    ) -> Result<Option<Vec<String>>, DbErr> {
        let Some(newest) = newest_callers(db, tenant).await? else {
            return Ok(None);
        };
        let mut callers: Vec<String> = newest
            .into_iter()
            .filter(|caller| self.is_in(caller))
            .collect();
        for beginning in self.beginnings() {
            callers.extend(read_callers(db, tenant, beginning).await?);
        }
        callers.sort();
        callers.dedup();
        let is_known = callers.contains(&self.typed);
        if !is_known && (callers.is_empty() || is_caller(db, tenant, &self.typed).await?) {
            callers.push(self.typed.clone());
        }
        Ok(Some(callers))
    }

    fn is_in(&self, caller: &str) -> bool {
        if caller == self.typed {
            return true;
        }
        let Some(digits) = caller.strip_prefix('+') else {
            return false;
        };
        let is_within = self
            .within
            .as_ref()
            .is_some_and(|part| digits.contains(part));
        is_within
            || self
                .start
                .as_ref()
                .is_some_and(|start| digits.starts_with(start))
    }
}

/// The callers of the newest calls; of all that the table may lack. `None` if it lacks more than can be looked at.
async fn newest_callers(
    db: &impl ConnectionTrait,
    tenant: TenantId,
) -> Result<Option<Vec<String>>, DbErr> {
    let until = indexed_until(db).await?;
    for most in [NEWEST, WINDOW] {
        let newest = call::Entity::of(tenant)
            .select_only()
            .columns([call::Column::CallerNumber, call::Column::StartedAt])
            .order_by_desc(call::Column::StartedAt)
            .order_by_desc(call::Column::Id)
            .limit(most);
        let newest: Vec<(String, Millis)> = newest.into_tuple().all(db).await?;
        let oldest = newest.last().map(|(_, at)| *at);
        if (newest.len() as u64) < most || oldest <= until {
            return Ok(Some(newest.into_iter().map(|(caller, _)| caller).collect()));
        }
    }
    Ok(None)
}

async fn is_caller(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    caller: &str,
) -> Result<bool, DbErr> {
    let call = call::Entity::of(tenant)
        .select_only()
        .column(call::Column::Id)
        .filter(call::Column::CallerNumber.eq(caller))
        .limit(1);
    let found: Option<String> = call.into_tuple().one(db).await?;
    Ok(found.is_some())
}

/// Callers with a part that begins like that.
async fn read_callers(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    beginning: String,
) -> Result<Vec<String>, DbErr> {
    // Digits sort before letters, so this is above every part that begins like that.
    let end = format!("{beginning}z");
    // PostgreSQL would read all rows to find the distinct ones.
    let most = CALLERS_MAX + 1;
    let sql = format!(
        "SELECT DISTINCT caller_number FROM (SELECT caller_number FROM caller_parts \
         WHERE tenant_id = $1 AND part >= $2 AND part < $3 LIMIT {}) AS found LIMIT {most}",
        most * ROWS_OF_NUMBER
    );
    let values = [tenant.to_string(), beginning, end].map(Value::from);
    let found = Statement::from_sql_and_values(db.get_database_backend(), sql, values);
    let rows = db.query_all_raw(found).await?;
    rows.iter().map(|row| row.try_get_by_index(0)).collect()
}

/// The condition that reads the calls of these callers by the index of callers; `None` if that would read too many.
async fn by_index(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    callers: &[String],
) -> Result<Option<SimpleExpr>, DbErr> {
    // One caller's calls are in the order of time.
    if let [caller] = callers {
        return Ok(Some(call::Column::CallerNumber.eq(caller.as_str())));
    }
    if callers.len() > CALLERS_MAX {
        return Ok(None);
    }
    let condition = call::Column::CallerNumber.is_in(callers.iter().map(String::as_str));
    let calls = call::Entity::of(tenant)
        .select_only()
        .column(call::Column::Id)
        .filter(condition.clone())
        .limit(BY_INDEX_MAX + 1);
    let calls: Vec<String> = calls.into_tuple().all(db).await?;
    Ok((calls.len() as u64 <= BY_INDEX_MAX).then_some(condition))
}

/// The ring of the last call in the table.
async fn indexed_until(db: &impl ConnectionTrait) -> Result<Option<Millis>, DbErr> {
    let sql = "SELECT position FROM caller_index";
    let statement = Statement::from_string(db.get_database_backend(), sql);
    let Some(row) = db.query_one_raw(statement).await? else {
        return Ok(None);
    };
    let position: String = row.try_get_by_index(0)?;
    Ok(position.parse::<CallId>().ok().map(CallId::time))
}

/// The way to the calls of some callers.
#[derive(Clone, Debug)]
pub struct FoundCallers {
    pub condition: Condition,
    /// True if they are to be read by the index of callers, otherwise by time.
    pub is_by_index: bool,
    /// The oldest call that is looked at, if there are older ones.
    pub since: Option<(Millis, CallId)>,
}

/// The oldest call that is read one after the other; `None` if all are.
async fn window(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    until: Option<Millis>,
) -> Result<Option<(Millis, CallId)>, DbErr> {
    let mut calls = call::Entity::of(tenant)
        .select_only()
        .columns([call::Column::StartedAt, call::Column::Id])
        .order_by_desc(call::Column::StartedAt)
        .order_by_desc(call::Column::Id)
        .offset(WINDOW)
        .limit(1);
    if let Some(until) = until {
        calls = calls.filter(call::Column::StartedAt.lte(until));
    }
    calls.into_tuple().one(db).await
}

/// The parts of a number by which it is found; none of a caller without a number.
pub fn parts(caller: &CallerNumber) -> Vec<String> {
    let digits = caller.as_str().strip_prefix('+').unwrap_or_default();
    let is_number = (DIGITS_MIN..=DIGITS_MAX).contains(&digits.len());
    if !is_number || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Vec::new();
    }
    let rests = (0..=digits.len() - DIGITS_MIN).map(|at| digits[at..].to_owned());
    rests.chain([start_of(digits)]).collect()
}

/// The part that stands for a number's start.
pub fn start_of(caller: &str) -> String {
    format!("{START}{}", caller.trim_start_matches('+'))
}

/// Removes a caller without calls from the index. Returns the number of removed rows.
pub async fn forget(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    caller: &CallerNumber,
) -> Result<u64, DbErr> {
    let backend = db.get_database_backend();
    let sql = format!(
        "DELETE FROM caller_parts WHERE tenant_id = $1 AND caller_number = $2 AND {} \
         AND NOT EXISTS (SELECT 1 FROM calls c WHERE c.tenant_id = $1 AND c.caller_number = $2)",
        is_one_of(backend, "part", 3)
    );
    let parts = serde_json::to_string(&parts(caller)).map_err(|e| DbErr::Json(e.to_string()))?;
    let values = [tenant.to_string(), caller.as_str().to_owned(), parts].map(Value::from);
    let gone = db
        .execute_raw(Statement::from_sql_and_values(backend, sql, values))
        .await?;
    Ok(gone.rows_affected())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("0812", Some("0812"), Some("62812"))]
    #[case(" 0812-34 ", Some("081234"), Some("6281234"))]
    #[case("+62 812", None, Some("62812"))]
    #[case("+62", None, Some("62"))]
    #[case("7890", Some("7890"), None)]
    #[case("0044", Some("0044"), None)]
    fn what_is_typed(
        #[case] text: &str,
        #[case] within: Option<&str>,
        #[case] start: Option<&str>,
    ) {
        let part = CallerPart {
            typed: text.trim().to_owned(),
            within: within.map(str::to_owned),
            start: start.map(str::to_owned),
        };
        assert_eq!(CallerPart::read(text), Some(Ok(part)));
    }

    #[test]
    fn too_few_digits_are_refused_and_words_are_no_number() {
        for few in ["1", "62", "(08)", "+"] {
            let read = CallerPart::read(few).expect("a number");
            assert_eq!(
                read.map_err(|fault| fault.in_field("x").code),
                Err(FieldCode::TooShort)
            );
        }
        for words in ["", "anonymous", "+62x"] {
            assert_eq!(CallerPart::read(words), None, "{words}");
        }
    }

    #[test]
    fn a_caller_without_a_number_has_no_parts() {
        for caller in ["anonymous", "erased", "+12"] {
            let caller = caller.parse();
            assert!(caller.is_err() || parts(&caller.expect("a caller")).is_empty());
        }
    }

    proptest! {
        /// The parts of a number find what a look at the number finds.
        #[test]
        fn parts_are_found_like_the_digits(number in "[1-9][0-9]{6,14}", typed in "(\\+|0|)[1-9][0-9]{2,4}", at in 0_usize..12) {
            let typed = match number.get(at..at + 4) {
                Some(own) if at % 2 == 0 => own.to_owned(),
                _ => typed,
            };
            let caller: CallerNumber = format!("+{number}").parse().expect("a number");
            let part = CallerPart::read(&typed).expect("a number").expect("enough digits");
            let found = part.beginnings().any(|beginning| {
                parts(&caller).iter().any(|part| *part >= beginning && *part < format!("{beginning}z"))
            });
            prop_assert_eq!(found, part.is_in(caller.as_str()), "{} in {}", typed, number);
        }
    }
}
