//! Widgets: the buttons of websites, and the line that puts one on a page.

use actix_web::HttpResponse;
use dikala_entities::{WidgetId, widget};
use maud::{Markup, html};
use serde_json::{Map, Value};
use url::Url;

use super::{
    agent_choice::{self, AgentChoices, newest, options},
    agents,
    components::{Field, Question, copyable, empty, post, shown, submit, table},
    form::{self, Fields, FormState, FormValues, Shape},
    layout, members,
    names::choice,
    view::SignedIn,
};
use crate::{
    http::{
        error::ApiError,
        extract::{Id, RequestBody},
    },
    operations::widgets::{self, TEXTS, WIDGETS_MAX},
};

const PATH: &str = "/dashboard/widgets";
const PATH_OF_NEW: &str = "/dashboard/widgets/new";
/// Newest agents that are offered.
const AGENTS_OFFERED: u64 = 100;
const FIELDS: &Fields = &[
    ("name", Shape::Text),
    ("agentId", Shape::Text),
    ("callsPerVisitorPerHour", Shape::Number),
    ("maxConcurrent", Shape::Number),
    ("color", Shape::Optional),
];
/// Fields of the texts, with the ids of their labels.
const WORDS: [(&str, &str); TEXTS.len()] = [
    ("texts.start", "widgets-text-start"),
    ("texts.notice", "widgets-text-notice"),
    ("texts.connecting", "widgets-text-connecting"),
    ("texts.ready", "widgets-text-ready"),
    ("texts.end", "widgets-text-end"),
    ("texts.ended", "widgets-text-ended"),
    ("texts.lost", "widgets-text-lost"),
    ("texts.refused", "widgets-text-refused"),
    ("texts.missing", "widgets-text-missing"),
    ("texts.press", "widgets-text-press"),
    ("texts.limit", "widgets-text-limit"),
    ("texts.unavailable", "widgets-text-unavailable"),
    ("texts.caller", "widgets-text-caller"),
    ("texts.agent", "widgets-text-agent"),
    ("texts.title", "widgets-text-title"),
    ("texts.level", "widgets-text-level"),
    ("texts.log", "widgets-text-log"),
];

fn path_of(id: WidgetId) -> String {
    format!("{PATH}/{id}")
}

/// `GET /dashboard/widgets`
pub async fn list(visit: SignedIn) -> Result<HttpResponse, ApiError> {
    let all = widgets::all(&visit.operation()).await?;
    let agents = agent_choice::of(&visit, all.iter().map(|widget| widget.agent_id)).await?;
    let content = html! {
        p.lead { (visit.t("widgets-words")) }
        @if all.is_empty() {
            (empty(&visit.t("widgets-none"), &visit.t("widgets-none-words"), new_button(&visit)))
        } @else {
            (widget_table(&visit, &all, &agents))
            div.actions {
                @if all.len() < WIDGETS_MAX { (new_button(&visit)) }
                @else { p.muted { (visit.tn("widgets-too-many", &[("most", WIDGETS_MAX.into())])) } }
            }
        }
    };
    Ok(layout::page(&visit, &visit.t("widgets-title"), content))
}

fn new_button(visit: &SignedIn) -> Markup {
    html! {
        @if visit.is_owner() { a.button href=(PATH_OF_NEW) { (visit.t("widgets-new")) } }
    }
}

fn widget_table(visit: &SignedIn, all: &[widget::Model], agents: &AgentChoices) -> Markup {
    let columns = ["widgets-name", "widgets-agent", "widgets-origins"].map(|id| visit.t(id));
    let row = |widget: &widget::Model| {
        vec![
            html! { a href=(path_of(widget.id)) { (choice(&widget.name)) } },
            html! {
                @if let Some(agent) = agents.get(&widget.agent_id) {
                    a href=(agents::path_of(widget.agent_id)) { (choice(&agent.name)) }
                }
            },
            html! { @for origin in widget.origins() { (origin) br; } },
        ]
    };
    table(
        visit,
        &visit.t("widgets-title"),
        &columns,
        all.iter().map(row).collect(),
    )
}

