//! Draws `dikala top` and applies its keys. It depends on neither the terminal nor the listener.

use ratatui::{
    Frame,
    crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers},
    layout::{Constraint, Layout, Rect},
    style::{Modifier, Style, Stylize},
    text::{Line, Span},
    widgets::{Cell, Paragraph, Row as TableRow, Sparkline, Table, Wrap},
};

use super::{
    TopReading,
    actors::{ActorRow, COLUMNS, COLUMNS_COUNT, SORTED_AT_FIRST, sort, written},
    overview::{TopFigure, TopOverview},
};

/// The longest shown name.
const NAME_WIDTH_MAX: usize = 32;
/// Spaces between two columns.
const GAP: u16 = 2;
/// Lines reserved for the actors' table and its header, if the terminal has them.
const ACTORS_HEIGHT_MIN: u16 = 6;
/// Lines scrolled by a page key.
const PAGE: usize = 10;

/// State of the view.
#[derive(Debug)]
pub struct TopView {
    /// The listener's address.
    place: String,
    look: Option<TopReading>,
    /// The reason for a missing answer, and its duration in seconds.
    away: Option<(String, u64)>,
    sorted_by: usize,
    reversed: bool,
    by_message: bool,
    /// Number of rows scrolled past.
    first: usize,
}

impl TopView {
    pub fn new(place: &str) -> Self {
        Self {
            place: place.to_owned(),
            look: None,
            away: None,
            sorted_by: SORTED_AT_FIRST,
            reversed: false,
            by_message: false,
            first: 0,
        }
    }

    /// Records an answer of the listener.
    pub fn seen(&mut self, look: TopReading) {
        self.look = Some(look);
        self.away = None;
    }

    /// Records that the listener does not answer, and for how long.
    pub fn missed(&mut self, why: &str, seconds: u64) {
        self.away = Some((why.to_owned(), seconds));
    }

    /// Applies a key. Returns false to quit.
    pub fn press(&mut self, event: &Event) -> bool {
        let Event::Key(key) = event else {
            return true;
        };
        if key.kind == KeyEventKind::Release {
            return true;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('c') if control => return false,
            KeyCode::Left => self.sorted_by = (self.sorted_by + COLUMNS_COUNT - 1) % COLUMNS_COUNT,
            KeyCode::Right => self.sorted_by = (self.sorted_by + 1) % COLUMNS_COUNT,
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Char('m') => (self.by_message, self.first) = (!self.by_message, 0),
            KeyCode::Up => self.first = self.first.saturating_sub(1),
            KeyCode::Down => self.first = self.first.saturating_add(1),
            KeyCode::PageUp => self.first = self.first.saturating_sub(PAGE),
            KeyCode::PageDown => self.first = self.first.saturating_add(PAGE),
            KeyCode::Home => self.first = 0,
            _ => {}
        }
        true
    }

