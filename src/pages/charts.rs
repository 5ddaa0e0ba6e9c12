//! Bar charts as server-rendered SVG, each with its figures in a table. Pure.
//!
//! Widths are percentages and heights pixels: a chart fills any width from 320 px on, and its text keeps its size.
//! Colours are classes of the style sheet.

use maud::{Markup, html};

use super::{format, lang::Lang};

/// Heights in pixels: of the chart, of the space above the bars, and of the highest bar.
const HEIGHT: u32 = 200;
const TOP: u32 = 18;
const PLOT: u32 = 154;
/// Maximum number of labels below the bars; more do not fit 320 px.
const LABELS_MAX: usize = 7;
/// Free space on each side of a bar, as a share of its slot in hundredths of a percent.
const GAP: u32 = 1_000;
/// The whole width in hundredths of a percent.
const WIDTH: u32 = 10_000;

/// The meaning of a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    Plain,
    Good,
    Warning,
    Bad,
}

impl Ink {
    const fn class(self) -> &'static str {
        match self {
            Self::Plain => "ink-plain",
            Self::Good => "ink-good",
            Self::Warning => "ink-warning",
            Self::Bad => "ink-bad",
        }
    }
}

#[derive(Clone, Debug)]
pub struct ChartSeries {
    pub name: String,
    pub ink: Ink,
}

impl ChartSeries {
    pub const fn new(name: String, ink: Ink) -> Self {
        Self { name, ink }
    }
}

/// The figures of one hour or day.
#[derive(Clone, Debug)]
pub struct Bar {
    /// The short label below the bar: `14`.
    pub label: String,
    /// The full name, for the table and the tooltip: `14:00`.
    pub name: String,
    /// A figure per series, from the bottom up. Negative figures are drawn as zero.
    pub values: Vec<i64>,
}

/// Bars over time, with one series or several stacked ones.
#[derive(Clone, Debug)]
pub struct Chart<'a> {
    /// Unique in the page; letters only.
    pub id: &'a str,
    /// The title: `Calls per hour`.
    pub title: String,
    /// The name of a bar's period: `Hour`.
    pub slot: String,
    pub series: Vec<ChartSeries>,
    pub bars: Vec<Bar>,
}