/// The fields of a widget's form: the settings, and the texts.
async fn form_fields(
    visit: &SignedIn,
    present: Option<&widget::Model>,
) -> Result<(Vec<Field>, Vec<Field>), ApiError> {
    let mut agents = newest(visit, AGENTS_OFFERED).await?;
    // The current agent may be older than the offered ones.
    agents.extend(agent_choice::of(visit, present.map(|widget| widget.agent_id)).await?);
    let settings = vec![
        Field::text("name", visit.t("widgets-name")).hint(visit.t("widgets-name-hint")),
        Field::select("agentId", visit.t("widgets-agent"), options(visit, &agents)),
        Field::area("origins", visit.t("widgets-origins"), 3).hint(visit.t("widgets-origins-hint")),
        Field::number("callsPerVisitorPerHour", visit.t("widgets-per-visitor"))
            .hint(visit.t("widgets-per-visitor-hint")),
        Field::number("maxConcurrent", visit.t("widgets-concurrent")),
        Field::text("color", visit.t("widgets-color"))
            .hint(visit.t("widgets-color-hint"))
            .optional(),
    ];
    let texts = WORDS
        .iter()
        .map(|(name, label)| Field::text(name, visit.t(label)).optional());
    Ok((settings, texts.collect()))
}

fn show_form(
    visit: &SignedIn,
    path: &str,
    filled: &FormState,
    (settings, texts): &(Vec<Field>, Vec<Field>),
    label: &str,
) -> Markup {
    let all: Vec<Field> = settings.iter().chain(texts).cloned().collect();
    let is_open = texts.iter().any(|field| field.is_set(filled));
    post(
        visit,
        path,
        html! {
            (super::components::summary(visit, filled, &all))
            @for field in settings { (field.show(visit, filled)) }
            details open[is_open] {
                summary { (visit.t("widgets-texts")) }
                p.muted { (visit.t("widgets-texts-words")) }
                @for field in texts { (field.show(visit, filled)) }
            }
            (submit(&visit.t(label)))
        },
    )
}

/// The values of a widget's form.
fn setting(widget: &widget::Model) -> Vec<(&'static str, String)> {
    let mut texts = widget.texts();
    let texts = WORDS.iter().filter_map(move |(field, _)| {
        let text = texts.remove(field.strip_prefix("texts.")?)?;
        Some((*field, text))
    });
    let fields = [
        ("name", widget.name.clone()),
        ("agentId", widget.agent_id.to_string()),
        ("origins", widget.origins().join("\n")),
        (
            "callsPerVisitorPerHour",
            widget.calls_per_visitor.to_string(),
        ),
        ("maxConcurrent", widget.max_concurrent.to_string()),
        ("color", widget.color.clone().unwrap_or_default()),
    ];
    fields.into_iter().chain(texts).collect()
}

/// The form's values as the API expects them: an origin a line, and no empty texts.
fn typed_fields(typed: &FormValues) -> Result<RequestBody, ApiError> {
    let mut body = form::object(typed, FIELDS)?;
    let origins = typed.raw("origins").flat_map(str::lines).map(str::trim);
    let origins = origins.filter(|line| !line.is_empty());
    let origins = origins.map(|line| Value::from(origin(line))).collect();
    body.insert("origins".to_owned(), origins);
    let texts = WORDS.iter().filter_map(|(field, _)| {
        let text = typed.raw(field).next().unwrap_or_default().trim();
        let name = field.strip_prefix("texts.")?;
        (!text.is_empty()).then(|| (name.to_owned(), Value::from(text)))
    });
    let texts: Map<String, Value> = texts.collect();
    body.insert("texts".to_owned(), texts.into());
    Ok(RequestBody::of(Value::Object(body)))
}

/// The origin of an address as people write it: without `https://`, or with a page's path. Other text is passed on as typed, and the
/// operation refuses it.
fn origin(line: &str) -> String {
    let scheme = match line.starts_with("localhost") {
        true => "http",
        false => "https",
    };
    let address = match line.contains("://") {
        true => line.to_owned(),
        false => format!("{scheme}://{line}"),
    };
    match Url::parse(&address).map(|url| url.origin()) {
        Ok(origin) if origin.is_tuple() => origin.ascii_serialization(),
        _ => line.to_owned(),
    }
}

/// `GET /dashboard/widgets/new`
pub async fn ask_new(visit: SignedIn, asked: FormValues) -> Result<HttpResponse, ApiError> {
    let agent = asked.text("agentId").unwrap_or_default();
    let filled = FormState::with([
        ("agentId", agent),
        ("callsPerVisitorPerHour", "5"),
        ("maxConcurrent", "5"),
    ]);
    let content = new_form(&visit, &filled).await?;
    Ok(layout::page(&visit, &visit.t("widgets-new"), content))
}

async fn new_form(visit: &SignedIn, filled: &FormState) -> Result<Markup, ApiError> {
    if newest(visit, 1).await?.is_empty() {
        let link = html! {
            @if visit.is_owner() { a.button href=(agents::NEW_PATH) { (visit.t("agents-make")) } }
        };
        let words = visit.t("widgets-no-agent-words");
        return Ok(empty(&visit.t("widgets-no-agent"), &words, link));
    }
    let fields = form_fields(visit, None).await?;
    Ok(html! {
        p.lead { (visit.t("widgets-new-words")) }
        (show_form(visit, PATH_OF_NEW, filled, &fields, "widgets-create"))
    })
}

