//! Line charts as server-rendered SVG that fill the available width. They show nothing that is not also written
//! beside them. Pure.

use maud::{Markup, html};

/// The SVG's coordinate size; it is scaled to the available width.
const WIDTH: i64 = 300;
const HEIGHT: i64 = 40;
/// Space above and below, so that a line at the edge is not clipped.
const EDGE: i64 = 2;

/// A line through the figures, oldest first, with gaps for missing ones. `limit` is drawn if it is close to the
/// figures, and a vertical line at each place of `marks`.
pub fn line(figures: &[Option<i64>], limit: Option<i64>, marks: &[usize]) -> Markup {
    let highest = figures.iter().flatten().copied().max().unwrap_or(0).max(1);
    // A distant limit would flatten the line.
    let limit = limit.filter(|limit| *limit > 0 && *limit <= highest.saturating_mul(2));
    let top = limit.map_or(highest, |limit| limit.max(highest));
    html! {
        svg.line viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" width="100%" height=(HEIGHT) aria-hidden="true" focusable="false" {
            path.ground d={ "M0 " (HEIGHT - EDGE) "H" (WIDTH) } {}
            @if let Some(limit) = limit {
                path.guide d={ "M0 " (height(limit, top)) "H" (WIDTH) } {}
            }
            @for mark in marks {
                path.mark d={ "M" (place(*mark, figures.len())) " 0V" (HEIGHT) } {}
            }
            path.figure d=(path(figures, top)) {}
        }
    }
}

/// Each run of figures is a separate subpath; a single figure is a short stroke.
fn path(figures: &[Option<i64>], top: i64) -> String {
    let mut path = String::new();
    let mut drawing = false;
    for (n, figure) in figures.iter().enumerate() {
        let Some(figure) = figure else {
            drawing = false;
            continue;
        };
        let (x, y) = (place(n, figures.len()), height(*figure, top));
        let is_alone = !drawing && figures.get(n + 1).is_none_or(Option::is_none);
        path += &match (drawing, is_alone) {
            (true, _) => format!("L{x} {y}"),
            (false, true) => format!("M{} {y}h2", (x - 1).max(0)),
            (false, false) => format!("M{x} {y}"),
        };
        drawing = true;
    }
    path
}

fn place(n: usize, count: usize) -> i64 {
    let (n, last) = (whole(n), whole(count.saturating_sub(1)).max(1));
    WIDTH.saturating_mul(n) / last
}

fn height(figure: i64, top: i64) -> i64 {
    let room = i128::from(HEIGHT - 2 * EDGE);
    let up = i128::from(figure.max(0)) * room / i128::from(top.max(1));
    HEIGHT - EDGE - i64::try_from(up).unwrap_or(0)
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_gap_is_a_gap() {
        let figures = [Some(0), Some(5), None, Some(10), None];
        assert_eq!(path(&figures, 10), "M0 38L75 20M224 2h2");
        assert_eq!(path(&[None, None], 10), "");
    }

    #[test]
    fn a_limit_is_drawn_where_it_is_near() {
        let drawn = |figure, limit| {
            let svg = line(&[Some(figure)], limit, &[]).into_string();
            svg.contains("guide")
        };
        assert!(drawn(80, Some(100)) && drawn(200, Some(100)));
        assert!(!drawn(1, Some(100)) && !drawn(80, None));
    }

    #[test]
    fn a_mark_stands_at_its_place() {
        let svg = line(&[Some(1), Some(1), Some(1)], None, &[1]).into_string();
        assert!(svg.contains("class=\"mark\" d=\"M150 0V40\""), "{svg}");
    }

    proptest! {
        #[test]
        fn the_line_stays_in_the_picture(
            figures in prop::collection::vec(prop::option::of(any::<i64>()), 0..70),
            limit in prop::option::of(any::<i64>()),
        ) {
            let svg = line(&figures, limit, &[]).into_string();
            prop_assert!(svg.ends_with("</svg>"));
            let top = figures.iter().flatten().copied().max().unwrap_or(0).max(1);
            for (n, figure) in figures.iter().enumerate() {
                prop_assert!((0..=WIDTH).contains(&place(n, figures.len())));
                prop_assert!((0..=HEIGHT).contains(&height(figure.unwrap_or(0), top)));
            }
        }
    }
}