impl Chart<'_> {
    /// The chart with its table.
    pub fn show(&self, lang: Lang) -> Markup {
        let top = ceiling(self.bars.iter().map(total).max().unwrap_or_default());
        let (title, description) = (format!("{}-title", self.id), format!("{}-desc", self.id));
        html! {
            figure.chart {
                figcaption { (self.title) }
                svg role="img" width="100%" height=(HEIGHT) aria-labelledby={ (title) " " (description) } {
                    title id=(title) { (self.title) }
                    desc id=(description) { (self.description(lang)) }
                    (self.lines(lang, top))
                    @for (n, bar) in self.bars.iter().enumerate() { (self.bar(lang, top, n, bar)) }
                    (self.labels())
                }
                @if self.series.len() > 1 { (self.legend()) }
                details id={ (self.id) "-figures" } {
                    summary { (lang.t("chart-table")) }
                    (self.figures(lang))
                }
            }
        }
    }

    /// A description for screen readers.
    fn description(&self, lang: Lang) -> String {
        let all = self.bars.iter().map(total).fold(0, i64::saturating_add);
        // The first of several highest bars.
        let highest = self.bars.iter().rev().max_by_key(|bar| total(bar));
        match highest.filter(|_| all > 0) {
            None => lang.t("chart-nothing"),
            Some(highest) => lang.tn(
                "chart-words",
                &[
                    ("all", all.into()),
                    ("most", total(highest).into()),
                    ("when", highest.name.as_str().into()),
                ],
            ),
        }
    }

    /// The base line, and labelled lines at half and full height.
    fn lines(&self, lang: Lang, top: i64) -> Markup {
        let line = |value: i64| {
            let y = TOP + PLOT - height(value, top);
            html! {
                line x1="0" x2="100%" y1=(y) y2=(y) class=(if value == 0 { "ground" } else { "guide" }) {}
                @if value > 0 { text x="0" y=(y - 4) { (format::number(lang, value)) } }
            }
        };
        html! { (line(top)) (line(top / 2)) (line(0)) }
    }

    fn bar(&self, lang: Lang, top: i64, n: usize, bar: &Bar) -> Markup {
        let (begin, width) = self.place(n);
        html! {
            g {
                title { (bar.name) ": " (self.said(lang, bar)) }
                @for (ink, y, tall) in self.stacked(top, bar) {
                    rect class=(ink.class()) x=(percent(begin)) y=(y) width=(percent(width)) height=(tall) {}
                }
            }
        }
    }

    /// The parts of a bar from the bottom up: colour, upper edge and height in pixels.
    fn stacked(&self, top: i64, bar: &Bar) -> Vec<(Ink, u32, u32)> {
        let mut ground = TOP + PLOT;
        let mut parts = Vec::new();
        for (series, value) in self.series.iter().zip(&bar.values) {
            let tall = height(*value, top).min(ground);
            if tall > 0 {
                ground -= tall;
                parts.push((series.ink, ground, tall));
            }
        }
        parts
    }

    /// Start and width of a bar's slot, in hundredths of a percent.
    fn place(&self, n: usize) -> (u32, u32) {
        let edge = |n: usize| {
            let count = self.bars.len().max(1);
            let at = n.saturating_mul(WIDTH as usize) / count;
            u32::try_from(at).unwrap_or(WIDTH)
        };
        let (begin, end) = (edge(n), edge(n + 1));
        let gap = (end - begin) * GAP / WIDTH;
        (begin + gap, end - begin - 2 * gap)
    }

    /// The figures of a bar in words: `12`, or `12 answered, 3 failed`.
    fn said(&self, lang: Lang, bar: &Bar) -> String {
        let one = |(series, value): (&ChartSeries, &i64)| {
            let value = format::number(lang, *value);
            match self.series.len() {
                1 => value,
                _ => format!("{value} {}", series.name),
            }
        };
        let all: Vec<String> = self.series.iter().zip(&bar.values).map(one).collect();
        all.join(", ")
    }

    fn labels(&self) -> Markup {
        let step = self.bars.len().div_ceil(LABELS_MAX).max(1);
        html! {
            @for (n, bar) in self.bars.iter().enumerate().step_by(step) {
                @let (begin, width) = self.place(n);
                @if n == 0 {
                    text x=(percent(begin)) y=(HEIGHT - 6) { (bar.label) }
                } @else {
                    text.middle x=(percent(begin + width / 2)) y=(HEIGHT - 6) { (bar.label) }
                }
            }
        }
    }

    fn legend(&self) -> Markup {
        html! {
            ul.legend {
                @for series in &self.series {
                    li { span.swatch.(series.ink.class()) aria-hidden="true" {} (series.name) }
                }
            }
        }
    }

    fn figures(&self, lang: Lang) -> Markup {
        let names = self.series.iter().map(|series| series.name.as_str());
        let columns: Vec<&str> = std::iter::once(self.slot.as_str()).chain(names).collect();
        html! {
            table role="table" {
                caption.unseen { (self.title) }
                thead role="rowgroup" {
                    tr role="row" {
                        @for column in &columns { th role="columnheader" scope="col" { (column) } }
                    }
                }
                tbody role="rowgroup" {
                    @for bar in &self.bars {
                        tr role="row" {
                            td role="cell" { (bar.name) }
                            @for (column, value) in columns.iter().skip(1).zip(&bar.values) {
                                td role="cell" data-column=(column) { (format::number(lang, *value)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn total(bar: &Bar) -> i64 {
    let drawn = bar.values.iter().map(|value| (*value).max(0));
    drawn.fold(0, i64::saturating_add)
}

/// The value of the top line: a round even figure that is not below the highest bar, and not far above it.
fn ceiling(highest: i64) -> i64 {
    if highest <= 10 {
        return [2, 4, 6, 8]
            .into_iter()
            .find(|top| *top >= highest)
            .unwrap_or(10);
    }
    let mut unit = 1_i64;
    loop {
        let fits = [12, 16, 20, 24, 30, 40, 50, 60, 80, 100].map(|top| unit.saturating_mul(top));
        match fits.into_iter().find(|ceiling| *ceiling >= highest) {
            Some(ceiling) => return ceiling,
            None => unit = unit.saturating_mul(10),
        }
    }
}

/// The height of a value in pixels; a positive value gets at least one.
fn height(value: i64, top: i64) -> u32 {
    if value <= 0 {
        return 0;
    }
    let pixels = i128::from(value) * i128::from(PLOT) / i128::from(top.max(1));
    u32::try_from(pixels).unwrap_or(PLOT).clamp(1, PLOT)
}

fn percent(hundredths: u32) -> String {
    format!("{}.{:02}%", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn chart(values: Vec<Vec<i64>>) -> Chart<'static> {
        let bar = |(n, values): (usize, Vec<i64>)| Bar {
            label: format!("{n:02}"),
            name: format!("{n:02}:00"),
            values,
        };
        Chart {
            id: "calls",
            title: "Calls <per> hour".to_owned(),
            slot: "Hour".to_owned(),
            series: vec![
                ChartSeries::new("answered".to_owned(), Ink::Good),
                ChartSeries::new("failed".to_owned(), Ink::Bad),
            ],
            bars: values.into_iter().enumerate().map(bar).collect(),
        }
    }

    #[rstest]
    #[case(0, 2)]
    #[case(2, 2)]
    #[case(3, 4)]
    #[case(9, 10)]
    #[case(11, 12)]
    #[case(61, 80)]
    #[case(100, 100)]
    #[case(206, 240)]
    #[case(1_234, 1_600)]
    #[case(i64::MAX, i64::MAX)]
    fn the_topmost_line_is_a_round_figure(#[case] highest: i64, #[case] expected: i64) {
        assert_eq!(ceiling(highest), expected);
    }

    #[test]
    fn bars_stand_upon_each_other() {
        let svg = chart(vec![vec![5, 5], vec![0, 0]])
            .show(Lang::En)
            .into_string();
        let bars: Vec<&str> = svg
            .split("<rect ")
            .skip(1)
            .map(|bar| bar.split('>').next().unwrap_or_default())
            .collect();
        assert_eq!(
            bars,
            [
                r#"class="ink-good" x="5.00%" y="95" width="40.00%" height="77""#,
                r#"class="ink-bad" x="5.00%" y="18" width="40.00%" height="77""#
            ]
        );
        assert!(
            svg.contains("<title>00:00: 5 answered, 5 failed</title>"),
            "{svg}"
        );
        assert!(!svg.contains("style="), "the policy forbids it");
    }

    #[test]
    fn the_table_has_every_figure_as_the_language_writes_it() {
        let table = chart(vec![vec![1_234, 0], vec![7, 1]])
            .show(Lang::Id)
            .into_string();
        for expected in ["1.234</td>", "Calls &lt;per&gt; hour", ">01:00</td>"] {
            assert!(table.contains(expected), "{expected} in {table}");
        }
        assert_eq!(table.matches("role=\"row\"").count(), 3);
    }

    #[test]
    fn who_does_not_see_it_is_told_the_highest() {
        let words = chart(vec![vec![1, 0], vec![1_000, 5]]).description(Lang::En);
        assert!(
            words.contains("1,006") && words.contains("1,005") && words.contains("01:00"),
            "{words}"
        );
        let nothing = chart(vec![vec![0, 0]]).description(Lang::En);
        assert_eq!(nothing, Lang::En.t("chart-nothing"));
    }

    #[test]
    fn few_labels_stand_below_many_bars() {
        for (bars, expected) in [(1, 1), (7, 7), (24, 6), (30, 6), (92, 7)] {
            let labels = chart(vec![vec![1, 1]; bars]).labels().into_string();
            assert_eq!(labels.matches("<text").count(), expected, "{bars} bars");
        }
    }

    proptest! {
        #[test]
        fn bars_stay_in_the_picture(values in prop::collection::vec(prop::collection::vec(any::<i64>(), 2), 0..40)) {
            let chart = chart(values);
            let svg = chart.show(Lang::En).into_string();
            prop_assert!(svg.contains("</svg>"));
            for n in 0..chart.bars.len() {
                let (begin, width) = chart.place(n);
                prop_assert!(width > 0 && begin + width <= WIDTH);
            }
        }

        #[test]
        fn more_is_never_lower(one in 0..1_000_000_i64, two in 0..1_000_000_i64) {
            let top = ceiling(one.max(two));
            prop_assert!(one <= two || height(one, top) >= height(two, top));
            prop_assert!(height(one, top) <= PLOT);
            prop_assert_eq!(height(one, top) == 0, one == 0);
        }
    }
}