/// `POST /dashboard/widgets/new`
pub async fn create(visit: SignedIn, typed: FormValues) -> Result<HttpResponse, ApiError> {
    let created = match typed_fields(&typed) {
        Ok(body) => widgets::create(visit.operation(), body).await,
        Err(error) => Err(error),
    };
    match created {
        Ok(made) => Ok(visit.see(&path_of(made.value.id), "done-widget-created")),
        Err(error) => {
            let content = new_form(&visit, &FormState::again(typed, error)?).await?;
            Ok(layout::refused(&visit, &visit.t("widgets-new"), content))
        }
    }
}

/// `GET /dashboard/widgets/{id}`
pub async fn show(visit: SignedIn, id: Id<WidgetId>) -> Result<HttpResponse, ApiError> {
    let widget = widgets::find(&visit.operation(), id.0).await?;
    let filled = FormState::with(setting(&widget));
    let content = content(&visit, &widget, &filled).await?;
    Ok(layout::page(&visit, &choice(&widget.name), content))
}

async fn content(
    visit: &SignedIn,
    widget: &widget::Model,
    filled: &FormState,
) -> Result<Markup, ApiError> {
    let path = path_of(widget.id);
    let fields = form_fields(visit, Some(widget)).await?;
    let line = format!(
        "<script src=\"{}/widget.js\" data-key=\"{}\" async></script>",
        visit.base(),
        widget.key
    );
    Ok(html! {
        section aria-labelledby="line" {
            h2 #line { (visit.t("widgets-line")) }
            p { (visit.t("widgets-line-words")) }
            (copyable(visit, "snippet", &visit.t("widgets-line"), &line))
            p.muted { (visit.t("widgets-line-more")) }
        }
        section aria-labelledby="settings" {
            h2 #settings { (visit.t("widgets-settings")) }
            @if visit.is_owner() {
                (show_form(visit, &path, filled, &fields, "page-save"))
                div.actions { a.button.danger href={ (path) "/delete" } { (visit.t("widgets-delete")) } }
            } @else {
                (members::who_may_change(visit).await?)
                (shown(visit, filled, &fields.0))
                (shown(visit, filled, &fields.1))
            }
        }
    })
}

/// `POST /dashboard/widgets/{id}`
pub async fn update(
    visit: SignedIn,
    id: Id<WidgetId>,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let changed = match typed_fields(&typed) {
        Ok(body) => widgets::update(visit.operation(), id, body).await,
        Err(error) => Err(error),
    };
    let Err(error) = changed else {
        return Ok(visit.see(&path_of(id.0), "done-saved"));
    };
    let filled = FormState::again(typed, error)?;
    let widget = widgets::find(&visit.operation(), id.0).await?;
    let content = content(&visit, &widget, &filled).await?;
    Ok(layout::refused(&visit, &choice(&widget.name), content))
}

/// `GET /dashboard/widgets/{id}/delete`
pub async fn ask_delete(visit: SignedIn, id: Id<WidgetId>) -> Result<HttpResponse, ApiError> {
    let widget = widgets::find(&visit.operation(), id.0).await?;
    let question = Question {
        path: &format!("{}/delete", path_of(widget.id)),
        consequences: html! {
            p { strong { (choice(&widget.name)) } }
            p { (visit.t("widgets-delete-words")) }
            ul { @for origin in widget.origins() { li { (origin) } } }
        },
        yes: visit.t("widgets-delete"),
        back: &path_of(widget.id),
    };
    let title = visit.t("widgets-delete-title");
    Ok(layout::page(&visit, &title, question.show(&visit)))
}

/// `POST /dashboard/widgets/{id}/delete`
pub async fn delete(visit: SignedIn, id: Id<WidgetId>) -> Result<HttpResponse, ApiError> {
    widgets::delete(visit.operation(), id).await?;
    Ok(visit.see(PATH, "done-widget-deleted"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_as_people_write_them() {
        for (typed, taken) in [
            ("kopisenja.example", "https://kopisenja.example"),
            (
                "www.kopisenja.example/menu",
                "https://www.kopisenja.example",
            ),
            (
                "https://kopisenja.example/menu?a=1",
                "https://kopisenja.example",
            ),
            ("localhost:3000", "http://localhost:3000"),
            ("http://kopisenja.example", "http://kopisenja.example"),
            ("our shop", "our shop"),
            ("javascript://x", "javascript://x"),
        ] {
            assert_eq!(origin(typed), taken, "{typed}");
        }
    }
}
