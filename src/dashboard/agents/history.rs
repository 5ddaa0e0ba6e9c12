//! The versions of an agent: when, by whom and what was changed, how many calls each had, and a way back.

use std::collections::{BTreeMap, HashSet};

use actix_web::HttpResponse;
use dikala_actors::calls::settings::BUILT_IN_TOOLS;
use dikala_entities::{AgentId, Millis, agent, audit as audit_entry, kept_version};
use maud::{Markup, html};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, FromQueryResult, QueryFilter, QueryOrder, QuerySelect,
    Statement,
};
use serde_json::{Map, Value, json};

use super::{
    super::{
        audit,
        components::{post, refused},
        errors,
        form::{self, FormValues},
        layout,
        names::cut,
        view::SignedIn,
    },
    find, functions, path_of,
};
use crate::{
    audit::AuditQuery,
    http::{
        error::ApiError,
        extract::{Id, RequestBody, integer},
    },
    operations::agents::{self, AgentVersion},
    pages::form::{Fields, Shape},
};

/// The newest versions are shown.
const SHOWN: usize = 10;
/// Calls of a version that are counted, and those whose outcome is looked at.
const CALLS_MAX: i64 = 1_000;
const SAMPLED_MAX: i64 = 200;
const COUNT: &str = "SELECT COUNT(*) AS calls FROM \
    (SELECT 1 AS one FROM calls WHERE agent_id = $1 AND agent_version = $2 LIMIT $3) AS counted";
const OUTCOMES: &str = "SELECT COUNT(*) AS calls, COUNT(answered_at) AS answered, \
    COUNT(CASE WHEN EXISTS (SELECT 1 FROM invocations i WHERE i.call_id = sampled.id AND i.fault IS NOT NULL) THEN 1 END) AS failing \
    FROM (SELECT id, answered_at FROM calls WHERE agent_id = $1 AND agent_version = $2 LIMIT $3) AS sampled";
/// Characters of a changed line.
const LINE_CHARS_MAX: usize = 200;
/// Changed lines of a text.
const LINES_MAX: usize = 12;
/// Parts of a version that are no settings.
const OTHER: [&str; 4] = ["agentId", "agentVersion", "createdAt", "functions"];
const VERSION: &Fields = &[("version", Shape::Number)];

/// A version with its settings as JSON.
struct Shown {
    number: i64,
    at: Millis,
    settings: Map<String, Value>,
}

/// The newest versions, and one more to compare the last of them with.
async fn newest(visit: &SignedIn, agent: AgentId) -> Result<Vec<Shown>, ApiError> {
    let versions = agents::versions_of(&visit.operation(), agent).await?;
    let rows = versions
        .order_by_desc(kept_version::Column::Version)
        .limit(u64::try_from(SHOWN).unwrap_or(u64::MAX) + 1)
        .all(visit.store().api_reader())
        .await?;
    let shown = rows.into_iter().map(|row| {
        let (number, at) = (row.version, row.created_at);
        let settings = match json!(AgentVersion::from(row)) {
            Value::Object(settings) => settings,
            _ => Map::new(),
        };
        Shown {
            number,
            at,
            settings,
        }
    });
    Ok(shown.collect())
}

/// The figures of a version.
#[derive(Clone, Copy, Debug, Default)]
struct VersionFigures {
    /// Up to [`CALLS_MAX`].
    calls: i64,
    sample: Outcomes,
}

/// The outcomes of some calls, up to [`SAMPLED_MAX`].
#[derive(Clone, Copy, Debug, Default, FromQueryResult)]
struct Outcomes {
    calls: i64,
    answered: i64,
    /// Those in which a function failed.
    failing: i64,
}

/// The figures of each version.
async fn figures(
    visit: &SignedIn,
    agent: AgentId,
    versions: &[Shown],
) -> Result<BTreeMap<i64, VersionFigures>, DbErr> {
    let db = visit.store().api_reader();
    let mut all = BTreeMap::new();
    for version in versions.iter().take(SHOWN) {
        let statement = |sql: &str, most: i64| {
            let values = [agent.into(), version.number.into(), most.into()];
            Statement::from_sql_and_values(db.get_database_backend(), sql, values)
        };
        let row = db.query_one_raw(statement(COUNT, CALLS_MAX)).await?;
        let calls = row.map_or(Ok(0), |row| row.try_get("", "calls"))?;
        let sample = Outcomes::find_by_statement(statement(OUTCOMES, SAMPLED_MAX));
        let sample = sample.one(db).await?.unwrap_or_default();
        all.insert(version.number, VersionFigures { calls, sample });
    }
    Ok(all)
}

