//! Tables, and ids in tables.

use maud::{Markup, html};

use super::view::View;

/// Words of more characters are broken if the table would be too wide otherwise.
const WORD_CHARS_MAX: usize = 20;

/// A table. On narrow screens each row becomes a list of cells with their column names. A column without a name
/// holds the actions.
pub fn table(view: &View, caption: &str, columns: &[String], rows: Vec<Vec<Markup>>) -> Markup {
    let figures = figure_columns(columns.len(), &rows);
    html! {
        table role="table" {
            caption.unseen { (caption) }
            thead role="rowgroup" {
                tr role="row" {
                    @for (column, is_figure) in columns.iter().zip(&figures) {
                        th.figure[*is_figure] role="columnheader" scope="col" {
                            @if column.is_empty() { span.unseen { (view.t("page-actions")) } } @else { (column) }
                        }
                    }
                }
            }
            tbody role="rowgroup" {
                @for row in rows {
                    tr role="row" {
                        @for ((column, is_figure), cell) in columns.iter().zip(&figures).zip(row) {
                            td.figure[*is_figure].long[has_long_word(&cell)] role="cell" data-column=(column) { (cell) }
                        }
                    }
                }
            }
        }
    }
}

/// Finds the columns with figures only, which are right-aligned and never wrapped.
fn figure_columns(columns: usize, rows: &[Vec<Markup>]) -> Vec<bool> {
    let figures = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let texts: Vec<String> = cells.map(text_of).collect();
        texts.iter().all(|text| is_figure(text))
            && texts
                .iter()
                .any(|text| text.contains(|sign: char| sign.is_ascii_digit()))
    };
    (0..columns).map(figures).collect()
}

/// The visible text of a cell.
fn text_of(cell: &Markup) -> String {
    texts_of(cell).collect()
}

/// The visible texts of a cell, between its tags.
fn texts_of(cell: &Markup) -> impl Iterator<Item = &str> {
    let pieces = cell.0.split('<').enumerate();
    pieces.map(|(nth, piece)| match (nth, piece.split_once('>')) {
        (0, _) => piece,
        (_, Some((_, text))) => text,
        (_, None) => "",
    })
}

/// True if a word of the cell may have to be broken.
fn has_long_word(cell: &Markup) -> bool {
    let is_long = |word: &str| word.chars().nth(WORD_CHARS_MAX).is_some();
    texts_of(cell).any(|text| text.split_whitespace().any(is_long))
}

/// True if a text is numbers with their units, or the sign for none.
fn is_figure(text: &str) -> bool {
    const UNITS: [&str; 11] = [
        "≤", "/", "–", "µs", "ms", "s", "min", "h", "B", "KiB", "MiB",
    ];
    let is_number = |word: &str| {
        let digits = word
            .trim_start_matches(['+', '-', '−'])
            .trim_end_matches('%');
        digits.starts_with(|sign: char| sign.is_ascii_digit())
            && digits
                .chars()
                .all(|sign| sign.is_ascii_digit() || ".,".contains(sign))
    };
    !text.is_empty()
        && text
            .split_whitespace()
            .all(|word| UNITS.contains(&word) || is_number(word))
}

/// The end of an id, which distinguishes it, with the whole id as a tooltip.
pub fn short_id(id: &str) -> Markup {
    const SHOWN: usize = 6;
    let end = id
        .char_indices()
        .rev()
        .nth(SHOWN - 1)
        .map_or(0, |(at, _)| at);
    html! {
        @if end == 0 { code.id { (id) } }
        @else { code.id title=(id) { "…" (&id[end..]) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_figures_are_known_by_what_stands_in_them() {
        for figure in ["7", "≤ 24 ms / ≤ 1.5 s", "1,234", "50%", "–", "-3 min"] {
            assert!(is_figure(figure), "{figure}");
        }
        for text in ["", "call.ended", "3 failed", "23 Nov 2026", "v2", "+62811…"] {
            assert!(!is_figure(text), "{text}");
        }
        let cell = |text: &str| html! { span { (text) } };
        let rows = [["1", "a", "–"], ["–", "2", "–"]];
        let rows: Vec<Vec<Markup>> = rows.map(|row| row.map(cell).into()).into();
        assert_eq!(figure_columns(3, &rows), [true, false, false]);
    }

    #[test]
    fn a_cell_with_a_long_word_is_known() {
        let address = format!("https://example.com/{}", "a".repeat(200));
        for (text, is_long) in [
            (&*address, true),
            ("find_available_appointments", true),
            ("function.called", false),
            ("several words that are long together", false),
        ] {
            let cell = html! { a href=(address) { (text) } br; code { "wh_1" } };
            assert_eq!(has_long_word(&cell), is_long, "{text}");
        }
    }

    #[test]
    fn an_id_is_told_by_its_end_and_whole_where_the_mouse_rests() {
        let shown = short_id("call_01k9zv3m8rj2q4w6y8a0c2e4g6").into_string();
        assert!(shown.contains(">…c2e4g6<"), "{shown}");
        assert!(
            shown.contains("title=\"call_01k9zv3m8rj2q4w6y8a0c2e4g6\""),
            "{shown}"
        );
        assert!(!short_id("core-0").into_string().contains('…'));
    }
}