    /// Draws everything that fits.
    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let problems = self.problems();
        let told = Paragraph::new(problems).wrap(Wrap { trim: true });
        let count = self
            .look
            .as_ref()
            .map_or(0, |look| look.overview.figures.len());
        let count = u16::try_from(count).unwrap_or(u16::MAX);
        let told_height = wrapped(&told, area.width).clamp(1, (area.height / 4).max(1));
        let left = area.height.saturating_sub(2 + told_height);
        let figures_height = count.min(left.saturating_sub(ACTORS_HEIGHT_MIN));
        let [head, told_in, figures, actors, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(told_height),
            Constraint::Length(figures_height),
            Constraint::Min(0),
            Constraint::Length(1),
        ])
        .areas(area);
        frame.render_widget(self.head(), head);
        frame.render_widget(told, told_in);
        if let Some(look) = self.look.clone() {
            draw_figures(frame, figures, &look.overview.figures);
            self.draw_actors(frame, actors, &look);
        }
        frame.render_widget(self.foot(), foot);
    }

    fn head(&self) -> Line<'static> {
        let mut spans = vec!["dikala top  ".bold(), self.place.clone().into()];
        if let Some(TopReading { overview, .. }) = &self.look {
            let TopOverview { node, version, .. } = overview;
            let uptime = overview.uptime();
            spans.push(format!("  {node} {version}, up {uptime}").into());
        }
        Line::from(spans)
    }

    /// The problems, worst first; a missing answer comes before all.
    fn problems(&self) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        if let Some((why, seconds)) = &self.away {
            let since = match &self.look {
                None => String::new(),
                Some(look) => format!("; what is shown was so at {}", look.overview.at),
            };
            let sentence = format!("✗ {why} for {seconds} s{since}");
            lines.push(Line::styled(sentence, severe(true)));
        }
        match &self.look {
            None if self.away.is_none() => lines.push("…".into()),
            None => {}
            Some(look) if look.overview.problems.is_empty() && self.away.is_none() => {
                lines.push(Line::from("✓ Nothing is wrong.").green());
            }
            Some(look) => lines.extend(look.overview.problems.iter().map(|problem| {
                let style = severe(problem.is_critical());
                let mark = if problem.is_critical() { "✗" } else { "!" };
                Line::styled(format!("{mark} {}", problem.sentence()), style)
            })),
        }
        lines
    }

    fn draw_actors(&mut self, frame: &mut Frame<'_>, area: Rect, look: &TopReading) {
        let mut rows = look.actors.rows(self.by_message);
        sort(&mut rows, self.sorted_by, self.reversed);
        // Keeps the last row on the screen.
        self.first = self.first.min(rows.len().saturating_sub(1));
        let widths = widths(&rows, area.width);
        let shown = widths.len().saturating_sub(1);
        let head = COLUMNS[..shown].iter().enumerate().map(|(at, column)| {
            let title = Line::from(column.title).right_aligned();
            let style = match at == self.sorted_by {
                true => Style::new().reversed(),
                false => Style::new(),
            };
            Cell::from(title).style(style)
        });
        let named = if self.by_message { "message" } else { "actor" };
        let head = TableRow::new(std::iter::once(Cell::from(named)).chain(head)).bold();
        let rows = rows.iter().skip(self.first).map(|row| {
            let figures = row.figures[..shown].iter().zip(COLUMNS);
            let figures = figures.map(|(figure, column)| {
                Cell::from(Line::from(written(*figure, column)).right_aligned())
            });
            TableRow::new(std::iter::once(Cell::from(row.name.clone())).chain(figures))
        });
        let table = Table::new(rows, widths).header(head).column_spacing(GAP);
        let [above, below] =
            Layout::vertical([Constraint::Min(0), Constraint::Length(1)]).areas(area);
        frame.render_widget(table, above);
        frame.render_widget(Line::from(look.actors.lateness()), below);
    }

    fn foot(&self) -> Line<'static> {
        let column = COLUMNS[self.sorted_by].title;
        let order = if self.reversed { "least" } else { "most" };
        let text = format!("q ends  ←→ sort ({order} {column})  r reverse  ↑↓ scroll  m messages");
        Line::from(text).dim()
    }
}

fn severe(critical: bool) -> Style {
    match critical {
        true => Style::new().red().add_modifier(Modifier::BOLD),
        false => Style::new().yellow(),
    }
}

/// The number of lines that a text wraps to.
fn wrapped(text: &Paragraph<'_>, width: u16) -> u16 {
    let mut lines = 0;
    let mut buffer = ratatui::buffer::Buffer::empty(Rect::new(0, 0, width, 32));
    ratatui::widgets::Widget::render(text, buffer.area, &mut buffer);
    for y in 0..buffer.area.height {
        if (0..width).any(|x| buffer[(x, y)].symbol() != " ") {
            lines = y + 1;
        }
    }
    lines
}

/// A line per figure: label, value, limit and history.
fn draw_figures(frame: &mut Frame<'_>, area: Rect, figures: &[TopFigure]) {
    let longest = |of: fn(&TopFigure) -> String| -> u16 {
        let widths = figures.iter().map(|figure| of(figure).chars().count());
        u16::try_from(widths.max().unwrap_or(0)).unwrap_or(u16::MAX)
    };
    let columns = [
        Constraint::Length(longest(|of| of.label.clone())),
        Constraint::Length(longest(TopFigure::value)),
        Constraint::Length(longest(TopFigure::limit)),
        Constraint::Min(0),
    ];
    for (figure, row) in figures.iter().zip(area.rows()) {
        let [label, value, limit, line] = Layout::horizontal(columns).spacing(GAP).areas(row);
        frame.render_widget(Span::from(figure.label.clone()), label);
        frame.render_widget(Line::from(figure.value()).right_aligned(), value);
        frame.render_widget(Span::from(figure.limit()).dim(), limit);
        let history = figure.history();
        let newest = history.len().saturating_sub(usize::from(line.width));
        frame.render_widget(Sparkline::default().data(&history[newest..]), line);
    }
}

/// Widths of the name's column and of as many others as fit.
fn widths(rows: &[ActorRow], width: u16) -> Vec<Constraint> {
    let widest = |cells: &mut dyn Iterator<Item = usize>| {
        u16::try_from(cells.max().unwrap_or(0)).unwrap_or(u16::MAX)
    };
    let names = rows
        .iter()
        .map(|row| row.name.chars().count().min(NAME_WIDTH_MAX));
    let mut used = widest(&mut names.chain(["message".len()]));
    let mut widths = vec![Constraint::Length(used)];
    for (at, column) in COLUMNS.iter().enumerate() {
        let cells = rows
            .iter()
            .map(|row| written(row.figures[at], *column).chars().count());
        let wide = widest(&mut cells.chain([column.title.len()]));
        used = used.saturating_add(GAP).saturating_add(wide);
        if used > width {
            break;
        }
        widths.push(Constraint::Length(wide));
    }
    widths
}