/// The author of each version, by its time.
async fn authors(
    visit: &SignedIn,
    agent: AgentId,
    versions: &[Shown],
) -> Result<BTreeMap<Millis, String>, ApiError> {
    let target = agent.to_string();
    let of_tenant = AuditQuery {
        tenant: Some(visit.tenant()),
        ..AuditQuery::default()
    };
    let entries = of_tenant
        .select()
        .filter(audit_entry::Column::At.is_in(versions.iter().map(|version| version.at)))
        .limit(200)
        .all(visit.store().api_reader())
        .await?;
    let names = audit::names(visit, entries.iter().map(|entry| entry.actor)).await?;
    let of_agent = |entry: &&audit_entry::Model| {
        entry.target == target || entry.action.to_string().starts_with("function.")
    };
    let authors = entries.iter().filter(of_agent).map(|entry| {
        let name = names.get(&entry.actor).cloned();
        (entry.at, name.unwrap_or_else(|| visit.t("audit-former")))
    });
    Ok(authors.collect())
}

/// `GET /dashboard/agents/{id}/history`
pub async fn show(visit: SignedIn, id: Id<AgentId>) -> Result<HttpResponse, ApiError> {
    let agent = find(&visit, id).await?;
    let title = visit.tn("history-title", &[("name", agent.name.as_str().into())]);
    let content = content(&visit, &agent).await?;
    Ok(layout::page(&visit, &title, content))
}

async fn content(visit: &SignedIn, agent: &agent::Model) -> Result<Markup, ApiError> {
    let versions = newest(visit, agent.id).await?;
    let (figures, authors) = (
        figures(visit, agent.id, &versions).await?,
        authors(visit, agent.id, &versions).await?,
    );
    let present = versions.first().map(|version| version.number);
    Ok(html! {
        p { (visit.t("history-words")) }
        ol.versions {
            @for (place, version) in versions.iter().enumerate().take(SHOWN) {
                li {
                    h2 { (visit.tn("history-version", &[("number", version.number.into())])) }
                    p.muted {
                        (visit.time(version.at))
                        @if let Some(author) = authors.get(&version.at) { " · " (author) }
                        " · " (counted(visit, figures.get(&version.number).copied().unwrap_or_default()))
                    }
                    (changes(visit, versions.get(place + 1), version))
                    @if Some(version.number) == present {
                        p { (visit.t("history-present")) }
                    } @else if visit.is_owner() {
                        (post(visit, &format!("{}/restore", path_of(agent.id)), html! {
                            input type="hidden" name="version" value=(version.number);
                            button.secondary type="submit" {
                                (visit.tn("history-restore", &[("number", version.number.into())]))
                            }
                        }))
                    }
                }
            }
        }
        p.way { a href=(path_of(agent.id)) { (visit.t("history-back")) } }
    })
}

/// The calls of a version, and how they went.
fn counted(visit: &SignedIn, VersionFigures { calls, sample }: VersionFigures) -> String {
    let id = match calls {
        CALLS_MAX.. => "history-many-calls",
        _ => "history-calls",
    };
    let calls = visit.tn(id, &[("count", calls.into())]);
    if sample.calls == 0 {
        return calls;
    }
    let id = match sample.calls {
        SAMPLED_MAX.. => "history-outcomes-of-some",
        _ => "history-outcomes",
    };
    let share = sample.answered * 100 / sample.calls;
    let values = [
        ("calls", sample.calls.into()),
        ("share", share.into()),
        ("failing", sample.failing.into()),
    ];
    format!("{calls} · {}", visit.tn(id, &values))
}

/// The differences to the version before.
fn changes(visit: &SignedIn, before: Option<&Shown>, version: &Shown) -> Markup {
    let Some(before) = before else {
        return html! { p { (visit.t("history-oldest")) } };
    };
    let none = Value::Null;
    let changed = version.settings.iter().filter(|(name, value)| {
        !["agentVersion", "createdAt"].contains(&name.as_str())
            && before.settings.get(*name) != Some(value)
    });
    html! {
        dl {
            @for (name, value) in changed {
                @let was = before.settings.get(name).unwrap_or(&none);
                dt { (label(visit, name)) }
                dd.difference {
                    @for (is_new, line) in difference(&text(was), &text(value)) {
                        @if is_new { ins { (line) } } @else { del { (line) } }
                    }
                }
            }
        }
    }
}

fn label(visit: &SignedIn, name: &str) -> String {
    let fields = agents::in_form();
    let field = fields.iter().find(|field| field.name == name);
    match (name, field) {
        (_, Some(field)) => visit.t(field.label),
        ("functions", _) => visit.t("functions-title"),
        ("conversation", _) => visit.t("history-conversation"),
        _ => name.to_owned(),
    }
}

