//! CSV files (RFC 4180) and their streamed answers.
//!
//! Spreadsheets evaluate a cell that begins with certain characters as a formula, and callers can influence cells.
//! An apostrophe before such a character disarms it.
//!
//! It is also inserted inside texts: in many locales, Indonesian among them, spreadsheets split cells at `;` and
//! treat a quote inside a cell as a plain character.

use std::{
    future::ready,
    sync::Arc,
    time::{Duration, Instant},
};

use actix_web::{
    HttpResponse,
    http::header::{CONTENT_DISPOSITION, CONTENT_TYPE},
};
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use tokio::sync::Semaphore;

use super::view::SignedIn;
use crate::{api::listing, http::error::ApiError};

/// Characters that begin a formula. East Asian spreadsheets also accept the full-width forms.
const FORMULA: [char; 10] = [
    '=', '+', '-', '@', '\t', '\r', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}',
];
/// Characters that some spreadsheets split cells at. Commas are always quoted, and every spreadsheet that splits at
/// commas honours quotes.
const ENDS: [char; 4] = [';', '\t', '\n', '\r'];
/// Timeout of a whole file.
const WHOLE: Duration = Duration::from_secs(60 * 60);

#[derive(Clone, Debug, Default)]
pub struct CsvLine {
    text: String,
    cells: usize,
}

impl CsvLine {
    pub fn new() -> Self {
        Self::default()
    }

    /// The header line.
    pub fn header(names: &[&str]) -> String {
        let line = names.iter().fold(Self::new(), |line, name| line.text(name));
        line.end()
    }

    /// A cell with arbitrary text.
    pub fn text(mut self, text: &str) -> Self {
        self.begin();
        let needs_quotes = text.contains(['"', ',', '\n', '\r']) || text.trim() != text;
        let defused = defused(text);
        let inner = match needs_quotes {
            true => format!("\"{}\"", defused.replace('"', "\"\"")),
            false => defused,
        };
        self.text.push_str(&inner);
        self
    }

    /// A cell with a text, or an empty one.
    pub fn maybe(self, text: Option<impl ToString>) -> Self {
        let text = text.map(|text| text.to_string()).unwrap_or_default();
        self.text(&text)
    }

    /// A cell with a number. It needs no apostrophe: a signed number is no formula.
    pub fn figure(mut self, value: Option<i64>) -> Self {
        self.begin();
        if let Some(value) = value {
            self.text.push_str(&value.to_string());
        }
        self
    }

    /// Ends the line.
    pub fn end(mut self) -> String {
        self.text.push_str("\r\n");
        self.text
    }

    fn begin(&mut self) {
        if self.cells > 0 {
            self.text.push(',');
        }
        self.cells += 1;
    }
}

/// The text with an apostrophe before each character that could begin a formula.
fn defused(text: &str) -> String {
    let mut defused = String::with_capacity(text.len());
    let mut begins = true;
    for sign in text.chars() {
        if begins && FORMULA.contains(&sign) {
            defused.push('\'');
        }
        defused.push(sign);
        // Spreadsheets skip quotes and blanks at the beginning of a cell before they look for a formula.
        begins = ENDS.contains(&sign) || (begins && (sign == '"' || sign.is_whitespace()));
    }
    defused
}

/// Streams a file: the header line, then `pieces`. It aborts on a read error, at the end of the session, or if the
/// client stops reading, so that no client takes a partial file for a whole one.
///
/// `name` is the file's name without its extension; letters, digits and `-`.
pub fn answer(
    visit: &SignedIn,
    name: &str,
    columns: &[&str],
    pieces: impl Stream<Item = Result<String, ApiError>> + 'static,
) -> Result<HttpResponse, ApiError> {
    let asker = visit.clone();
    let pieces = pieces.and_then(move |piece| {
        let asker = asker.clone();
        async move {
            match asker.is_signed_in().await? {
                true => Ok(piece),
                false => Err(ApiError::Unavailable),
            }
        }
    });
    let services = visit.services();
    let place = services.http.exports.take(visit.tenant());
    let place = place.ok_or(ApiError::ExportRunning)?;
    let pieces = paced(pieces, Arc::clone(&services.http.export_reads));
    let header = CsvLine::header(columns);
    let all = stream::once(ready(Ok(header)))
        .chain(pieces)
        .inspect(move |_| _ = &place);
    let body = listing::in_pieces(&services, visit.tenant(), WHOLE, all)?;
    let file = format!("attachment; filename=\"{name}.csv\"");
    Ok(HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, "text/csv; charset=utf-8"))
        .insert_header((CONTENT_DISPOSITION, file))
        .streaming(body))
}

