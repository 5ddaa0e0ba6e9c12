//! Cuts the model's text into clauses, which are spoken one after the other, and makes them speakable.

/// The longest clause, in characters. Speech servers take 4,096.
const LONGEST: usize = 300;
/// Characters from which a comma, a colon or a semicolon ends a clause.
const AFTER_COMMA: usize = 60;
/// Words before a full stop that is no end of a sentence.
const ABBREVIATIONS: &[&str] = &[
    "approx", "bp", "bpk", "co", "cv", "dept", "dr", "dra", "drg", "drs", "ext", "gg", "hlm",
    "inc", "ir", "jl", "jln", "jr", "kab", "kec", "kel", "ltd", "mr", "mrs", "ms", "nn", "ny",
    "prof", "prov", "pt", "rp", "sdr", "sdri", "sr", "st", "telp", "tgl", "tlp", "tn", "vs",
];
/// Signs that may stand between the end of a sentence and the next space.
const CLOSERS: [char; 8] = ['"', '\'', ')', ']', '”', '’', '*', '_'];

/// The text that is not a whole clause yet.
#[derive(Debug, Default)]
pub(super) struct ClauseCutter {
    text: String,
}

impl ClauseCutter {
    /// Adds a piece of text. Returns the clauses that are complete with it.
    pub(super) fn push(&mut self, piece: &str) -> Vec<String> {
        self.text.push_str(piece);
        let mut clauses = Vec::new();
        while let Some(end) = boundary(&self.text) {
            let rest = self.text.split_off(end);
            let clause = std::mem::replace(&mut self.text, rest);
            clauses.extend(speakable(&clause));
        }
        clauses
    }

    /// The text has ended: the rest is a clause.
    pub(super) fn finish(&mut self) -> Option<String> {
        speakable(&std::mem::take(&mut self.text))
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
    }
}

/// The end of the first clause, in bytes; `None` if it may go on.
fn boundary(text: &str) -> Option<usize> {
    for (count, (at, sign)) in text.char_indices().enumerate() {
        let end = at + sign.len_utf8();
        if matches!(sign, '\n' | '。' | '！' | '？') {
            return Some(end);
        }
        if matches!(sign, '.' | '!' | '?' | '…' | ',' | ':' | ';') {
            let rest = text[end..].trim_start_matches(CLOSERS);
            let is_before_space = rest.starts_with(char::is_whitespace);
            let goes_on = match sign {
                '.' => is_abbreviation(&text[..at], rest),
                ',' | ':' | ';' => count < AFTER_COMMA,
                _ => false,
            };
            if is_before_space && !goes_on {
                return Some(text.len() - rest.len());
            }
        }
        if count + 1 >= LONGEST {
            let space = text[..end].trim_end().rfind(char::is_whitespace);
            return Some(space.filter(|space| *space > 0).unwrap_or(end));
        }
    }
    None
}

/// True if the full stop between these texts is no end of a sentence.
fn is_abbreviation(before: &str, after: &str) -> bool {
    let word = before.rsplit(char::is_whitespace).next().unwrap_or(before);
    let word = word.trim_start_matches(|sign: char| !sign.is_alphanumeric());
    let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    if is_number {
        // The number of an entry in a list.
        return word.len() <= 2 && before.trim() == word;
    }
    let mut parts = word.split('.');
    if parts.all(|part| part.chars().count() == 1 && part.chars().all(char::is_alphabetic)) {
        return true;
    }
    let word = word.to_lowercase();
    match word.as_str() {
        // A number may follow, or it was the whole answer.
        "no" => {
            let next = after.trim_start().chars().next();
            next.is_none_or(|next| next.is_ascii_digit())
        }
        word => ABBREVIATIONS.contains(&word),
    }
}

/// The text without marks that are not for the ear; `None` if nothing remains.
fn speakable(clause: &str) -> Option<String> {
    let mut text = clause.trim();
    while let Some(rest) = text
        .strip_prefix(['#', '>', '•', '*'])
        .or_else(|| text.strip_prefix("- "))
        .or_else(|| text.strip_prefix("+ "))
    {
        text = rest.trim_start();
    }
    let text = without_links(text);
    let mut spoken = String::with_capacity(text.len());
    let mut before = ' ';
    let mut signs = text.chars().peekable();
    while let Some(sign) = signs.next() {
        let at_an_edge =
            before.is_whitespace() || signs.peek().is_none_or(|it| !it.is_alphanumeric());
        match sign {
            '*' | '`' | '~' => continue,
            '_' if at_an_edge => continue,
            '|' => spoken.push(','),
            _ if is_picture(sign) => continue,
            _ if sign.is_whitespace() || sign.is_control() => {
                if !spoken.ends_with(' ') {
                    spoken.push(' ');
                }
            }
            _ => spoken.push(sign),
        }
        before = sign;
    }
    let spoken = spoken.trim();
    spoken
        .contains(char::is_alphanumeric)
        .then(|| spoken.to_owned())
}