/// A value as lines of text.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(text).collect::<Vec<_>>().join("\n"),
        Value::Object(fields) if fields.contains_key("endpoint") => {
            let of = |name: &str| fields.get(name).map(text).unwrap_or_default();
            let (name, parameters) = (of("name"), &fields["parameters"]);
            let (method, endpoint) = (of("method"), of("endpoint"));
            let description = of("description").replace('\n', " ");
            format!("{name}: {method} {endpoint}\n{name}: {description}\n{name}: {parameters}")
        }
        Value::Object(fields) => {
            let lines = fields
                .iter()
                .map(|(name, value)| format!("{name}: {value}"));
            lines.collect::<Vec<_>>().join("\n")
        }
        other => other.to_string(),
    }
}

/// Lines that are gone, and lines that are new (true).
fn difference(before: &str, after: &str) -> Vec<(bool, String)> {
    let without = |of: &str, other: &str, is_new: bool| {
        let known: HashSet<&str> = other.lines().collect();
        let lines = of
            .lines()
            .filter(|line| !line.trim().is_empty() && !known.contains(line));
        let lines = lines.map(|line| (is_new, cut(line, LINE_CHARS_MAX).into_owned()));
        lines.take(LINES_MAX).collect::<Vec<_>>()
    };
    let mut lines = without(before, after, false);
    lines.extend(without(after, before, true));
    lines
}

/// `POST /dashboard/agents/{id}/restore`: the agent gets the settings of an earlier version, as a new version.
pub async fn restore(
    visit: SignedIn,
    id: Id<AgentId>,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let agent = find(&visit, id).await?;
    let asked = form::body(&typed, VERSION)?.form()?;
    let number = asked.read(&[], |form| {
        form.required("version", None, integer(1, i64::MAX))
    })?;
    let versions = agents::versions_of(&visit.operation(), agent.id).await?;
    let version = versions.filter(kept_version::Column::Version.eq(number));
    let Some(version) = version.one(visit.store().api_reader()).await? else {
        return Ok(visit.see(&format!("{}/history", path_of(agent.id)), "history-gone"));
    };
    let own = functions::of_agent(&visit, &agent).await?;
    let Value::Object(mut settings) = json!(AgentVersion::from(version)) else {
        return Err(ApiError::Internal);
    };
    settings.retain(|name, _| !OTHER.contains(&name.as_str()));
    // Functions are not restored; those that are gone cannot be enabled.
    if let Some(Value::Array(tools)) = settings.get_mut("toolsEnabled") {
        tools.retain(|tool| {
            let name = tool.as_str().unwrap_or_default();
            BUILT_IN_TOOLS.contains(&name) || own.iter().any(|function| function.name == name)
        });
    }
    let body = RequestBody::of(Value::Object(settings));
    match agents::update(visit.operation(), id, body).await {
        Ok(_) => Ok(visit.see(&path_of(agent.id), "done-restored")),
        Err(error @ (ApiError::Validation(_) | ApiError::TooManyVersions(_))) => {
            let page = content(&visit, &agent).await?;
            let content = html! { (refused(&visit, &error)) (page) };
            Ok(errors::again(&visit, &agent.name, content, &error))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_lines_that_are_gone_and_new() {
        let before = "You answer.\n\nOpen 9 to 17.\nBe short.";
        let after = "You answer.\nOpen 9 to 21.\n\nBe short.\nSay goodbye.";
        let expected = [
            (false, "Open 9 to 17."),
            (true, "Open 9 to 21."),
            (true, "Say goodbye."),
        ];
        let found = difference(before, after);
        let found: Vec<(bool, &str)> = found.iter().map(|(new, line)| (*new, &**line)).collect();
        assert_eq!(found, expected);
        assert_eq!(difference("a", "a"), []);
        let many = (0..100)
            .map(|n| n.to_string())
            .collect::<Vec<_>>()
            .join("\n");
        assert_eq!(difference("", &many).len(), LINES_MAX);
    }

    /// A search through all lines for each would take minutes.
    #[test]
    fn a_difference_of_very_many_lines_is_found_at_once() {
        let lines: Vec<String> = (0..300_000).map(|n| n.to_string()).collect();
        let reversed: Vec<&str> = lines.iter().rev().map(|line| &**line).collect();
        assert_eq!(difference(&lines.join("\n"), &reversed.join("\n")), []);
    }

    #[test]
    fn settings_become_lines() {
        let function = json!([{
            "name": "check", "method": "POST", "endpoint": "https://a.b/c",
            "description": "Finds\nan order.", "parameters": {"type": "object"},
        }]);
        let expected =
            "check: POST https://a.b/c\ncheck: Finds an order.\ncheck: {\"type\":\"object\"}";
        assert_eq!(text(&function), expected);
        assert_eq!(text(&json!({"fillers": "words"})), "fillers: \"words\"");
        assert_eq!(text(&json!(["a", "b"])), "a\nb");
        assert_eq!(
            (text(&json!(10)), text(&Value::Null)),
            ("10".to_owned(), String::new())
        );
    }
}