/// Reads each piece under a permit, and pauses after it for as long as it took. So an export uses at most half a CPU
/// core, and all exports together no more than there are permits.
fn paced<T>(
    pieces: impl Stream<Item = T> + 'static,
    reads: Arc<Semaphore>,
) -> impl Stream<Item = T> {
    stream::unfold(
        (Box::pin(pieces), reads),
        |(mut pieces, reads)| async move {
            let permit = reads.acquire().await.ok()?;
            let began = Instant::now();
            let piece = pieces.next().await?;
            drop(permit);
            tokio::time::sleep(began.elapsed()).await;
            Some((piece, (pieces, reads)))
        },
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("plain", "plain")]
    #[case("", "")]
    #[case("a,b", "\"a,b\"")]
    #[case("say \"hi\"", "\"say \"\"hi\"\"\"")]
    #[case("two\nlines", "\"two\nlines\"")]
    #[case(" blank", "\" blank\"")]
    #[case("=1+1", "'=1+1")]
    #[case("+6281234567890", "'+6281234567890")]
    #[case("-2", "'-2")]
    #[case("@SUM(A1)", "'@SUM(A1)")]
    #[case("\t=1", "\"'\t'=1\"")]
    #[case("\r=1", "\"'\r'=1\"")]
    #[case(
        "=HYPERLINK(\"http://x\",\"y\")",
        "\"'=HYPERLINK(\"\"http://x\"\",\"\"y\"\")\""
    )]
    #[case("a=1", "a=1")]
    #[case("x;=1+1", "x;'=1+1")]
    #[case("x;\"=1\"", "\"x;\"\"'=1\"\"\"")]
    #[case("x\t@a", "x\t'@a")]
    #[case("x\n-1", "\"x\n'-1\"")]
    #[case("x; y - z", "x; y - z")]
    #[case(" =1", "\" '=1\"")]
    #[case("\u{3000}=1", "\"\u{3000}'=1\"")]
    #[case("x; =1", "x; '=1")]
    #[case("\u{ff1d}1+1", "'\u{ff1d}1+1")]
    #[case("\u{ff20}SUM", "'\u{ff20}SUM")]
    fn cells(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(CsvLine::new().text(text).end(), format!("{expected}\r\n"));
    }

    #[test]
    fn a_line_has_its_cells_in_order() {
        let line = CsvLine::new()
            .figure(Some(-2))
            .maybe(None::<&str>)
            .figure(None)
            .text("x");
        assert_eq!(line.end(), "-2,,,x\r\n");
        assert_eq!(CsvLine::header(&["id", "at"]), "id,at\r\n");
    }

    /// Splits a line as spreadsheets do: at the separator and at line breaks outside of quotes. An opening quote is
    /// the first character of its cell. With a comma this is RFC 4180.
    fn read(line: &str, separator: char) -> Vec<String> {
        let (mut cells, mut quoted, mut begins) = (vec![String::new()], false, true);
        let mut signs = line.trim_end_matches("\r\n").chars().peekable();
        while let Some(sign) = signs.next() {
            let cell = cells.last_mut().expect("there is one");
            let ends = !quoted && [separator, '\n', '\r'].contains(&sign);
            match sign {
                _ if ends => cells.push(String::new()),
                '"' if quoted && signs.peek() == Some(&'"') => {
                    signs.next();
                    cell.push('"');
                }
                '"' if quoted || begins => quoted = begins,
                other => cell.push(other),
            }
            begins = ends;
        }
        cells
    }

    #[actix_web::test]
    async fn a_file_rests_for_as_long_as_it_works() {
        let work = Duration::from_millis(10);
        let pieces = stream::iter(0..5).map(move |piece| {
            std::thread::sleep(work);
            piece
        });
        let began = Instant::now();
        let reads = Arc::new(Semaphore::new(1));
        assert_eq!(
            paced(pieces, reads).collect::<Vec<_>>().await,
            [0, 1, 2, 3, 4]
        );
        let took = began.elapsed();
        assert!(took >= 2 * 5 * work, "{took:?}");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(texts in prop::collection::vec("[-=+@,;\"\r\n\t' a-z]{0,8}", 1..6)) {
            let line = texts.iter().fold(CsvLine::new(), |line, text| line.text(text)).end();
            let cells = read(&line, ',');
            prop_assert_eq!(cells.len(), texts.len());
            for (cell, text) in cells.iter().zip(&texts) {
                prop_assert_eq!(cell.replace('\'', ""), text.replace('\'', ""));
                if !text.contains(FORMULA) {
                    prop_assert_eq!(cell, text);
                }
            }
        }

        #[test]
        fn nothing_is_a_formula_wherever_cells_end(texts in prop::collection::vec("[-=+@,;\"\r\n\t' a-z]{0,8}", 1..6)) {
            let line = texts.iter().fold(CsvLine::new(), |line, text| line.text(text)).end();
            for separator in [',', ';', '\t'] {
                for cell in read(&line, separator) {
                    prop_assert!(!cell.trim_start_matches(' ').starts_with(FORMULA), "{:?} of {:?} at {:?}", cell, line, separator);
                }
            }
        }
    }
}