/// `[words](address)` becomes `words`.
fn without_links(text: &str) -> String {
    let mut rest = text;
    let mut plain = String::with_capacity(text.len());
    while let Some(middle) = rest.find("](") {
        let begin = rest[..middle].rfind('[');
        let end = rest[middle..].find(')').map(|end| middle + end);
        let (Some(begin), Some(end)) = (begin, end) else {
            break;
        };
        plain.push_str(rest[..begin].trim_end_matches('!'));
        plain.push_str(&rest[begin + 1..middle]);
        rest = &rest[end + 1..];
    }
    plain.push_str(rest);
    plain
}

/// Emoji and dingbats, with the signs that join them.
fn is_picture(sign: char) -> bool {
    matches!(sign, '\u{1F000}'..='\u{1FAFF}' | '\u{2600}'..='\u{27BF}' | '\u{FE0F}' | '\u{200D}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    /// The clauses of a text that comes in pieces of this many characters.
    fn clauses(text: &str, size: usize) -> Vec<String> {
        let mut cutter = ClauseCutter::default();
        let signs: Vec<char> = text.chars().collect();
        let pieces = signs.chunks(size).map(String::from_iter);
        let mut clauses: Vec<String> = pieces
            .flat_map(|piece: String| cutter.push(&piece))
            .collect();
        clauses.extend(cutter.finish());
        clauses
    }

    #[rstest]
    #[case::sentences("Ya, ada. Mau pesan berapa? Baik!", &["Ya, ada.", "Mau pesan berapa?", "Baik!"])]
    #[case::thousands("Harganya Rp 1.500 saja. Mau?", &["Harganya Rp 1.500 saja.", "Mau?"])]
    #[case::abbreviated_currency("Harganya Rp. 1.500.000,50. Mau?", &["Harganya Rp. 1.500.000,50.", "Mau?"])]
    #[case::times("Kami buka pukul 10:30 sampai 21.00. Silakan datang.",
        &["Kami buka pukul 10:30 sampai 21.00.", "Silakan datang."])]
    #[case::decimals("It weighs 3.5 kg. Anything else?", &["It weighs 3.5 kg.", "Anything else?"])]
    #[case::titles("Bpk. Budi dan Dr. Sri ada. Ibu Prof. Ani tidak.",
        &["Bpk. Budi dan Dr. Sri ada.", "Ibu Prof. Ani tidak."])]
    #[case::streets("Jl. A. Yani No. 7, e.g. near the bank. Thanks.",
        &["Jl. A. Yani No. 7, e.g. near the bank.", "Thanks."])]
    #[case::a_plain_no("No. We are closed.", &["No.", "We are closed."])]
    #[case::a_number_at_the_end("Nomor antrean Anda 12. Silakan duduk.", &["Nomor antrean Anda 12.", "Silakan duduk."])]
    #[case::ellipsis("Tunggu... Ada.", &["Tunggu...", "Ada."])]
    #[case::quotes("Dia bilang \"ya.\" Lalu pergi.", &["Dia bilang \"ya.\"", "Lalu pergi."])]
    #[case::lists("Menu:\n1. Kopi\n2. Teh\n- **Susu** segar\n* Es", &["Menu:", "1. Kopi", "2. Teh", "Susu segar", "Es"])]
    #[case::headings("## Jam buka\n\nSetiap `hari`.", &["Jam buka", "Setiap hari."])]
    #[case::links("Lihat [situs kami](https://kopi.example/a.html) ya.", &["Lihat situs kami ya."])]
    #[case::tables("| Kopi | 10 |\n|---|---|\n", &[", Kopi , 10 ,"])]
    #[case::pictures("Siap! 😀👍\nTerima kasih ❤️", &["Siap!", "Terima kasih"])]
    #[case::snake("Kode a_b _penting_ ya.", &["Kode a_b penting ya."])]
    #[case::negative("Suhunya -5 derajat.", &["Suhunya -5 derajat."])]
    #[case::nothing(" \n ** \n", &[])]
    #[case::chinese("你好。再见！", &["你好。", "再见！"])]
    #[case::long_with_commas("Kami punya kopi susu gula aren yang dingin dan yang panas juga, teh tarik, dan roti bakar",
        &["Kami punya kopi susu gula aren yang dingin dan yang panas juga,", "teh tarik, dan roti bakar"])]
    fn texts_become_clauses(#[case] text: &str, #[case] expected: &[&str]) {
        for size in [1, 2, 3, 7, 1_000] {
            assert_eq!(clauses(text, size), expected, "in pieces of {size}");
        }
    }

    #[rstest]
    #[case("kata ".repeat(200))]
    #[case("a".repeat(1_000))]
    #[case("字".repeat(1_000))]
    fn text_without_punctuation_is_cut_all_the_same(#[case] text: String) {
        let clauses = clauses(&text, 10);
        assert!(clauses.len() > 3);
        assert!(clauses.iter().all(|it| it.chars().count() <= LONGEST));
        let letters = |text: &str| text.chars().filter(|it| !it.is_whitespace()).count();
        let sum: usize = clauses.iter().map(|it| letters(it)).sum();
        assert_eq!(sum, letters(&text));
    }

    proptest! {
        #[test]
        fn nothing_panics_and_clauses_are_short(text in "\\PC{0,400}", more in "[ .,!?*_|\\]\\[()\n#a-c0-9]{0,400}") {
            for clause in clauses(&format!("{text}{more}"), 5) {
                prop_assert!(clause.chars().count() <= LONGEST && !clause.trim().is_empty());
            }
        }
    }
}
