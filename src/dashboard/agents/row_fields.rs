//! The inputs of a function's parameters, one row each.

use maud::{Markup, html};

use super::{
    super::{
        components::{self, Field},
        faults,
        form::FormState,
        view::DashboardView,
    },
    parameter_rows::{ParameterKind, ParameterRow, ROWS_MAX, field_name},
};

/// The name of the buttons that change the form without saving it.
pub const ACT_FIELD: &str = "act";
/// Values of the buttons that change the form without saving it.
pub const ADD: &str = "add";
pub const AS_JSON: &str = "json";
pub const AS_ROWS: &str = "list";
/// Followed by the row's place.
pub const REMOVE: &str = "remove-";

/// The row's fields with these labels: name, kind, ask, choices and required.
fn row(view: &DashboardView, at: usize, label: impl Fn(&str) -> String) -> [Field; 5] {
    let kinds = ParameterKind::ALL.into_iter();
    let kinds = kinds.map(|kind| (kind.word().to_owned(), view.t(kind.label())));
    [
        Field::text("name", label("parameter-name"))
            .filter()
            .named(field_name(at, "name")),
        Field::select("kind", label("parameter-kind"), kinds.collect())
            .named(field_name(at, "kind")),
        Field::text("ask", label("parameter-ask"))
            .filter()
            .named(field_name(at, "ask")),
        Field::text("choices", label("parameter-choices"))
            .filter()
            .named(field_name(at, "choices")),
        Field::switch("required", label("parameter-required")).named(field_name(at, "required")),
    ]
}

fn name_of(view: &DashboardView, at: usize) -> String {
    let number = i64::try_from(at + 1).unwrap_or(i64::MAX);
    view.tn("parameter-row", &[("number", number.into())])
}

/// The fields of all rows, named by their row, for the list of errors.
pub fn labelled(view: &DashboardView, count: usize) -> Vec<Field> {
    let fields = |at: usize| {
        let of = name_of(view, at);
        row(view, at, |id| format!("{of}: {}", view.t(id)))
    };
    (0..count).flat_map(fields).collect()
}

/// The rows, with buttons to add and remove some. `path` is the form's own.
pub fn show(view: &DashboardView, filled: &FormState, count: usize, path: &str) -> Markup {
    let own = filled.errors_of("parameters").collect::<Vec<_>>();
    html! {
        fieldset.parameters #f-parameters tabindex="-1" {
            legend { (view.t("functions-parameters")) }
            p.hint { (view.t("parameter-words")) }
            @if !own.is_empty() {
                div.field { div.error { @for error in own { p { (faults::told(view, error)) } } } }
            }
            input type="hidden" name="parameters" value="";
            @for at in 0..count { (one(view, filled, at, path)) }
            div.row {
                @if count < ROWS_MAX {
                    button.secondary type="submit" name=(ACT_FIELD) value=(ADD) formaction={ (path) "#row" (count) } { (view.t("parameter-add")) }
                } @else { p.hint { (view.t("parameter-most")) } }
                button.secondary type="submit" name=(ACT_FIELD) value=(AS_JSON) formaction={ (path) "#f-parameters" } { (view.t("parameter-as-json")) }
            }
        }
    }
}

fn one(view: &DashboardView, filled: &FormState, at: usize, path: &str) -> Markup {
    let [name, kind, ask, choices, required] = row(view, at, |id| view.t(id));
    let number = i64::try_from(at + 1).unwrap_or(i64::MAX);
    html! {
        fieldset.parameter id={ "row" (at) } {
            legend.unseen { (name_of(view, at)) }
            (name.show(view, filled))
            (kind.show(view, filled))
            (ask.show(view, filled))
            div.choices { (choices.show(view, filled)) }
            (required.show(view, filled))
            button.quiet type="submit" name=(ACT_FIELD) value={ (REMOVE) (at) } formaction={ (path) "#f-parameters" }
                aria-label=(view.tn("parameter-remove-row", &[("number", number.into())])) { (view.t("parameter-remove")) }
        }
    }
}

/// The rows as a table, for members who may look at them only.
pub fn table(view: &DashboardView, rows: &[ParameterRow]) -> Markup {
    let columns = [
        "parameter-name",
        "parameter-kind",
        "parameter-ask",
        "parameter-required",
    ];
    let columns = columns.map(|id| view.t(id));
    let row = |row: &ParameterRow| {
        let needed = if row.is_required {
            "page-yes"
        } else {
            "page-no"
        };
        vec![
            html! { code { (row.name) } },
            html! { (view.t(row.kind.label())) @if !row.choices.is_empty() { ": " (row.choices.join(", ")) } },
            html! { (row.ask) },
            html! { (view.t(needed)) },
        ]
    };
    let rows = rows.iter().map(row).collect();
    components::table(view, &view.t("functions-parameters"), &columns, rows)
}
